"""A rank's memories: two copies of each, of which a step that ends well makes the other current.

Arrays lie as the batches that use them do, so that a batch is one pass; they are known by side and
unit, so that they survive another arrangement of the batches and can be saved.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fewbits.errors import DisagreementError
from fewbits.feedback.rule import Array

WORKER, MEAN, MASTER = "worker", "mean", "master"
"""Sides: of a sender, of whoever averages the senders' messages, and of the way back."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a unit lies in its batch."""

    name: str
    start: int
    count: int


class Pair:
    """`now` is what holds, `then` what will hold if the step ends well; rows by values."""

    def __init__(self, rows: int, count: int, dtype: "np.dtype[Any]") -> None:
        # Zeros take no memory until they are written: a batch may use a part of its values only.
        self.now, self.then = np.zeros((rows, count), dtype), np.zeros((rows, count), dtype)
        self.written = False

    def swap(self) -> None:
        """Make what was written current."""
        if self.written:
            self.now, self.then = self.then, self.now
            self.written = False


class Store:
    """All memories of one rank."""

    def __init__(self) -> None:
        self._pairs: dict[str, tuple[Pair, Place]] = {}
        self._loaded: dict[str, Array] = {}

    def bind(
        self, side: str, places: Sequence[Place], rows: int, count: int, dtype: "np.dtype[Any]"
    ) -> Pair:
        """The memory of a batch of `count` values, with what is known of its units."""
        pair = Pair(rows, count, dtype)
        for place in places:
            known = self._find(key := f"{side}/{place.name}")
            if known is not None:
                part = pair.now[:, place.start : place.start + place.count]
                _fits(part.shape, known, key)
                part[...] = known
            self._loaded.pop(key, None)
            self._pairs[key] = pair, place
        return pair

    def end_step(self, *, well: bool) -> None:
        """Make what the step wrote current if it ended well on all ranks, else forget it."""
        for pair, _ in self._pairs.values():
            if well:
                pair.swap()
            pair.written = False
        # Every batch of the model has been bound by now, so nobody will ask for what is left. One
        # rank alone reduces none: it keeps what it loaded until there are others.
        if self._pairs:
            self._loaded.clear()

    def arrays(self) -> dict[str, Array]:
        """Every memory by `side/parameter/chunk`, as copies."""
        return {
            key: np.array(self._find(key), copy=True)
            for key in sorted(self._pairs.keys() | self._loaded.keys())
        }

    def check(self, arrays: Mapping[str, Array]) -> None:
        """Refuse what `load` could not take: arrays of other sizes than those they replace."""
        for key in arrays.keys() & self._pairs.keys():
            pair, place = self._pairs[key]
            _fits((len(pair.now), place.count), arrays[key], key)

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Replace all memories; batches that are already bound see the new ones."""
        self.check(arrays)
        self._loaded = {key: np.array(array) for key, array in arrays.items()}  # ours to change
        for key, (pair, place) in self._pairs.items():
            part = pair.now[:, place.start : place.start + place.count]
            part[...] = self._loaded.pop(key, 0)
            pair.written = False

    def scale(self, factor: float) -> None:
        """Multiply all memories."""
        for pair in {id(pair): pair for pair, _ in self._pairs.values()}.values():
            pair.now *= pair.now.dtype.type(factor)
        for array in self._loaded.values():
            array *= array.dtype.type(factor)

    @property
    def nbytes(self) -> int:
        """What the memories take up, both copies of them."""
        return sum(
            2 * len(pair.now) * place.count * pair.now.itemsize
            for pair, place in self._pairs.values()
        )

    def _find(self, key: str) -> Array | None:
        if key in self._loaded or key not in self._pairs:
            return self._loaded.get(key)
        pair, place = self._pairs[key]
        return pair.now[:, place.start : place.start + place.count]


def _fits(needed: tuple[int, ...], known: Array, key: str) -> None:
    if needed != known.shape:
        raise DisagreementError(
            f"the memory {key} has {known.shape}, this run needs {needed} rows and values"
        )
