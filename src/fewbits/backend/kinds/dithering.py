"""Rows that round to levels of their blocks' norms: the native core's own.

A large row alone is cut into slices. Norms other than 1, 2 and inf are the reference's: they use
the machine's `pow`.
"""

import math

import numpy as np
import numpy.typing as npt

from fewbits.backend import coders, functions, library, native_rows, parallel
from fewbits.backend.coders import block_starts
from fewbits.backend.kernel import Kernel, Kind, Row, RowDirection, Written
from fewbits.backend.kinds.joining import JoinedSection
from fewbits.backend.native_rows import NativeRow, run_whole
from fewbits.backend.streams import FastRng
from fewbits.coding import rans
from fewbits.coding.bitpack import packed_size
from fewbits.coding.rans import CODER_BLOCK
from fewbits.errors import DecodeError
from fewbits.reference import casts, dithering
from fewbits.reference.blocks import SUMMATION_BLOCK
from fewbits.reference.dithering import Levels
from fewbits.reference.formats import FLOAT64, Bits, Format
from fewbits.reference.tally import Tally, total

NORMS = {1.0: 1, 2.0: 2, math.inf: 3}  # those that native code knows
# Added to a native row's norm: levels are powers of two, or coded, scales are powers of two.
_POWERS, _CODED, _SCALES_POWERS = 4, 8, 16


def native_numbers(kernel: Kernel) -> tuple[int, int, int] | None:
    """Option, levels and block of a native row; None if native tables lack such a row."""
    if kernel.kind is not Kind.DITHERING or kernel.before:
        return None
    how = Levels(*kernel.numbers)
    if how.p not in NORMS:
        return None
    option = NORMS[how.p] + _SCALES_POWERS * how.natural_scale
    return option + _codes(how), how.levels, how.block


def _codes(how: Levels) -> int:
    return _POWERS * how.natural + _CODED * how.coded


def run(direction: RowDirection, row: Row) -> Written:
    """Encode, decode or accumulate one row."""
    how = Levels(*row.kernel.numbers)
    # Scales of a slice begin at a whole byte.
    unit = max(parallel.THREAD_SLICE, 8 * how.block if how.natural_scale else 0)
    slices = parallel.fine_slices(row.count(direction), row.threads, unit)
    if direction != "encode":
        if len(slices) > 1:
            try:
                return _read_slices(direction, row, how, slices)
            except DecodeError:
                pass  # the whole is refused too, for a reason that no number of threads changes
        return run_whole(direction, row, _numbers(how))
    if how.p in NORMS and len(slices) == 1:
        return run_whole(direction, row, _numbers(how))
    if how.p in NORMS and how.block:
        return _encode_slices(row, how, slices, row.sections[0].address, _numbers(how)[0])
    scales = _sent(row, how)
    return _encode_slices(row, how, slices, library.address(scales), _codes(how))


def _numbers(how: Levels) -> tuple[int, int, int]:
    """Those of a row that finds its scales itself, or reads them: then the norm is not asked."""
    option = NORMS.get(how.p, 1) + _SCALES_POWERS * how.natural_scale + _codes(how)
    return option, how.levels, how.block


def _sent(row: Row, how: Levels) -> Bits:
    """Find and send scales; those to round with, 0 where nothing can be sent."""
    format = row.format
    bits = row.values.array(format.bits)
    found = (
        norm(bits, format, how.p, row.threads)
        if how.p in NORMS and not how.block
        else dithering.scales(bits, format, how.p, how.block)
    )
    scales, sent = dithering.sent_scales(found, how, format, FastRng(row.key))
    into = row.sections[0].array()
    if how.natural_scale:
        coders.pack(sent, format.exponent, into)
    else:
        coders.write_floats(sent, into)
    return np.where(sent == 0, format.bits.type(0), scales)


def norm(bits: Bits, format: Format, p: float, threads: int = 1) -> Bits:
    """The norm of a vector, as in `dithering.scales`, for a norm in `NORMS`."""
    if not bits.size:
        return np.empty(0, format.bits)
    together, largest, shift = vector_sum(bits, format, p, threads)
    scale = np.array([largest], format.bits)
    if p == math.inf or not largest:
        return scale
    root = math.sqrt(together) if p == 2 else together
    with np.errstate(over="ignore"):
        whole = np.minimum(np.ldexp(np.array([root]), shift), np.finfo(np.float64).max)
    return np.maximum(scale, casts.cast(whole.view(np.uint64), FLOAT64, format)[0])


def vector_sum(bits: Bits, format: Format, p: float, threads: int) -> tuple[float, int, int]:
    """A norm's sum over a vector that is not empty, its largest magnitude's bits, and a shift.

    Sums of float64 are of values divided by two to the shift.
    """

    def terms(shift: int, name: int) -> tuple[float, int]:
        found = parallel.run(
            lambda piece: functions.norm_terms(bits[piece], format, SUMMATION_BLOCK, name, shift),
            bits.size,
            threads,
        )
        together = 0.0
        for sums, _ in found:
            for term in sums.tolist():  # in order, as one thread would
                together += term
        return together, max(int(largest.max()) for _, largest in found)

    apart = format == FLOAT64 and p != math.inf  # divided by the largest magnitude, found first
    together, largest = terms(0, NORMS[math.inf if apart else p])
    if not apart or not largest:
        return together, largest, 0
    shift = math.frexp(float(np.array([largest], np.uint64).view(np.float64)[0]))[1]
    return terms(shift, NORMS[p])[0], largest, shift


def scaled_sums(bits: Bits, p: float, shift: int, threads: int) -> npt.NDArray[np.float64]:
    """Sums of blocks of a norm's terms of float64 values divided by two to the shift."""
    found = parallel.run(
        lambda piece: functions.norm_terms(bits[piece], FLOAT64, SUMMATION_BLOCK, NORMS[p], shift),
        bits.size,
        threads,
    )
    return np.concatenate([sums for sums, _ in found])


def _encode_slices(row: Row, how: Levels, slices: list[slice], scales: int, option: int) -> Written:
    """Every slice is written where the largest ones before it would end, and then moves."""
    codes = row.sections[1]
    joined = JoinedSection(codes)

    def work(number: int) -> Tally:
        part = slices[number]
        first = _scales(row.format, how, part, given=not option & 3)
        second = [_largest(how, at) for at in (part.start, part.stop)]
        own = _slice(row, "encode", how, part, option, (scales, codes.address), (first, second))
        _, size, _, saturated, nonfinite = native_rows.run_row("encode", own)
        joined.add(number, second[0], size)
        return Tally(saturated, nonfinite)

    met = total(parallel.in_turns(work, len(slices), row.threads))
    return Written(met, (row.sections[0].size, joined.size))


def _read_slices(direction: RowDirection, row: Row, how: Levels, slices: list[slice]) -> Written:
    scales, codes = row.sections
    count = row.count(direction)
    starts = block_starts(codes.array(), -(-count // CODER_BLOCK)) if how.coded else []

    def work(number: int) -> Tally:
        part = slices[number]
        if how.coded:
            second = [starts[part.start // CODER_BLOCK], starts[-(-part.stop // CODER_BLOCK)]]
        else:
            second = [_largest(how, at) for at in (part.start, part.stop)]
        spans = _scales(row.format, how, part), second
        addresses = scales.address, codes.address
        own = _slice(row, direction, how, part, _numbers(how)[0], addresses, spans)
        *_, saturated, nonfinite = native_rows.run_row(direction, own)
        return Tally(saturated, nonfinite)

    tally = total(parallel.in_turns(work, len(slices), row.threads))
    return Written(tally, (scales.size, codes.size))


def _scales(format: Format, how: Levels, part: slice, given: bool = False) -> list[int]:
    """Where the scales of a slice begin and end among those of the vector; one is for all."""
    blocks = 0, min(part.stop, 1)
    if how.block:
        blocks = part.start // how.block, -(-part.stop // how.block)
    width = format.exponent if how.natural_scale and not given else 8 * format.itemsize
    return [packed_size(number, width) for number in blocks]


def _largest(how: Levels, count: int) -> int:
    """Where the codes of a slice begin that is written at the same time as those before it."""
    if how.coded:
        return rans.largest_size(count, how.levels + 2, True)
    return packed_size(count, (2 * how.levels + 1).bit_length())


def _slice(
    row: Row,
    direction: RowDirection,
    how: Levels,
    part: slice,
    option: int,
    addresses: tuple[int, int],
    spans: tuple[list[int], list[int]],
) -> NativeRow:
    first, second = (address + span[0] for address, span in zip(addresses, spans, strict=True))
    sizes = [span[1] - span[0] for span in spans]
    values = row.values.address + part.start * row.itemsize(direction)
    return NativeRow(
        Kind.DITHERING, row.format.code, option, values, part.stop - part.start, part.start,
        row.key, 0, (first, second, 0), (sizes[0], sizes[1], 0), how.levels, how.block,
    )  # fmt: skip
