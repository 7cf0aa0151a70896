"""The largest values of a vector: which they are, and their places.

Threads have slices of the vector. A band of magnitudes around the threshold is guessed from a
sample, then one pass lists or counts what lies in it, until the threshold is known. The last pass
writes values and places. So no memory is needed but the values that are kept and a list for each
thread, and the result depends on nothing but the values.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.backend import library, parallel, places
from fewbits.backend.kinds.plain import cast
from fewbits.backend.library import Bytes
from fewbits.backend.places import Band, Chosen, Near, PlaceArray, SpreadTask
from fewbits.coding.places import others
from fewbits.reference.blocks import pieces
from fewbits.reference.formats import FLOAT32, Bits, Format
from fewbits.reference.tally import Tally


class _Threshold(NamedTuple):
    """The k-th largest magnitude, and for each slice how many are above it and equal to it."""

    key: int
    above: list[int]
    equal: list[int]


def take(
    bits: Bits, format: Format, k: int, section: Bytes, threads: int = 1
) -> tuple[Bits, Tally]:
    """The `k` values of the largest magnitude, of equal ones the first; writes their places."""
    values = np.empty(k, format.bits)
    if k == bits.size:
        return values, cast(bits, format, format, values)
    slices = parallel.slices(bits.size, threads)
    found = _threshold(bits, format, k, slices)
    section[:] = 0  # parts of it are written at the same time
    tasks, before, ties = [], 0, k - sum(found.above)
    for own, above, equal in zip(slices, found.above, found.equal, strict=True):
        taken = min(ties, equal)
        tasks.append((Chosen(bits.size, k, found.key, taken, own.start, before), above + taken))
        before, ties = before + above + taken, ties - taken

    def work(number: int) -> int:
        how, count = tasks[number]
        start = int(how.before)
        kept = values[start : start + count]
        return places.keep(bits[slices[number]], format, how, section, kept)

    nonfinite = sum(parallel.each(work, len(slices)))
    if found.key >= format.infinity:  # there may be more that are not kept
        nonfinite = _nonfinite(bits, format, threads)
    return values, Tally(0, nonfinite)


def put(section: Bytes, handed: Bits, format: Format, out: Bits, threads: int = 1) -> Tally:
    """Write the values to their places, and zeros to all others."""
    _spread(section, handed, out, threads, add=False)
    return Tally(0, _nonfinite(handed, format, threads))


def add(
    section: Bytes, handed: Bits, format: Format, totals: npt.NDArray[Any], threads: int = 1
) -> Tally:
    """Add the values to what is at their places."""
    if format.itemsize < totals.itemsize:
        wide = np.empty(handed.size, FLOAT32.bits)
        cast(handed, format, FLOAT32, wide)
    else:
        wide = handed
    _spread(section, wide, totals, threads, add=True)
    return Tally(0, _nonfinite(handed, format, threads))


def read_ranged(data: Bytes, d: int, k: int) -> PlaceArray:
    """The `k` places in a section of wire version 1."""
    found = np.empty(min(k, d - k), np.uint32)
    if found.size:
        places.decode_ranged(data, d, found)
    return found if k == found.size else others(found, d)


def _threshold(bits: Bits, format: Format, k: int, slices: list[slice]) -> _Threshold:
    band = places.guess_keys(bits, format, k)
    while True:
        low, high = band
        parts = parallel.each(
            lambda number, band=band: places.near_keys(bits[slices[number]], format, band),  # type: ignore[misc]
            len(slices),
        )
        above = [part.above for part in parts]
        inside = [part.inside for part in parts]
        wanted = k - sum(above)
        if not 0 < wanted <= sum(inside):  # the guess was bad
            band = 0, format.sign - 1
        elif low == high:
            return _Threshold(low, above, inside)
        elif all(part.is_listed for part in parts):
            return _exact(parts, band, above, wanted)
        else:
            band = _narrower(parts, band, wanted)


def _exact(parts: list[Near], band: Band, above: list[int], wanted: int) -> _Threshold:
    """The key that `wanted` keys of a band reach, all of which are listed."""
    low, high = _narrower(parts, band, wanted)  # cheaper than to look for it among all of them
    keys = np.concatenate([part.keys for part in parts])
    near = keys[(keys >= low) & (keys <= high)]
    at = near.size - (wanted - int(np.count_nonzero(keys > high)))
    key = np.partition(near, at)[at]
    more = [int(np.count_nonzero(part.keys > key)) for part in parts]
    equal = [int(np.count_nonzero(part.keys == key)) for part in parts]
    return _Threshold(int(key), [a + b for a, b in zip(above, more, strict=True)], equal)


def _narrower(parts: list[Near], band: Band, wanted: int) -> Band:
    """The part of a band where the key lies that `wanted` keys of the band reach."""
    low, high = band
    shift = max(0, (high - low).bit_length() - 12)
    bins = np.zeros(4096, np.int64)
    for part in parts:
        if part.is_listed:
            for some in pieces(part.keys.size):  # there is little memory for wide numbers
                own = part.keys[some] - part.keys.dtype.type(low)
                own >>= own.dtype.type(shift)
                bins += np.bincount(own.astype(np.int64), minlength=bins.size)
        else:
            bins += part.bins.astype(np.int64)
    reached = int(np.searchsorted(np.cumsum(bins[::-1]), wanted))
    start = low + ((bins.size - 1 - reached) << shift)
    return start, min(high, start + (1 << shift) - 1)


def _nonfinite(bits: Bits, format: Format, threads: int) -> int:
    band = format.infinity, format.sign - 1
    counts = parallel.run(
        lambda part: places.near_keys(bits[part], format, band, room=0).inside, bits.size, threads
    )
    return sum(counts)


def _spread(
    section: Bytes, handed: npt.NDArray[Any], out: npt.NDArray[Any], threads: int, *, add: bool
) -> None:
    d, k = out.size, handed.size
    n = min(k, d - k)
    parts = min(n, parallel.shares(d, threads))
    source, target = library.address(handed), library.address(out)

    def work(number: int) -> None:
        first, last = n * number // parts, n * (number + 1) // parts
        task = SpreadTask(d, k, first, last, out.itemsize, add)
        places.spread(task, section, source, target)

    parallel.each(work, parts)
