"""Blocks of values that share a scale, and the parts in which long vectors are worked on."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

_Scales = TypeVar("_Scales", bound=npt.NDArray[Any])
SUMMATION_PIECE = 65_536  # values worked on at a time: small enough for a few temporary arrays
SUMMATION_BLOCK = 65_536  # values whose sum is finished before the next one's begins
LANES = 32  # sums that grow side by side within a summation block


@dataclass(frozen=True, slots=True)
class Blocks:
    """A vector of `count` values in blocks of `size`; the last one may be shorter."""

    count: int
    size: int

    @classmethod
    def of(cls, count: int, size: int) -> "Blocks":
        """Blocks of `size` values, or one of all values where `size` is 0."""
        return cls(count, size or max(count, 1))

    @property
    def number(self) -> int:
        return -(-self.count // self.size)

    @property
    def sizes(self) -> npt.NDArray[np.float64]:
        """How many values each block has."""
        sizes = np.full(self.number, float(self.size))
        if self.count:
            sizes[-1] = self.count - (self.number - 1) * self.size
        return sizes

    def spread(self, scales: _Scales, part: slice) -> _Scales:
        """The scale of each value of a part of the vector."""
        first, last = part.start // self.size, max(part.stop - 1, part.start) // self.size
        counts = np.full(last - first + 1, self.size)
        counts[-1] = part.stop - last * self.size
        counts[0] -= part.start - first * self.size
        spread: _Scales = np.repeat(scales[first : last + 1], counts)  # type: ignore[assignment]
        return spread


def pieces(count: int) -> Iterator[slice]:
    """Parts of a vector of `count` values, in order."""
    for start in range(0, count, SUMMATION_PIECE):
        yield slice(start, min(start + SUMMATION_PIECE, count))
