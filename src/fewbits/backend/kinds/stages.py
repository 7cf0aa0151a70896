"""Stages before another kernel: selections, rotations and divisions."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.backend import coders, parallel, stage_functions
from fewbits.backend.kernel import RANGED, Kernel, Kind
from fewbits.backend.kinds import draws, largest, plain, python, rotated
from fewbits.backend.library import Bytes
from fewbits.reference import casts
from fewbits.reference.blocks import pieces
from fewbits.reference.formats import Bits, Format
from fewbits.reference.tally import Tally
from fewbits.rng import Rng

_WHOLE = (Kind.HADAMARD, Kind.SCALE)  # stages that hand every value on
SideParts = tuple[Bytes, ...]


class _Split(NamedTuple):
    """The vector for the next stage, and the tally of the split."""

    bits: Bits
    tally: Tally


def reduced(stage: Kernel, count: int) -> int:
    """How many of `count` values a stage hands on."""
    if stage.kind is Kind.PYTHON:
        return int(python.owner_of(stage).reduced(count))
    return count if stage.kind in _WHOLE else int(stage.numbers[0])


def sections(stage: Kernel) -> int:
    """How many side sections a stage has."""
    return stage.option if stage.kind in (*_WHOLE, Kind.PYTHON) else 1


def in_place(stage: Kernel) -> bool:
    """Whether a stage may write its result where it finds its input."""
    return stage.kind in _WHOLE


def split(
    stage: Kernel, bits: Bits, format: Format, rng: Rng, into: SideParts, threads: int, *, own: bool
) -> _Split:
    """Fill the side sections and make the vector that the next stage gets; in `bits` if `own`."""
    if stage.kind is Kind.PYTHON:
        return _Split(*python.owner_of(stage).split_bits(bits, format, rng, into))
    if stage.kind is Kind.HADAMARD:
        out = bits if own else np.empty_like(bits)
        signs = rotated.signs(stage, rng, into)
        return _Split(out, rotated.split(stage, bits, format, signs, out, threads))
    if stage.kind is Kind.SCALE:
        return _divided(bits, format, float(stage.numbers[0]), bits if own else None, threads)
    count = reduced(stage, bits.size)
    if stage.kind is Kind.TOP_K:
        return _Split(*largest.take(bits, format, count, into[0], threads))
    coders.write_key(rng.key, into[0])
    if count == bits.size:
        return _Split(*_all(bits, format))
    return _Split(*draws.take(rng, bits, format, count, threads))


def _divided(bits: Bits, format: Format, by: float, room: Bits | None, threads: int) -> _Split:
    """The values over a number, in `room` or in new memory."""
    out = np.empty_like(bits) if room is None else room

    def work(part: slice) -> int:
        return stage_functions.divide(bits[part], format.code, by, out[part])

    return _Split(out, Tally(0, sum(parallel.run(work, bits.size, threads))))


def _all(bits: Bits, format: Format) -> tuple[Bits, Tally]:
    """Every value; all NaN if one is not finite."""
    values = np.empty_like(bits)
    tally = plain.cast(bits, format, format, values)
    if tally.nonfinite:
        values[:] = format.quiet_nan
    return values, tally


def join(
    stage: Kernel, parts: SideParts, handed: Bits, format: Format, out: Bits, threads: int = 1
) -> Tally:
    """The reverse of `split`; `DecodeError` for side sections that it cannot have written."""
    if stage.kind is Kind.PYTHON:
        own: Tally = python.owner_of(stage).join_bits(parts, handed, format, out)
        return own
    if stage.kind is Kind.HADAMARD:
        block, signs = int(stage.numbers[0]), rotated.sent_signs(stage, parts)
        return rotated.rotate(handed, format, block, signs, out, inverse=True, threads=threads)
    if stage.kind is Kind.SCALE:
        return plain.cast(handed, format, format, out)
    if out.size == handed.size:  # all of them: no place needs to be known
        return plain.cast(handed, format, format, out)
    if stage.kind is Kind.RAND_K:
        rng = coders.read_key(parts[0])
        return draws.put(rng, handed, format, out, threads, add=False)
    if stage.option != RANGED:
        return largest.put(parts[0], handed, format, out, threads)
    chosen = largest.read_ranged(parts[0], out.size, handed.size)
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
    """`join`, added to `totals`; may write to `handed`."""
    if stage.kind is Kind.RAND_K and totals.size > handed.size:
        rng = coders.read_key(parts[0])
        return draws.put(rng, handed, format, totals, threads, add=True)
    if stage.kind is Kind.TOP_K and totals.size > handed.size and stage.option != RANGED:
        return largest.add(parts[0], handed, format, totals, threads)
    if stage.kind is not Kind.TOP_K:
        joined = handed if in_place(stage) else np.empty(totals.size, format.bits)
        tally = join(stage, parts, handed, format, joined, threads)
        add_to(totals, joined, format)
        return tally
    chosen = largest.read_ranged(parts[0], totals.size, handed.size)
    with np.errstate(all="ignore"):  # NaN and infinity are the caller's to judge
        totals[chosen] += casts.wide(handed, format)
    return Tally(0, casts.count_nonfinite(handed, format))


def add_to(totals: npt.NDArray[Any], bits: Bits, format: Format) -> None:
    """`totals += bits`."""
    plain.add(bits, format, totals)
