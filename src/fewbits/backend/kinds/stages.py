"""Stages before another kernel: selections and rotations."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.backend import coders, library
from fewbits.backend.kernel import RANGED, Kernel, Kind
from fewbits.backend.kinds import largest, python
from fewbits.backend.kinds.plain import cast
from fewbits.backend.library import Bytes
from fewbits.reference import casts, selection
from fewbits.reference.blocks import pieces
from fewbits.reference.formats import FLOAT64, Bits, Format
from fewbits.reference.rotation import COMMON
from fewbits.reference.selection import Places
from fewbits.reference.tally import Tally
from fewbits.rng import Rng

SideParts = tuple[Bytes, ...]
PRIVATE = 1  # option of HADAMARD: signs of its own, whose key is sent


class _Split(NamedTuple):
    """The vector for the next stage, and the tally of the split."""

    bits: Bits
    tally: Tally


def reduced(stage: Kernel, count: int) -> int:
    """How many of `count` values a stage hands on."""
    if stage.kind is Kind.PYTHON:
        return int(python.owner_of(stage).reduced(count))
    return count if stage.kind is Kind.HADAMARD else int(stage.numbers[0])


def sections(stage: Kernel) -> int:
    """How many side sections a stage has."""
    return stage.option if stage.kind in (Kind.HADAMARD, Kind.PYTHON) else 1


def split(
    stage: Kernel, bits: Bits, format: Format, rng: Rng, into: SideParts, threads: int
) -> _Split:
    """Fill the side sections and make the vector that the next stage gets."""
    if stage.kind is Kind.PYTHON:
        return _Split(*python.owner_of(stage).split_bits(bits, format, rng, into))
    if stage.kind is Kind.HADAMARD:
        return _rotated(stage, bits, format, rng, into)
    count = reduced(stage, bits.size)
    if stage.kind is Kind.TOP_K:
        return _Split(*largest.take(bits, format, count, into[0], threads))
    coders.write_key(rng.key, into[0])
    values, saturated = multiplied(bits[random_places(rng, bits.size, count)], format, bits.size)
    nonfinite = casts.count_nonfinite(bits, format)
    if nonfinite:
        values[:] = format.quiet_nan
    return _Split(values, Tally(saturated, nonfinite))


def join(
    stage: Kernel, parts: SideParts, handed: Bits, format: Format, out: Bits, threads: int = 1
) -> Tally:
    """The reverse of `split`; `DecodeError` for side sections that it cannot have written."""
    if stage.kind is Kind.PYTHON:
        own: Tally = python.owner_of(stage).join_bits(parts, handed, format, out)
        return own
    if stage.kind is Kind.HADAMARD:
        rng = coders.read_key(parts[0]) if stage.option == PRIVATE else COMMON
        return rotate(handed, format, int(stage.numbers[0]), rng, out, inverse=True)
    if out.size == handed.size:  # all of them: no place needs to be known
        out[:] = handed
    elif stage.kind is Kind.TOP_K and stage.option != RANGED:
        return largest.put(parts[0], handed, format, out, threads)
    else:
        chosen = _places(stage, parts, out.size, handed.size)
        out[:] = 0
        for part in pieces(handed.size):
            out[chosen[part]] = handed[part]
    return Tally(0, casts.count_nonfinite(handed, format))


def add(
    stage: Kernel,
    parts: SideParts,
    handed: Bits,
    format: Format,
    totals: npt.NDArray[Any],
    threads: int = 1,
) -> Tally:
    """`join`, added to `totals`."""
    if stage.kind is Kind.TOP_K and totals.size > handed.size and stage.option != RANGED:
        return largest.add(parts[0], handed, format, totals, threads)
    if stage.kind not in (Kind.TOP_K, Kind.RAND_K):
        joined = np.empty(totals.size, format.bits)
        tally = join(stage, parts, handed, format, joined)
        add_to(totals, joined, format)
        return tally
    chosen = _places(stage, parts, totals.size, handed.size)
    with np.errstate(all="ignore"):  # NaN and infinity are the caller's to judge
        totals[chosen] += casts.wide(handed, format)
    return Tally(0, casts.count_nonfinite(handed, format))


def add_to(totals: npt.NDArray[Any], bits: Bits, format: Format) -> None:
    with np.errstate(all="ignore"):  # NaN and infinity are the caller's to judge
        totals += casts.wide(bits, format)


def _places(stage: Kernel, parts: SideParts, d: int, k: int) -> Places:
    if stage.kind is Kind.TOP_K:
        return largest.read_ranged(parts[0], d, k)
    return random_places(coders.read_key(parts[0]), d, k)


def random_places(rng: Rng, d: int, k: int) -> Places:
    """The `k` of `d` places that a stream chooses."""
    return library.select(library.words(rng.key, 0, d), 0, k)[0]


def multiplied(bits: Bits, format: Format, d: int) -> tuple[Bits, int]:
    """Values times d/k, rounded once; what overflows is clipped and counted."""
    if bits.size in (0, d):
        return bits.copy(), 0
    products, beyond = selection.products(bits, format, d)
    if format == FLOAT64:
        return products.view(np.uint64), beyond
    result = np.empty(bits.size, format.bits)
    return result, cast(products.view(np.uint64), FLOAT64, format, result).saturated


def _rotated(stage: Kernel, bits: Bits, format: Format, rng: Rng, into: SideParts) -> _Split:
    if stage.option == PRIVATE:
        coders.write_key(rng.key, into[0])
    else:
        rng = COMMON
    rotated = np.empty_like(bits)
    tally = rotate(bits, format, int(stage.numbers[0]), rng, rotated)
    if tally.nonfinite:  # all of a block that holds one: say how many there were
        tally = tally._replace(nonfinite=casts.count_nonfinite(bits, format))
    return _Split(rotated, tally)


def rotate(
    bits: Bits, format: Format, block: int, signs: Rng, out: Bits, *, inverse: bool = False
) -> Tally:
    """The randomised Walsh-Hadamard rotation of blocks, as `rotation.rotate` specifies it."""
    return Tally(*library.rotate(bits, format.code, block, signs.key, out, inverse=inverse))
