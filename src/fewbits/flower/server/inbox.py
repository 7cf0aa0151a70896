"""Checks replies for the strategy: takes each, or leaves it out and names its sender."""

import logging
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field

from flwr.app import Error, Message

from fewbits.flower.arrays import fault
from fewbits.flower.control import Response
from fewbits.flower.server.nodes import Memory, Nodes
from fewbits.flower.server.replies import CheckedReply, ReplyReader
from fewbits.flower.server.ticket import Rejection, Ticket
from fewbits.flower.server.traffic import TrafficMeter
from fewbits.flower.server.uniform import unlike_most

_LOG = logging.getLogger("flwr")
_ERROR_CODE = 100  # Flower's own are below; a strategy only reads the reason
_REMEMBERED = 100_000  # rejections
_UNKNOWN = 0  # the node of a message that does not tell it; Flower gives none this number


@dataclass(frozen=True, slots=True)
class Answer:
    """The message for the strategy, and the reply that it was made of, None for an error."""

    message: Message
    ticket: Ticket
    checked: CheckedReply | None = None


@dataclass(slots=True)
class Answers:
    """The answers of one exchange, and the tickets of clients that need the whole model."""

    found: list[Answer] = field(default_factory=list)
    strangers: list[Ticket] = field(default_factory=list)


class Inbox:
    """Reads replies; `exchange` is the number that rejections carry.

    Whatever a client has sent, and whatever error it leads to, costs only that client's reply.
    """

    def __init__(self, nodes: Nodes, reader: ReplyReader, meter: TrafficMeter) -> None:
        self._nodes, self._reader, self._meter = nodes, reader, meter
        self.exchange = self.rejected_replies = 0
        self.rejections: deque[Rejection] = deque(maxlen=_REMEMBERED)

    def read(self, replies: Sequence[Message], tickets: Sequence[Ticket]) -> Answers:
        """Every reply, checked. Who answers more often than it was asked is left out."""
        self._reader.prepare(tickets)
        expected: dict[int, list[Ticket]] = {}
        for ticket in tickets:
            expected.setdefault(ticket.node, []).append(ticket)
        answers = Answers()
        sent = self._sent(replies, expected, answers)
        for node, count in Counter(node for node, _ in sent).items():
            if node not in expected:
                self._name(node, "it was not asked" if node else "its sender cannot be read")
            elif count > len(expected[node]):
                answers.found.append(self.rejected(expected[node][0], "it repeats its reply"))
                del expected[node]
        for node, reply in sent:
            if expected.get(node):
                self._meter.received(self.exchange, node, reply)
                self._read_one(reply, expected[node], answers)
        return answers

    def _sent(
        self, replies: Sequence[Message], expected: Mapping[int, list[Ticket]], answers: Answers
    ) -> list[tuple[int, Message]]:
        """Replies with their senders, but for errors by which Flower says that none will come."""
        tickets = {one.message.metadata.message_id: one for own in expected.values() for one in own}
        tickets.pop("", None)
        sent = []
        for reply in replies:
            node = _sender(reply)
            missed = tickets.get(_failed_message(reply)) if node not in expected else None
            if missed is None:
                sent.append((node, reply))
            else:
                answers.found.append(self._failed(reply, missed))
        return sent

    def _read_one(self, reply: Message, tickets: list[Ticket], answers: Answers) -> None:
        """Read a reply to one of the tickets, which is then used up."""
        ticket = tickets.pop(_asked(reply, tickets))
        try:
            if reply.has_error():
                answers.found.append(self._failed(reply, ticket))
                return
            checked = self._reader.read(reply, ticket)
            whole = copy(reply)
            whole.content = checked.content
        except Exception as error:
            answers.found.append(self.rejected(ticket, fault(error)))
            return
        if checked.stranger:
            self._nodes.distrust(ticket.node)
            answers.strangers.append(ticket)
        else:
            answers.found.append(Answer(whole, ticket, checked))

    def _failed(self, reply: Message, ticket: Ticket) -> Answer:
        """A client's own error, or Flower's that there is no reply."""
        self._nodes.distrust(ticket.node)
        return Answer(reply, ticket)

    def taken(self, answers: Sequence[Answer], *, uniform: bool) -> list[Message]:
        """The replies for the strategy; the memories of those taken are updated."""
        left_out = _useless(answers) if uniform else {}
        final = []
        for answer in answers:
            if (reason := left_out.get(id(answer))) is not None:
                final.append(self.rejected(answer.ticket, reason).message)
                continue
            if answer.checked is not None:
                self._meter.rebuilt(self.exchange, answer.ticket.node, answer.message)
                self._take(answer.checked, answer.ticket)
            final.append(answer.message)
        return final

    def _take(self, reply: CheckedReply, ticket: Ticket) -> None:
        if ticket.model is None:
            return
        state = self._nodes.seen(ticket.node)
        state.held = ticket.model.version
        if reply.memories:
            state.memory = Memory(ticket.number, reply.memories)

    def rejected(self, ticket: Ticket, reason: str) -> Answer:
        """Name a client; the strategy gets an error in place of its reply."""
        self._name(ticket.node, reason)
        error = Error(_ERROR_CODE, f"fewbits: {reason}")
        return Answer(Message(error, reply_to=ticket.message), ticket)

    def _name(self, node: int, reason: str) -> None:
        self.rejections.append(Rejection(self.exchange, node, reason))
        self.rejected_replies += 1
        self._nodes.distrust(node)
        _LOG.warning("fewbits: node %d is left out of exchange %d: %s", node, self.exchange, reason)


def _useless(answers: Sequence[Answer]) -> dict[int, str]:
    """Answers, by their ids, with which Flower's strategies would give up the round, and why."""
    good = [(id(answer), answer.checked) for answer in answers if answer.checked is not None]
    odd = unlike_most([checked.make for _, checked in good])
    useless = {good[place][0]: "its records are not made like most others'" for place in odd}
    rest = [(answer, checked) for answer, checked in good if answer not in useless]
    if not any(checked.weighs for _, checked in rest):  # they would divide by the sum
        useless |= {answer: "its weight is 0, and so is everybody's" for answer, _ in rest}
    return useless


def _sender(reply: Message) -> int:
    try:
        node = reply.metadata.src_node_id
        return node if isinstance(node, int) else _UNKNOWN
    except Exception:
        return _UNKNOWN


def _failed_message(reply: Message) -> str:
    """The id of the message that a reply is an error in place of; empty if it is none."""
    try:
        return str(reply.metadata.reply_to_message_id) if reply.has_error() else ""
    except Exception:
        return ""


def _asked(reply: Message, tickets: Sequence[Ticket]) -> int:
    """The place of the ticket that a reply is for: the only one, or the one that it names."""
    if len(tickets) == 1:
        return 0
    try:
        number = Response.read(reply.content).ticket
    except Exception:
        return 0
    return next((place for place, one in enumerate(tickets) if one.number == number), 0)
