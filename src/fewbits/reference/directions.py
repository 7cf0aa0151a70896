r"""Random directions that a decoder can draw again, and the search for the first one in a cap.

Coordinate $i$ of direction $t$ of group $g$ is a normal number from a table, found by 16 bits of a
random word: the low half (even $i$) or the high half (odd $i$) of word
$2^{32} g + t \lceil n / 2 \rceil + \lfloor i / 2 \rfloor$ of the stream. The table's entry $k$ is
the odd number $2 \lfloor 128\,\Phi^{-1}((k + \frac12) / 65536) \rfloor + 1$, so that directions are
whole numbers, are never zero, and are the same on every machine. 1024 blocks are a group and share
its directions; the signs of the stream's second half tell their blocks apart.

`first_in_cap` in NumPy is the specification. Native code finds the same numbers: it computes all
inner products in integers, with the blocks rounded and the threshold lowered by what rounding can
change, and asks the exact question about the few directions that are left.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.reference.casts import to_float64
from fewbits.reference.formats import Bits, Format
from fewbits.rng import Rng

Float64s = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

GROUP = 1024  # blocks that share directions
LARGEST_SPHERE_BLOCK = 1024  # inner products then fit into 32 bits
SIGNS = 1 << 63  # the word from which on the stream gives signs
NO_DIRECTION = -1  # no direction was found
_TILE = 256  # directions that the reference looks at together


class Divided(NamedTuple):
    """Blocks of equal size, divided by powers of two so that their squares are ordinary numbers."""

    values: Float64s  # a row for each block; rows that are not finite hold zeros
    exponents: Integers
    norms: Float64s  # of the divided values
    nonfinite: npt.NDArray[np.int64]  # how many values of each block are not


@cache
def normal_table() -> npt.NDArray[np.int16]:
    """The 65,536 odd numbers that stand for equally likely parts of the normal distribution."""
    from statistics import NormalDist  # slow to import

    inverse = NormalDist().inv_cdf
    upper = [2 * int(128 * inverse((k + 0.5) / 65536)) + 1 for k in range(32768, 65536)]
    half = np.array(upper, np.int16)
    return np.concatenate([-half[::-1], half])


def split(bits: Bits, format: Format, size: int) -> Divided:
    """The blocks of a vector whose length is a multiple of `size`."""
    x = to_float64(bits, format).reshape(-1, size)
    nonfinite = np.count_nonzero(~np.isfinite(x), axis=1)
    if nonfinite.any():
        x[nonfinite > 0] = 0
    _, exponents = np.frexp(np.abs(x).max(axis=1, initial=0.0))
    values = np.ldexp(x, -exponents[:, None])
    return Divided(values, exponents.astype(np.int64), np.sqrt(in_order(values**2)), nonfinite)


def in_order(terms: Float64s) -> Float64s:
    """The sum of each row, from the first term to the last: the same on every machine."""
    return np.cumsum(terms, axis=1)[:, -1]


def signs(rng: Rng, first: int, count: int) -> npt.NDArray[np.int8]:
    """1 or -1 for elements `first` to `first + count - 1`.

    Each is a bit of the stream's second half, the lowest bit of a word first.
    """
    start, stop = first // 32, -(-(first + count) // 32)
    words = rng.words(SIGNS + start, stop - start).astype("<u4")
    bits = np.unpackbits(words.view(np.uint8), bitorder="little")[first % 32 :][:count]
    return np.int8(1) - 2 * bits.view(np.int8)


def drawn(rng: Rng, groups: Integers, places: Integers, size: int) -> npt.NDArray[np.int16]:
    """A row for each pair of a group and the direction's number in it."""
    words = -(-size // 2)
    low = places[:, None] * words + np.arange(words)
    words_drawn = rng.at(groups.astype(np.uint32)[:, None], low.astype(np.uint32))
    halves = np.ascontiguousarray(words_drawn.astype("<u4")).view("<u2")
    found: npt.NDArray[np.int16] = normal_table()[halves[:, :size]]
    return found


def lengths(vectors: npt.NDArray[np.int16]) -> Float64s:
    """The norms of directions: roots of whole numbers."""
    wide = vectors.astype(np.int32)
    roots: Float64s = np.sqrt((wide * wide).sum(axis=1, dtype=np.int64).astype(np.float64))
    return roots


def first_in_cap(rng: Rng, group: int, values: Float64s, need: Float64s, limit: int) -> Integers:
    r"""For each block $x$ the first $t$ below `limit` with $\langle v_t, x \rangle \ge c \|v_t\|$.

    $c$ is the block's entry of `need`, infinite for blocks without a direction. The blocks are
    those from group `group` on. `NONE` where there is no such $t$.
    """
    found = np.full(len(values), NO_DIRECTION, np.int64)
    for start in range(0, len(values), GROUP):
        left = np.arange(start, min(start + GROUP, len(values)))
        left = left[np.isfinite(need[left])]
        for first in range(0, limit, _TILE):
            if not left.size:
                break
            places = np.arange(first, min(first + _TILE, limit))
            own = np.full(places.size, group + start // GROUP)
            vectors = drawn(rng, own, places, values.shape[1])
            products = np.zeros((left.size, places.size))
            for i, coordinate in enumerate(vectors.T.astype(np.float64)):
                products += values[left, i, None] * coordinate
            inside = products >= need[left, None] * lengths(vectors)
            hit = inside.any(axis=1)
            found[left[hit]] = first + inside[hit].argmax(axis=1)
            left = left[~hit]
    return found
