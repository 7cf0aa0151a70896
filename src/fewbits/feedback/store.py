"""A rank's memories, two copies of each: a step that ends well makes its new copy current.

The arrays lie in the order of the batches that use them, so that a batch is one pass. Their keys
are side and unit, so that they can be saved and survive another arrangement of the batches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fewbits import backend
from fewbits.backend.buffers import Buffer
from fewbits.errors import DisagreementError
from fewbits.feedback.rule import Array

WORKER, MEAN, MASTER = "worker", "mean", "master"
"""Sides: of a sender, of whoever averages the senders' messages, and of the way back."""
BASIS = "basis"
"""The side of what all ranks know alike of a matrix, whose factors travel."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a unit in its batch."""

    name: str
    start: int
    count: int


class MemoryPair:
    """`now` is the current memory, `then` the next one if the step ends well; rows by values."""

    def __init__(self, rows: int, count: int, dtype: "np.dtype[Any]") -> None:
        # Zeros take no memory until they are written: a batch may use a part of its values only.
        self.now, self.then = np.zeros((rows, count), dtype), np.zeros((rows, count), dtype)
        self.written = False

    def swap(self) -> None:
        if self.written:
            self.now, self.then = self.then, self.now
            self.written = False

    @property
    def row_bytes(self) -> int:
        """Bytes of the rows' values, for one value of the vector."""
        return len(self.now) * self.now.itemsize

    def part(self, place: Place) -> Array:
        """The current memory of a unit."""
        return self.now[:, place.start : place.start + place.count]

    def put(self, place: Place, memory: Array | int) -> None:
        self.part(place)[...] = memory

    def multiply(self, factor: float) -> None:
        self.now *= self.now.dtype.type(factor)


class StreamPair:
    """A pair where a device's values lie; the backend copies `then` to `now`, if at all.

    The host gets copies.
    """

    def __init__(self, rows: int, count: int, dtype: "np.dtype[Any]", device: str) -> None:
        self.rows, self.count, self.dtype, self.device = rows, count, dtype, device
        size = rows * count * dtype.itemsize
        self.now, self.then = Buffer.zeros(size, device), Buffer.zeros(size, device)
        self.written = False

    def swap(self) -> None:
        if self.written:
            self.now, self.then = self.then, self.now
            self.written = False

    def line(self, memory: Buffer, row: int) -> Buffer:
        """One row of `now` or `then`."""
        size = self.count * self.dtype.itemsize
        return memory[row * size : (row + 1) * size]

    def commit(self, verdict: Buffer, met: Buffer) -> None:
        """Make what the step wrote current, if the backend finds that it has ended well."""
        if self.written:
            backend.at(self.device).commit(self.now, self.then, verdict, met)
            self.written = False

    @property
    def row_bytes(self) -> int:
        return self.rows * self.dtype.itemsize

    def part(self, place: Place) -> Array:
        return self._copy()[:, place.start : place.start + place.count]

    def put(self, place: Place, memory: Array | int) -> None:
        changed = self._copy()
        changed[:, place.start : place.start + place.count] = memory
        backend.at(self.device).put(self.now, changed.tobytes())

    def multiply(self, factor: float) -> None:
        backend.at(self.device).put(self.now, (self._copy() * self.dtype.type(factor)).tobytes())

    def _copy(self) -> Array:
        return np.frombuffer(self.now.tobytes(), self.dtype).reshape(self.rows, -1).copy()


class Store:
    """All memories of one rank."""

    def __init__(self) -> None:
        self._pairs: dict[str, tuple[MemoryPair | StreamPair, Place]] = {}
        self._loaded: dict[str, Array] = {}
        self._has_grown = False  # in this step

    def bind(
        self, side: str, places: Sequence[Place], rows: int, count: int, dtype: "np.dtype[Any]"
    ) -> MemoryPair:
        """The memory of a batch of `count` values, filled with what was loaded for its units."""
        pair = MemoryPair(rows, count, dtype)
        self._bind(pair, side, places)
        return pair

    def bind_on(
        self,
        device: str,
        side: str,
        places: Sequence[Place],
        rows: int,
        count: int,
        dtype: "np.dtype[Any]",
    ) -> StreamPair:
        """`bind`, for values on a device."""
        pair = StreamPair(rows, count, dtype, device)
        self._bind(pair, side, places)
        return pair

    def _bind(self, pair: MemoryPair | StreamPair, side: str, places: Sequence[Place]) -> None:
        self._has_grown = True
        for place in places:
            known = self._find(key := f"{side}/{place.name}")
            if known is not None:
                _fits(pair.part(place), known, key)
                pair.put(place, known)
            self._loaded.pop(key, None)
            self._pairs[key] = pair, place

    def commit(self, verdict: Buffer, met: Buffer) -> None:
        """`end_step`, with a device's own verdict on the step."""
        for pair in {id(pair): pair for pair, _ in self._pairs.values()}.values():
            assert isinstance(pair, StreamPair)
            pair.commit(verdict, met)
        self._forget()

    def end_step(self, *, well: bool) -> None:
        """Make what the step wrote current if it ended well on all ranks, else forget it."""
        for pair, _ in self._pairs.values():
            if well:
                pair.swap()
            pair.written = False
        self._forget()

    def _forget(self) -> None:
        """Forget what was loaded and nobody needs, once a step has bound no batch anew.

        A step may reduce a part of the model only. A single rank reduces no batch: it keeps what it
        loaded until there are others.
        """
        if self._pairs and not self._has_grown:
            self._loaded.clear()
        self._has_grown = False

    def arrays(self) -> dict[str, Array]:
        """Every memory by `side/parameter/unit`, as copies."""
        return {
            key: np.array(self._find(key), copy=True)
            for key in sorted(self._pairs.keys() | self._loaded.keys())
        }

    def check(self, arrays: Mapping[str, Array]) -> None:
        """Refuse arrays unlike those that they would replace."""
        for key in arrays.keys() & self._pairs.keys():
            pair, place = self._pairs[key]
            _fits(pair.part(place), arrays[key], key)

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Replace all memories; batches that are already bound see the new ones."""
        self.check(arrays)
        self._loaded = {key: np.array(array) for key, array in arrays.items()}  # ours to change
        for key, (pair, place) in self._pairs.items():
            pair.put(place, self._loaded.pop(key, 0))
            pair.written = False

    def restart(self, arrays: Mapping[str, Array]) -> None:
        """Have these memories only, for batches that will be bound anew."""
        self._pairs, self._has_grown = {}, False
        self._loaded = {key: np.array(array) for key, array in arrays.items()}

    def scale(self, factor: float) -> None:
        for pair in {id(pair): pair for pair, _ in self._pairs.values()}.values():
            pair.multiply(factor)
        for array in self._loaded.values():
            array *= array.dtype.type(factor)

    @property
    def nbytes(self) -> int:
        return sum(2 * pair.row_bytes * place.count for pair, place in self._pairs.values())

    def _find(self, key: str) -> Array | None:
        if key in self._loaded or key not in self._pairs:
            return self._loaded.get(key)
        pair, place = self._pairs[key]
        return pair.part(place)


def _fits(needed: Array, known: Array, key: str) -> None:
    if needed.shape != known.shape or needed.dtype != known.dtype:
        raise DisagreementError(
            f"the memory {key} has {known.shape} {known.dtype}, this run needs {needed.shape} rows "
            f"and values of {needed.dtype}"
        )
