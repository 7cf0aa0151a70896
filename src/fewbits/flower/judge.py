"""The server's side of the way back: replies are checked, then rebuilt as whole models.

Whatever is wrong with a reply is one `DecodeError` here; the grid names the client and goes on.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict

from fewbits.errors import DecodeError
from fewbits.feedback import Receiver, Rule
from fewbits.flower.arrays import (
    Values,
    clipped,
    is_finite,
    is_framed,
    moved,
    packed,
    unframed,
    values,
)
from fewbits.flower.control import CONTROL, Response
from fewbits.flower.downlink import Model
from fewbits.flower.plan import Plan
from fewbits.flower.state import Arrays, blaming
from fewbits.flower.uplink import Record, referred

Named = dict[str, Values]


@dataclass(frozen=True, slots=True)
class Rejection:
    """A reply that did not reach the strategy: the exchange's number, the node, the reason."""

    exchange: int
    node: int
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """A message under way: to whom, and which model it left there (None: it had no arrays)."""

    number: int
    node: int
    message: Message
    model: Model | None


@dataclass(slots=True)
class Verdict:
    """A reply as the strategy will see it, and the sender's memory if it is taken."""

    content: RecordDict
    memories: Arrays = field(default_factory=dict)
    stranger: bool = False


@dataclass(slots=True)
class Judge:
    """Checks replies against what was sent and agreed upon; keeps what the clients' shifts are."""

    session: str
    plan: Plan
    weighted_by: str
    max_weight: float
    taken: dict[int, tuple[int, Arrays]] = field(default_factory=dict)

    def memory(self, node: int) -> int:
        """The ticket of a node's last reply whose memory was taken over; 0 if there is none."""
        return self.taken.get(node, (0, {}))[0]

    def rebuild(self, reply: Message, ticket: Ticket) -> Verdict:
        """The reply's content with whole models; `DecodeError` if anything is wrong with it."""
        if not reply.has_content():
            raise DecodeError("a reply without content")
        content = reply.content
        if ticket.model is None:
            records = {name: self._checked(name, record) for name, record in content.items()}
            return Verdict(RecordDict(records))
        response = Response.read(content)
        self._agrees(response, ticket)
        verdict = Verdict(RecordDict(), stranger=response.stranger)
        if response.stranger:
            return verdict
        before = self.taken[ticket.node][1] if response.memory else {}
        for name, record in content.items():
            if name == CONTROL:
                continue
            reference = None
            if isinstance(record, ArrayRecord):
                reference = referred(name, record, ticket.model.arrays)
            if reference != response.references.get(name):
                raise DecodeError(f"the record {clipped(name)} is not a change of what was sent")
            if reference is None or not isinstance(record, ArrayRecord):
                verdict.content[name] = self._checked(name, record)
                continue
            like = ticket.model.arrays[reference]
            whole, memories = self._whole(name, record, like, before.get(name, {}))
            verdict.content[name] = whole
            if memories:
                verdict.memories[name] = memories
        return verdict

    def take(self, verdict: Verdict, ticket: Ticket) -> None:
        """The reply counts: so does the memory that it has left with its sender."""
        if verdict.memories:
            self.taken[ticket.node] = (ticket.number, verdict.memories)

    def _agrees(self, response: Response, ticket: Ticket) -> None:
        assert ticket.model is not None
        wanted = {
            "session": self.session,
            "ticket": ticket.number,
            "version": ticket.model.version,
            "operator": self.plan.operator.spec,
            "feedback": self.plan.memory,
        }
        for name, value in wanted.items():
            if (given := getattr(response, name)) != value:
                raise DecodeError(f"a reply for {name} {clipped(given)}, expected {clipped(value)}")
        if response.memory not in (0, self.memory(ticket.node)):
            raise DecodeError(f"a reply from memory {response.memory}, which was never taken over")

    def _whole(
        self, name: str, record: ArrayRecord, like: Named, before: Named
    ) -> tuple[ArrayRecord, Named]:
        """A record rebuilt from changes of `like`, and the memory after it."""
        rebuilt, memories = ArrayRecord(), {}
        for key, array in record.items():
            with blaming(name, key):
                chosen = self.plan.choice(key, like[key])
                if chosen is None:
                    _check_exact(values(array), like[key])
                    rebuilt[key] = array
                    continue
                if not is_framed(array):
                    raise DecodeError(f"it is not compressed by {chosen}")
                message, _ = unframed(array, like[key], chosen)
                if self.plan.feedback is not None:
                    rule = self.plan.feedback.rule(chosen, message.size)
                    message, memories[key] = _received(rule, message, before.get(key))
                whole = moved(like[key], message)
                if not is_finite(whole):
                    raise DecodeError("the change leads to values that are NaN or infinite")
                rebuilt[key] = packed(whole)
        return rebuilt, memories

    def _checked(self, name: str, record: Record) -> Record:
        """A record that travels as it is."""
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


def odd_ones(contents: Sequence[RecordDict]) -> set[int]:
    """Places of those that are not made like most: Flower skips a round whose replies differ.

    With a tie nobody knows who is right: those like the first stay.
    """
    shapes = [_shape(content) for content in contents]
    if not shapes:
        return set()
    usual = Counter(shapes).most_common(1)[0][0]  # of equal counts, the one met first
    return {place for place, shape in enumerate(shapes) if shape != usual}


def _shape(content: RecordDict) -> tuple[object, ...]:
    """Names, dtypes and shapes of all that strategies combine.

    But for vectors of bytes: they are files, such as trees, and have lengths of their own.
    """
    found: list[tuple[object, ...]] = []
    for name, record in content.items():
        if isinstance(record, ArrayRecord):
            found += [
                (name, key, array.dtype, len(array.shape) if _is_file(array) else array.shape)
                for key, array in record.items()
            ]
        elif isinstance(record, MetricRecord):
            found.append((name,))
            for key, value in record.items():
                found.append((name, key, len(value) if isinstance(value, list) else -1))
    return tuple(sorted(found, key=repr))


def _is_file(array: Array) -> bool:
    return array.dtype == "uint8" and len(array.shape) == 1


def _received(rule: Rule, message: Values, before: Values | None) -> tuple[Values, Values]:
    """The change that a message stands for, and the sender's shift after it.

    An error memory leaves nothing with the receiver: its shift has no values.
    """
    receiver = Receiver(rule)
    if not rule.shifts:
        return receiver.step(message, receiver.init(message.size))[0], receiver.init(0)
    fits = before is not None and before.shape == (1, message.size)
    return receiver.step(message, before if fits else receiver.init(message.size))  # type: ignore[arg-type]


def _check_exact(x: Values, known: Values) -> None:
    """An array that travels as it is: shape, kind, and no other infinities than were sent."""
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
