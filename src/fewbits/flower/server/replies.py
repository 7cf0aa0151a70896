"""The server's side of the uplink: checks replies, then rebuilds them as whole models.

Every fault of a reply is a `DecodeError` here; the grid names the client and continues.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

from fewbits.errors import DecodeError
from fewbits.feedback import Receiver, Rule
from fewbits.flower.arrays import Values, clipped, is_finite, is_framed, rebuilt, unframed, values
from fewbits.flower.control import CONTROL, Response
from fewbits.flower.direction import Direction
from fewbits.flower.records import Arrays, ArraysByName, Record, blaming, referred
from fewbits.flower.server.ticket import Ticket


@dataclass(slots=True)
class CheckedReply:
    """A reply as the strategy will see it, and the sender's memory if it is taken."""

    content: RecordDict
    memories: Arrays = field(default_factory=dict)
    stranger: bool = False


@dataclass(slots=True)
class ReplyReader:
    """Checks replies against the messages and the direction, and keeps the clients' shifts."""

    session: str
    direction: Direction
    weighted_by: str
    max_weight: float
    taken: dict[int, tuple[int, Arrays]] = field(default_factory=dict)

    def memory(self, node: int) -> int:
        """The ticket of a node's last reply whose memory was taken over; 0 if there is none."""
        return self.taken.get(node, (0, {}))[0]

    def read(self, reply: Message, ticket: Ticket) -> CheckedReply:
        """The reply's content with whole models; `DecodeError` if anything is wrong with it."""
        if not reply.has_content():
            raise DecodeError("a reply without content")
        content = reply.content
        if ticket.model is None:
            records = {name: self._checked(name, record) for name, record in content.items()}
            return CheckedReply(RecordDict(records))
        response = Response.read(content)
        self._check_response(response, ticket)
        if response.stranger:
            return CheckedReply(RecordDict(), stranger=True)
        before = self.taken[ticket.node][1] if response.memory else {}
        checked = CheckedReply(RecordDict())
        for name, record in content.items():
            if name == CONTROL:
                continue
            like = _reference(name, record, ticket.model.arrays, response)
            if like is None or not isinstance(record, ArrayRecord):
                checked.content[name] = self._checked(name, record)
                continue
            whole, memories = self._whole(name, record, like, before.get(name, {}))
            checked.content[name] = whole
            if memories:
                checked.memories[name] = memories
        return checked

    def take(self, reply: CheckedReply, ticket: Ticket) -> None:
        """Take the reply and keep the memory that its sender has after it."""
        if reply.memories:
            self.taken[ticket.node] = (ticket.number, reply.memories)

    def _check_response(self, response: Response, ticket: Ticket) -> None:
        assert ticket.model is not None
        wanted = {
            "operator": self.direction.operator.spec,
            "feedback": self.direction.feedback_spec,
            "session": self.session,
            "ticket": ticket.number,
            "version": ticket.model.version,
        }
        for name, value in wanted.items():
            if (given := getattr(response, name)) != value:
                raise DecodeError(f"a reply for {name} {clipped(given)}, expected {clipped(value)}")
        if response.memory not in (0, self.memory(ticket.node)):
            raise DecodeError(f"a reply from memory {response.memory}, which was never taken over")

    def _whole(
        self, name: str, record: ArrayRecord, like: ArraysByName, before: ArraysByName
    ) -> tuple[ArrayRecord, ArraysByName]:
        """A record rebuilt from changes of `like`, and the memory after it."""
        whole, memories = ArrayRecord(), {}
        for key, array in record.items():
            with blaming(name, key):
                chosen = self.direction.choice(key, like[key])
                if chosen is None:
                    _check_exact(values(array), like[key])
                    whole[key] = array
                    continue
                if not is_framed(array):
                    raise DecodeError(f"it is not compressed by {chosen}")
                message, _ = unframed(array, like[key], chosen)
                if self.direction.feedback is not None:
                    rule = self.direction.feedback.rule(chosen, message.size)
                    message, memories[key] = _received(rule, message, before.get(key))
                whole[key] = rebuilt(like[key], message)
        return whole, memories

    def _checked(self, name: str, record: Record) -> Record:
        if isinstance(record, ArrayRecord):
            for key, array in record.items():
                with blaming(name, key):
                    if not is_finite(values(array)):
                        raise DecodeError("values that are NaN or infinite")
        elif isinstance(record, MetricRecord):
            for key, value in record.items():
                self._check_metric(key, value)
        return record

    def _check_metric(self, key: str, value: object) -> None:
        numbers = value if isinstance(value, list) else [value]
        if not all(isinstance(number, int | float) and _is_finite(number) for number in numbers):
            raise DecodeError(f"the metric {clipped(key)} is {clipped(value)}")
        if key != self.weighted_by:
            return
        if not isinstance(value, int | float) or not 0 <= value <= self.max_weight:
            raise DecodeError(
                f"the weight {clipped(key)} is {clipped(value)}, at most {self.max_weight:g} is "
                "allowed"
            )


def _reference(name: str, record: Record, sent: Arrays, response: Response) -> ArraysByName | None:
    """The record that this one is a change of; None if it travels exactly.

    Both ends look for it in the same way, so the response must name the one that is found here.
    """
    found = referred(name, record, sent) if isinstance(record, ArrayRecord) else None
    if found != response.references.get(name):
        raise DecodeError(f"the record {clipped(name)} is not a change of what was sent")
    return None if found is None else sent[found]


def _received(rule: Rule, message: Values, before: Values | None) -> tuple[Values, Values]:
    """The change that a message stands for, and the sender's shift after it.

    With an error memory the receiver keeps nothing: its shift has no values.
    """
    receiver = Receiver(rule)
    if not rule.shifts:
        return receiver.step(message, receiver.init(message.size))[0], receiver.init(0)
    fits = before is not None and before.shape == (1, message.size)
    return receiver.step(message, before if fits else receiver.init(message.size))  # type: ignore[arg-type]


def _check_exact(x: Values, known: Values) -> None:
    """Check an exact array: its shape, its kind, and no other infinities than were sent."""
    if x.shape != known.shape or x.dtype.kind not in "biuf":
        raise DecodeError(f"{x.dtype} {x.shape}, expected {known.dtype} {known.shape}")
    if is_finite(x):
        return
    strange = ~np.isfinite(x)
    if x.dtype != known.dtype or not np.array_equal(x[strange], known[strange], equal_nan=True):
        raise DecodeError("values that are NaN or infinite")


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer beyond every float
        return False
