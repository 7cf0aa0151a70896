"""The server's downlink: the model as the clients know it, and its changes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from flwr.app import Array, ArrayRecord

from fewbits import codec
from fewbits.flower.arrays import FLOAT_DTYPES, Values, difference, framed, is_finite, moved, values
from fewbits.flower.direction import Direction, tracking
from fewbits.flower.records import Arrays, as_records, blaming, unpacked
from fewbits.flower.server.nodes import Nodes
from fewbits.rng import Rng

Records = Mapping[str, ArrayRecord]


@dataclass(frozen=True, eq=False)
class ModelVersion:
    """A version of the model, the same bits as on every client that holds it."""

    version: int
    arrays: Arrays

    @cached_property
    def records(self) -> dict[str, ArrayRecord]:
        return as_records(self.arrays)


@dataclass(frozen=True, slots=True)
class Broadcast:
    """One model: `changes` for nodes that hold the version `base`, `exact` for all others."""

    model: ModelVersion
    exact: Records
    base: int | None = None
    changes: Records | None = None

    def message(self, held: int | None) -> tuple[int | None, Records]:
        if self.base is not None and held == self.base and self.changes is not None:
            return self.base, self.changes
        return None, self.exact


class Downlink:
    """Keeps the model that the clients know."""

    def __init__(self, direction: Direction, rng: Rng, nodes: Nodes) -> None:
        self._direction, self._rng, self._nodes = direction, rng, nodes
        self._model: ModelVersion | None = None
        self._digest = b""
        self._versions = 0

    @property
    def model(self) -> ModelVersion | None:
        """The newest model that was sent to more than a part of the nodes."""
        return self._model

    def again(self, records: Records, digest: bytes) -> Broadcast:
        """Send the last broadcast to nodes that could not use it."""
        if self._model is None or digest != self._digest:
            return self.aside(records)
        return Broadcast(self._model, self._model.records)

    def broadcast(self, records: Records, digest: bytes, nodes: Iterable[int]) -> Broadcast:
        """Send weights to nodes, as changes to those that hold the current model.

        Weights that have not changed since are not sent to these again. All other nodes get the
        model that these end up with, so that all have the same. If no node holds the current model,
        all get the weights themselves.
        """
        known = self._model
        if known is None or all(self._nodes.held(node) != known.version for node in nodes):
            self._digest, self._model = digest, ModelVersion(self._next(), unpacked(records))
            self._check(self._model.arrays)
            return Broadcast(self._model, records)
        if digest == self._digest:
            return Broadcast(known, known.records, known.version, {})
        changes, arrays = self._changes(records, known)
        self._digest, self._model = digest, ModelVersion(self._next(), arrays)
        return Broadcast(self._model, self._model.records, known.version, changes)

    def aside(self, records: Records) -> Broadcast:
        """Send weights that are not the common model, whole; no node counts as holding them."""
        return Broadcast(ModelVersion(self._next(), unpacked(records)), records)

    def _check(self, arrays: Arrays) -> None:
        """Raise `SpecError` now if clients could not apply changes later."""
        for name, own in arrays.items():
            for key, x in own.items():
                with blaming(name, key):
                    if (chosen := self._direction.choice(key, x)) is not None:
                        tracking(chosen, x.size)

    def _next(self) -> int:
        self._versions += 1
        return self._versions

    def _changes(
        self, records: Records, known: ModelVersion
    ) -> tuple[dict[str, ArrayRecord], Arrays]:
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
        """The array to send, and the clients' array after it.

        Clients keep their float format: some strategies turn float32 into float64.
        """
        x = values(array)
        if known is None or known.shape != x.shape or known.dtype.name not in FLOAT_DTYPES:
            return array, x
        chosen = self._direction.choice(key, x)
        message = difference(x, known) if chosen is not None else x
        if chosen is None or not is_finite(message):
            return array, x
        frame = bytes(codec.compress(message, chosen, seed=rng))
        new = moved(known, codec.decompress(frame), tracking(chosen, x.size))
        return (framed(frame, known), new) if is_finite(new) else (array, x)


def digest(record: ArrayRecord) -> bytes:
    total = sha256()
    for key, array in record.items():
        about = repr((key, array.dtype, array.shape, array.stype, len(array.data)))
        total.update(about.encode())
        total.update(array.data)
    return total.digest()
