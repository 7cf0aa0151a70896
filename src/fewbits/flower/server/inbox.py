"""Checks replies for the strategy: takes each, or leaves it out and names its sender."""

import logging
from collections import Counter, deque
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field

from flwr.app import Error, Message

from fewbits.errors import DecodeError
from fewbits.flower.control import Response
from fewbits.flower.server.downlink import Downlink
from fewbits.flower.server.replies import CheckedReply, ReplyReader
from fewbits.flower.server.ticket import Rejection, Ticket
from fewbits.flower.server.uniform import unlike_most

_LOG = logging.getLogger("flwr")
_ERROR_CODE = 100  # Flower's own are below; a strategy only reads the reason
_REMEMBERED = 100_000  # rejections


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
    """Reads replies; `exchange` is the number that rejections carry."""

    def __init__(self, downlink: Downlink, reader: ReplyReader) -> None:
        self._downlink, self._reader = downlink, reader
        self.exchange = 0
        self.rejections: deque[Rejection] = deque(maxlen=_REMEMBERED)

    def read(self, replies: Sequence[Message], tickets: Sequence[Ticket]) -> Answers:
        """Every reply, checked. Who answers more often than it was asked is left out."""
        expected: dict[int, list[Ticket]] = {}
        for ticket in tickets:
            expected.setdefault(ticket.node, []).append(ticket)
        counts = Counter(reply.metadata.src_node_id for reply in replies)
        answers = Answers()
        for node, count in counts.items():
            if node not in expected:
                self._name(node, "it was not asked")
            elif count > len(expected[node]):
                answers.found.append(self.rejected(expected[node][0], "it repeats its reply"))
                del expected[node]
        for reply in replies:
            if (own := expected.get(reply.metadata.src_node_id)) is not None:
                self._read_one(reply, _asked(reply, own), answers)
        return answers

    def _read_one(self, reply: Message, ticket: Ticket, answers: Answers) -> None:
        if reply.has_error():
            self._downlink.held.pop(ticket.node, None)
            answers.found.append(Answer(reply, ticket))
            return
        try:
            checked = self._reader.read(reply, ticket)
        except DecodeError as error:
            answers.found.append(self.rejected(ticket, str(error)))
            return
        if checked.stranger:
            self._downlink.held.pop(ticket.node, None)
            answers.strangers.append(ticket)
            return
        whole = copy(reply)
        whole.content = checked.content
        answers.found.append(Answer(whole, ticket, checked))

    def taken(self, answers: Sequence[Answer], *, uniform: bool) -> list[Message]:
        """The replies for the strategy; the memories of those taken are updated."""
        good = [answer for answer in answers if answer.checked is not None]
        contents = [answer.message.content for answer in good] if uniform else []
        left_out = {id(good[place]) for place in unlike_most(contents)}
        final = []
        for answer in answers:
            if id(answer) in left_out:
                reason = "its records are not made like most others'"
                final.append(self.rejected(answer.ticket, reason).message)
                continue
            if answer.checked is not None:
                self._take(answer.checked, answer.ticket)
            final.append(answer.message)
        return final

    def _take(self, reply: CheckedReply, ticket: Ticket) -> None:
        self._reader.take(reply, ticket)
        if ticket.model is not None:
            self._downlink.held[ticket.node] = ticket.model.version

    def rejected(self, ticket: Ticket, reason: str) -> Answer:
        """Name a client; the strategy gets an error in place of its reply."""
        self._name(ticket.node, reason)
        error = Error(_ERROR_CODE, f"fewbits: {reason}")
        return Answer(Message(error, reply_to=ticket.message), ticket)

    def _name(self, node: int, reason: str) -> None:
        self.rejections.append(Rejection(self.exchange, node, reason))
        self._downlink.held.pop(node, None)
        _LOG.warning("fewbits: node %d is left out of exchange %d: %s", node, self.exchange, reason)


def _asked(reply: Message, tickets: list[Ticket]) -> Ticket:
    """The ticket that a reply is for: the node's only one, or the one that it names itself."""
    if len(tickets) == 1:
        return tickets[0]
    try:
        number = Response.read(reply.content).ticket if reply.has_content() else 0
    except DecodeError:
        number = 0
    return next((ticket for ticket in tickets if ticket.number == number), tickets[0])
