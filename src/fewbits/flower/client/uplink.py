"""A client's reply in bytes: changes of the model that it was sent, one frame an array."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from flwr.app import ArrayRecord, RecordDict

from fewbits import codec
from fewbits.core.operator import Operator
from fewbits.errors import EncodeError
from fewbits.feedback import Sender
from fewbits.flower.arrays import Values, difference, framed, is_finite, values
from fewbits.flower.direction import Direction
from fewbits.flower.records import Arrays, Record, blaming, referred
from fewbits.rng import Rng


@dataclass(slots=True)
class CompressedReply:
    """The records of a reply, the records they are changes of, and the memories after them."""

    records: dict[str, Record] = field(default_factory=dict)
    references: dict[str, str] = field(default_factory=dict)
    memories: Arrays = field(default_factory=dict)


def compressed(
    content: RecordDict, model: Arrays, direction: Direction, before: Arrays, rng: Rng
) -> CompressedReply:
    """The reply; a record with the names and shapes of a received one becomes its change."""
    sent = CompressedReply()
    for name, record in content.items():
        reference = referred(name, record, model) if isinstance(record, ArrayRecord) else None
        if reference is None or not isinstance(record, ArrayRecord):
            sent.records[name] = record
            continue
        sent.references[name] = reference
        encoder = _Encoder(direction, model[reference], before.get(name, {}), rng.fork(name))
        with_frames = ArrayRecord()
        for key, array in record.items():
            with blaming(name, key):
                x = values(array)
                frame = encoder(key, x)
                with_frames[key] = array if frame is None else framed(frame, model[reference][key])
        sent.records[name] = with_frames
        if encoder.memories:
            sent.memories[name] = encoder.memories
    return sent


class _Encoder:
    """Encodes the arrays of one record as frames, with a memory if the direction has one."""

    def __init__(
        self,
        direction: Direction,
        model: Mapping[str, Values],
        before: Mapping[str, Values],
        rng: Rng,
    ) -> None:
        self._direction, self._model, self._before, self._rng = direction, model, before, rng
        self.memories: dict[str, Values] = {}

    def __call__(self, key: str, x: Values) -> bytes | None:
        """The frame of an array's change; None if the array travels exactly."""
        known = self._model[key]
        chosen = self._direction.choice(key, known)
        if x.dtype.kind not in "biuf":
            raise EncodeError(f"cannot send dtype {x.dtype}: convert to a float or an integer")
        if not is_finite(x) and is_finite(known):
            raise EncodeError("values that are NaN or infinite: this client's training diverged")
        if chosen is None:
            return None
        change, rng = difference(x, known), self._rng.fork(key)
        if self._direction.feedback is None:
            return bytes(codec.compress(change, chosen, seed=rng))
        return self._remembered(key, change, chosen, rng)

    def _remembered(self, key: str, change: Values, chosen: Operator, rng: Rng) -> bytes:
        assert self._direction.feedback is not None
        sender = Sender.of(self._direction.feedback, chosen, d=change.size)
        old, fresh = self._before.get(key), sender.init(change.size)
        usable = old is not None and (old.shape, old.dtype) == (fresh.shape, fresh.dtype)
        frame, self.memories[key] = sender.step(change, old if usable else fresh, rng)  # type: ignore[arg-type]
        return frame
