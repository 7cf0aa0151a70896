"""The server's grid: it wraps Flower's, and strategies use it unchanged."""

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flwr.app import ArrayRecord, Message
from flwr.serverapp import Grid

from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.feedback import Feedback
from fewbits.flower.direction import Direction
from fewbits.flower.server.downlink import Downlink
from fewbits.flower.server.inbox import Answers, Inbox
from fewbits.flower.server.nodes import GridReport, Nodes
from fewbits.flower.server.outbox import Outbox
from fewbits.flower.server.replies import ReplyReader
from fewbits.flower.server.ticket import Rejection, Ticket
from fewbits.flower.server.traffic import TrafficMeter
from fewbits.policy import Policy
from fewbits.rng import Rng

_OUTSTANDING = 10_000  # messages that were pushed and not answered yet
_STRANGER = "it does not hold the model that it was sent a change of"


class CompressedGrid(Grid):
    """Compresses what a strategy sends and rebuilds what it receives; clients need `client_mod`.

    `operator` is that of both ways; `uplink` names another one for the replies, `downlink` for
    what is sent to the clients. The replies' one, `feedback` and `policy` must be those of
    `client_mod`. Strategies weight replies by the metric
    `weighted_by`, which must be from 0 to `max_weight`. With `uniform`, replies that are not made
    like most of an exchange are left out, because Flower's strategies give up the round otherwise.
    The grid remembers `max_nodes` nodes, with their shifts if the feedback has any; who is
    forgotten gets the whole model and starts from an empty memory when it comes back.

    A strategy sees replies that are left out as errors, `rejections` lists them, and Flower's log
    names them.
    """

    def __init__(
        self,
        grid: Grid,
        operator: str | Operator | None = None,
        *,
        uplink: str | Operator | None = None,
        downlink: str | Operator | None = None,
        feedback: str | Feedback | None = None,
        policy: Policy | Mapping[str, str | Operator] | None = None,
        weighted_by: str = "num-examples",
        max_weight: float = 2.0**40,
        uniform: bool = True,
        max_nodes: int = 10_000,
        seed: int | None = None,
    ) -> None:
        if not isinstance(grid, Grid):
            raise SpecError(f"CompressedGrid takes Flower's grid, got {type(grid).__name__}")
        if not max_weight > 0:
            raise SpecError(f"max_weight must be positive, got {max_weight!r}")
        if not isinstance(max_nodes, int) or max_nodes < 1:
            raise SpecError(f"max_nodes must be a positive whole number, got {max_nodes!r}")
        up, down = (operator if own is None else own for own in (uplink, downlink))
        if up is None or down is None:
            raise SpecError("CompressedGrid takes an operator, or both uplink= and downlink=")
        direction = Direction.of(up, feedback, policy)
        direction.warn_of_bias()
        rng = Rng.fresh() if seed is None else Rng.from_seed(seed)
        session = secrets.token_hex(8)
        reader = ReplyReader(session, direction, weighted_by, max_weight)
        self._grid, self._uniform, self._nodes = grid, uniform, Nodes(max_nodes)
        self._downlink = Downlink(Direction.of(down, None, policy), rng, self._nodes)
        self._outbox = Outbox(session, self._downlink, self._nodes)
        self._meter = TrafficMeter(max_nodes)
        self._inbox = Inbox(self._nodes, reader, self._meter)
        self._pushed: dict[str, Ticket] = {}

    @property
    def reference(self) -> dict[str, ArrayRecord]:
        """The newest model by record, the same bits as on every client that received it."""
        model = self._downlink.model
        return {} if model is None else model.records

    @property
    def rejections(self) -> list[Rejection]:
        """Clients that were left out, oldest first: in which exchange and why."""
        return list(self._inbox.rejections)

    def report(self) -> GridReport:
        """Bytes by exchange and by node, replies that were left out, nodes and their memories."""
        return GridReport(
            exchanges=self._inbox.exchange,
            rejected=self._inbox.rejected_replies,
            nodes=len(self._nodes),
            evicted=self._nodes.evicted,
            memory_bytes=self._nodes.memory_bytes,
            traffic=self._meter.total,
            rounds=self._meter.rounds,
            by_node=self._meter.nodes,
        )

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Send messages compressed and return the replies rebuilt.

        A client that was restarted and has lost the model gets the whole model at once, within the
        time that is left.
        """
        end = None if timeout is None else time.monotonic() + timeout
        self._inbox.exchange += 1
        originals = list(messages)
        tickets = self._tickets(originals)
        answers = self._exchanged(tickets, timeout)
        left = None if end is None else end - time.monotonic()
        if answers.strangers and (left is None or left > 0):
            lost = {ticket.number for ticket in answers.strangers}
            pairs = zip(originals, tickets, strict=True)
            missed = [original for original, ticket in pairs if ticket.number in lost]
            late = self._exchanged(self._tickets(missed, again=True), left)
            answers = Answers(answers.found + late.found, late.strangers)
        return self._taken(answers, uniform=self._uniform)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        self._inbox.exchange += 1
        tickets = self._tickets(list(messages))
        ids = list(self._grid.push_messages([ticket.message for ticket in tickets]))
        own = {ticket.message.metadata.message_id: ticket for ticket in tickets}
        for one, ticket in zip(ids, tickets, strict=False):
            self._pushed[one] = own.get(one, ticket)  # some grids leave out what they cannot send
        while len(self._pushed) > _OUTSTANDING:
            del self._pushed[next(iter(self._pushed))]
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Replies that have arrived, rebuilt; each is checked by itself, even with `uniform`."""
        wanted = list(message_ids)
        replies = list(self._grid.pull_messages(wanted))
        tickets = [self._pushed[one] for one in wanted if one in self._pushed]
        answers = self._inbox.read(replies, tickets)
        done = {one.number for one in [*answers.strangers, *(own.ticket for own in answers.found)]}
        for one in wanted:
            if one in self._pushed and self._pushed[one].number in done:
                del self._pushed[one]
        return self._taken(answers, uniform=False)

    def _tickets(self, originals: Sequence[Message], *, again: bool = False) -> list[Ticket]:
        made = self._outbox.tickets(originals, again=again)
        self._meter.sent(self._inbox.exchange, originals, [ticket.message for ticket in made])
        return made

    def _exchanged(self, tickets: Sequence[Ticket], timeout: float | None) -> Answers:
        sent = [ticket.message for ticket in tickets]
        replies = self._grid.send_and_receive(sent, timeout=timeout)
        return self._inbox.read(list(replies), tickets)

    def _taken(self, answers: Answers, *, uniform: bool) -> list[Message]:
        lost = [self._inbox.rejected(ticket, _STRANGER) for ticket in answers.strangers]
        return self._inbox.taken(answers.found + lost, uniform=uniform)

    # These methods only call Flower's grid.

    def set_run(self, run: Any) -> None:
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        return self._grid.run

    def create_message(self, *arguments: Any, **named: Any) -> Message:
        return self._grid.create_message(*arguments, **named)

    def get_node_ids(self) -> Iterable[int]:
        return self._grid.get_node_ids()

    def get_nodes(self) -> Any:
        return self._grid.get_nodes()

    def __getattr__(self, name: str) -> Any:
        if name == "_grid":  # asked for before it is there
            raise AttributeError(name)
        return getattr(self._grid, name)
