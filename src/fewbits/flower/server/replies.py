"""The server's side of the uplink: checks replies, then rebuilds them as whole models.

A fault of a reply is a `DecodeError` here; the inbox names the client and continues.
"""

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

from fewbits.core.operator import Operator
from fewbits.errors import DecodeError
from fewbits.feedback import Receiver, Rule
from fewbits.flower.arrays import Values, clipped, is_finite, is_framed, rebuilt, unframed, values
from fewbits.flower.control import CONTROL, Response
from fewbits.flower.direction import Direction
from fewbits.flower.records import Arrays, ArraysByName, Record, blaming, referred
from fewbits.flower.server.downlink import ModelVersion
from fewbits.flower.server.ticket import Ticket
from fewbits.flower.server.uniform import make_of

_Way = tuple[Operator, Rule | None]
_Plan = dict[str, dict[str, _Way | None]]
"""By record and name, how a change of the array is compressed; None if it travels exactly."""
_LARGEST = 2  # times the model that was sent, of what a reply's frames may unfold to


@dataclass(slots=True)
class CheckedReply:
    """A reply as the strategy will see it, and the sender's memory if it is taken.

    `make` is what must be like other replies', `weighs` whether its weight is more than 0.
    """

    content: RecordDict
    memories: Arrays = field(default_factory=dict)
    stranger: bool = False
    make: Hashable = ()
    weighs: bool = True


@dataclass(slots=True)
class ReplyReader:
    """Checks replies against the messages and the direction."""

    session: str
    direction: Direction
    weighted_by: str
    max_weight: float
    _plans: WeakKeyDictionary[ModelVersion, _Plan] = field(default_factory=WeakKeyDictionary)

    def prepare(self, tickets: Iterable[Ticket]) -> None:
        """Make all plans: what the server's own policy or feedback raises is no client's fault."""
        for ticket in tickets:
            if ticket.model is not None:
                self._plan(ticket.model)

    def _plan(self, model: ModelVersion) -> _Plan:
        """How changes of a model are compressed, made once."""
        if model not in self._plans:
            self._plans[model] = {
                record: {key: self._way(key, x) for key, x in own.items()}
                for record, own in model.arrays.items()
            }
        return self._plans[model]

    def _way(self, key: str, x: Values) -> _Way | None:
        if (chosen := self.direction.choice(key, x)) is None:
            return None
        feedback = self.direction.feedback
        return chosen, None if feedback is None else feedback.rule(chosen, x.size)

    def read(self, reply: Message, ticket: Ticket) -> CheckedReply:
        """The reply's content with whole models; `DecodeError` if anything is wrong with it."""
        if not reply.has_content():
            raise DecodeError("a reply without content")
        content = reply.content
        if ticket.model is None:
            records = {name: self._checked(name, record) for name, record in content.items()}
            return self._described(CheckedReply(RecordDict(records)))
        response = Response.read(content)
        self._check_response(response, ticket)
        if response.stranger:
            return CheckedReply(RecordDict(), stranger=True)
        sent = ticket.model.arrays
        changed = {
            name: _reference(name, record, sent, response)
            for name, record in content.items()
            if name != CONTROL
        }
        if absent := response.references.keys() - changed.keys():
            raise DecodeError(f"{len(absent)} records are described that it does not carry")
        self._check_size(list(changed.values()), ticket.model)
        before = ticket.memory.shifts if response.memory else {}
        checked = CheckedReply(RecordDict())
        for name, of in changed.items():
            record = content[name]
            if of is None or not isinstance(record, ArrayRecord):
                checked.content[name] = self._checked(name, record)
                continue
            ways = self._plan(ticket.model)[of]
            whole, memories = _whole(name, record, sent[of], ways, before.get(name, {}))
            checked.content[name] = whole
            if memories:
                checked.memories[name] = memories
        return self._described(checked)

    def _described(self, checked: CheckedReply) -> CheckedReply:
        """The reply with what it is compared by; what that raises is raised while it is read."""
        metrics = checked.content.metric_records.values()
        weights = [record[self.weighted_by] for record in metrics if self.weighted_by in record]
        checked.weighs = not weights or any(weight != 0 for weight in weights)
        records = checked.content.array_records.values()
        if not checked.weighs and not all(
            is_finite(values(x)) for own in records for x in own.values()
        ):
            raise DecodeError("the weight 0 and infinite values, whose product is NaN")
        checked.make = make_of(checked.content)
        hash(checked.make)
        return checked

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
        if response.memory not in (0, ticket.memory.ticket):
            raise DecodeError(f"a reply from memory {response.memory}, which was never taken over")

    def _check_size(self, changed: list[str | None], model: ModelVersion) -> None:
        """Refuse many small frames that unfold to many models, before the first is decoded."""
        plan = self._plan(model)
        sizes = {
            record: sum(x.nbytes for key, x in own.items() if plan[record][key] is not None)
            for record, own in model.arrays.items()
        }
        total = sum(x.nbytes for own in model.arrays.values() for x in own.values())
        if (unfolded := sum(sizes[of] for of in changed if of is not None)) > _LARGEST * total:
            raise DecodeError(
                f"its changes unfold to {unfolded} bytes, at most {_LARGEST} times the model "
                f"({total} bytes) are allowed: give further records names of their own"
            )

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


def _whole(
    name: str,
    record: ArrayRecord,
    like: ArraysByName,
    ways: Mapping[str, _Way | None],
    before: ArraysByName,
) -> tuple[ArrayRecord, ArraysByName]:
    """A record rebuilt from changes of `like`, and the memory after it."""
    whole, memories = ArrayRecord(), {}
    for key, array in record.items():
        with blaming(name, key):
            if (way := ways[key]) is None:
                _check_exact(values(array), like[key])
                whole[key] = array
                continue
            chosen, rule = way
            if not is_framed(array):
                raise DecodeError(f"it is not compressed by {chosen}")
            message, _ = unframed(array, like[key], chosen)
            if rule is not None:
                message, memories[key] = _received(rule, message, before.get(key))
            whole[key] = rebuilt(like[key], message)
    return whole, memories


def _reference(name: str, record: Record, sent: Arrays, response: Response) -> str | None:
    """The record that this one is a change of; None if it travels exactly.

    Both ends look for it in the same way, so the response must name the one that is found here.
    """
    found = referred(name, record, sent) if isinstance(record, ArrayRecord) else None
    if found != response.references.get(name):
        raise DecodeError(f"the record {clipped(name)} is not a change of what was sent")
    return found


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
