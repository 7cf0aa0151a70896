"""The server's side of the way to the clients: the model as they know it, and its changes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from flwr.app import Array, ArrayRecord

from fewbits import codec
from fewbits.flower.arrays import FLOATS, Values, difference, framed, is_finite, moved, values
from fewbits.flower.plan import Plan, tracking
from fewbits.flower.state import Arrays, as_records, blaming, unpacked
from fewbits.rng import Rng

Records = Mapping[str, ArrayRecord]


@dataclass(frozen=True, eq=False)
class Model:
    """A version of the model, as every client that holds it has it, bit for bit."""

    version: int
    arrays: Arrays

    @cached_property
    def records(self) -> dict[str, ArrayRecord]:
        """Packed for those who need it whole."""
        return as_records(self.arrays)


@dataclass(frozen=True, slots=True)
class Broadcast:
    """One model, for those who hold the version `base` as `changes`, for all others as `exact`."""

    model: Model
    exact: Records
    base: int | None = None
    changes: Records | None = None

    def message(self, held: int | None) -> tuple[int | None, Records]:
        """Base and arrays for a node that holds this version."""
        if self.base is not None and held == self.base and self.changes is not None:
            return self.base, self.changes
        return None, self.exact


class Downlink:
    """Keeps the model that the clients know and who of them knows it."""

    def __init__(self, plan: Plan, rng: Rng) -> None:
        self._plan, self._rng = plan, rng
        self._model: Model | None = None
        self._digest = b""
        self._versions = 0
        self.held: dict[int, int] = {}

    @property
    def model(self) -> Model | None:
        """The newest model that was sent to more than a part of the nodes."""
        return self._model

    def again(self, records: Records, digest: bytes) -> Broadcast:
        """Send the last broadcast to nodes that could not use it."""
        if self._model is None or digest != self._digest:
            return self.aside(records)
        return Broadcast(self._model, self._model.records)

    def broadcast(self, records: Records, digest: bytes, nodes: Iterable[int]) -> Broadcast:
        """Send weights to nodes: as changes to those who hold the current model, if any does.

        Weights that have not changed since are not sent again to those. What others get is the
        model that those end up with, so that all have the same; if nobody holds the current model
        everybody gets the weights themselves.
        """
        known = self._model
        if known is None or all(self.held.get(node) != known.version for node in nodes):
            self._digest, self._model = digest, Model(self._next(), unpacked(records))
            self._check(self._model.arrays)
            return Broadcast(self._model, records)
        if digest == self._digest:
            return Broadcast(known, known.records, known.version, {})
        changes, arrays = self._changes(records, known)
        self._digest, self._model = digest, Model(self._next(), arrays)
        return Broadcast(self._model, self._model.records, known.version, changes)

    def aside(self, records: Records) -> Broadcast:
        """Send weights that are not the common model's, whole; nobody is to hold them."""
        return Broadcast(Model(self._next(), unpacked(records)), records)

    def _check(self, arrays: Arrays) -> None:
        """`SpecError` now if clients could not follow changes later."""
        for name, own in arrays.items():
            for key, x in own.items():
                with blaming(name, key):
                    if (chosen := self._plan.choice(key, x)) is not None:
                        tracking(chosen, x.size)

    def _next(self) -> int:
        self._versions += 1
        return self._versions

    def _changes(self, records: Records, known: Model) -> tuple[dict[str, ArrayRecord], Arrays]:
        rng = self._rng.fork(self._versions)
        changes: dict[str, ArrayRecord] = {}
        arrays: Arrays = {}
        for name, record in records.items():
            old, sent = known.arrays.get(name, {}), ArrayRecord()
            arrays[name] = own = {}
            for key, array in record.items():
                with blaming(name, key):
                    sent[key], own[key] = self._change(
                        key, array, old.get(key), rng.fork(name, key)
                    )
            changes[name] = sent
        return changes, arrays

    def _change(
        self, key: str, array: Array, known: Values | None, rng: Rng
    ) -> tuple[Array, Values]:
        """What is sent for an array, and what the clients make of it.

        Floats stay what they are with the clients: some strategies make float64 of float32.
        """
        x = values(array)
        if known is None or known.shape != x.shape or known.dtype.name not in FLOATS:
            return array, x
        chosen = self._plan.choice(key, x)
        message = difference(x, known) if chosen is not None else x
        if chosen is None or not is_finite(message):
            return array, x
        frame = bytes(codec.compress(message, chosen, seed=rng))
        new = moved(known, codec.decompress(frame), tracking(chosen, x.size))
        return (framed(frame, known), new) if is_finite(new) else (array, x)


def digest(record: ArrayRecord) -> bytes:
    """Tells weights apart without keeping them."""
    total = sha256()
    for key, array in record.items():
        about = repr((key, array.dtype, array.shape, array.stype, len(array.data)))
        total.update(about.encode())
        total.update(array.data)
    return total.digest()
