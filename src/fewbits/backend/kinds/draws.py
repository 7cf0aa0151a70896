"""Random places of a vector, which are never listed: their words are drawn where they are needed.

The `k` places with the largest words are kept. No two of a stream's first $2^{32}$ words are equal,
so one threshold says which these are. It is near its expectation: a first pass over the words
counts those above a range around it and keeps those within, among which it is then found.
"""

import math
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.backend import parallel
from fewbits.backend.library import key_words
from fewbits.backend.stage_functions import DrawnPlaces, draws_near, draws_put, draws_take
from fewbits.reference.formats import Bits, Format
from fewbits.reference.tally import Tally, total
from fewbits.rng import Rng

_WORDS = 1 << 32
_NEAR = 1 << 17  # words that a thread keeps
_DEVIATIONS = 6  # of the number of words above a threshold, on either side


class Drawn(NamedTuple):
    """Which words are kept, and how a vector is cut: slices of it and of the kept values."""

    low: int
    parts: list[slice]
    kept: list[slice]


def drawn(rng: Rng, d: int, k: int, threads: int = 1) -> Drawn:
    """The `k` of `d` places, at least one, that a stream chooses."""
    parts = parallel.slices(d, threads)
    rooms = [np.empty(min(_NEAR, part.stop - part.start), np.uint32) for part in parts]
    least, most = 0, _WORDS - 1  # the threshold is one of these
    first, last = _expected(d, k)
    while True:
        near = partial(_near, rng.key, parts, rooms, (first, last))
        counts = parallel.each(near, len(parts))
        above, within = (sum(own) for own in zip(*counts, strict=True))
        if above >= k:
            least = last + 1
        elif above + within < k:
            most = first - 1
        elif any(own[1] > room.size for own, room in zip(counts, rooms, strict=True)):
            least, most = first, last
        else:
            break
        first, last = least + (most - least + 1) // 2, most
    words = [room[: own[1]] for own, room in zip(counts, rooms, strict=True)]
    joined, place = np.concatenate(words), within - (k - above)
    low = int(np.partition(joined, place)[place])
    kept = [own[0] + np.count_nonzero(new >= low) for own, new in zip(counts, words, strict=True)]
    cuts = np.cumsum([0, *kept]).tolist()
    return Drawn(low, parts, [slice(*cut) for cut in pairwise(cuts)])


def _near(
    key: bytes,
    parts: list[slice],
    rooms: list[npt.NDArray[np.uint32]],
    words: tuple[int, int],
    number: int,
) -> tuple[int, int]:
    return draws_near(key, parts[number], words, rooms[number])


def _expected(d: int, k: int) -> tuple[int, int]:
    """The first and the last word of a range that all but surely holds the threshold."""
    middle = _WORDS - _WORDS * k // d
    wide = int((_DEVIATIONS * math.sqrt(k * (d - k) / d) + _DEVIATIONS) * _WORDS / d) + 1
    return max(0, middle - wide), min(_WORDS - 1, middle + wide)


def take(rng: Rng, bits: Bits, format: Format, k: int, threads: int) -> tuple[Bits, Tally]:
    """The values at `k` places, times d/k; all NaN if any value is not finite."""
    how = drawn(rng, bits.size, k, threads)
    values = np.empty(k, format.bits)

    def work(n: int) -> Tally:
        part, own = how.parts[n], how.kept[n]
        places = _places(rng, how, n, format, bits.size / k)
        return draws_take(places, bits[part], values[own])

    tally = total(parallel.each(work, len(how.parts)))
    if tally.nonfinite:
        values[:] = format.quiet_nan
    return values, tally


def put(
    rng: Rng, handed: Bits, format: Format, out: npt.NDArray[Any], threads: int, *, add: bool
) -> Tally:
    """The reverse without the factor: values in their places and zeros, or added to totals."""
    how = drawn(rng, out.size, handed.size, threads)

    def work(n: int) -> Tally:
        places = _places(rng, how, n, format)
        return draws_put(places, handed[how.kept[n]], out[how.parts[n]], add=add)

    return total(parallel.each(work, len(how.parts)))


def _places(rng: Rng, how: Drawn, n: int, format: Format, factor: float = 1.0) -> DrawnPlaces:
    part = how.parts[n]
    return DrawnPlaces(
        key=tuple(key_words(rng.key)), first=part.start, count=part.stop - part.start, low=how.low,
        dtype=format.code, factor=factor,
    )  # fmt: skip
