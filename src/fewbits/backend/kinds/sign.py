"""Rows of signs times a scale: the native core's own, a large one alone cut into slices."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits.backend import library, native_rows, parallel
from fewbits.backend.coders import block_starts
from fewbits.backend.kernel import NO_KEY, Kernel, Kind, Row, RowDirection, Written
from fewbits.backend.kinds.dithering import scaled_sums
from fewbits.backend.kinds.joining import JoinedSection
from fewbits.backend.native_rows import NativeRow, run_whole
from fewbits.coding import rans
from fewbits.coding.rans import CODER_BLOCK
from fewbits.errors import DecodeError
from fewbits.reference import casts
from fewbits.reference.formats import FLOAT64
from fewbits.reference.sign import BOUND
from fewbits.reference.tally import Tally, total

_TERMS = np.dtype([("sum", "<f8"), ("used", "<u8"), ("smallest", "<u8"), ("largest", "<u8")])


def native_numbers(kernel: Kernel) -> tuple[int, int, int] | None:
    """Option, levels and block of a native row; None for another kind."""
    if kernel.kind is not Kind.SIGN or kernel.before:
        return None
    return 0, 0, int(kernel.numbers[0])


def run(direction: RowDirection, row: Row) -> Written:
    """Encode, decode or accumulate one row."""
    block, encodes = int(row.kernel.numbers[0]), direction == "encode"
    slices = parallel.slices(row.count(direction), row.threads)
    if len(slices) > 1 and encodes:
        return _encode_slices(row, block, slices)
    if len(slices) > 1:
        try:
            return _read_slices(direction, row, block, slices)
        except DecodeError:
            pass  # the whole is refused too, for a reason that no number of threads changes
    return run_whole(direction, row, (0, 0, block))


def _encode_slices(row: Row, block: int, slices: list[slice]) -> Written:
    """Every slice is written where the largest ones before it would end, and then moves."""
    scales, codes = row.sections
    joined = JoinedSection(codes)
    terms = np.empty(0 if block else -(-row.elements // CODER_BLOCK), _TERMS)

    def work(number: int) -> Tally:
        part = slices[number]
        start, end = (rans.largest_size(at, BOUND, True) for at in (part.start, part.stop))
        own = terms[part.start // CODER_BLOCK : -(-part.stop // CODER_BLOCK)]
        scale = _scales(row, block, part) if block else (scales.address, 0)
        addresses = scale[0], codes.address + start, library.address(own)
        given = _native(row, "encode", block, part, addresses, (scale[1], end - start, own.nbytes))
        _, size, _, saturated, nonfinite = native_rows.run_row("encode", given)
        joined.add(number, start, size)
        return Tally(saturated, nonfinite)

    met = total(parallel.each(work, len(slices)))
    if not block:
        scales.array(row.format.bits)[:] = _mean(terms, row)
    return Written(met, (scales.size, joined.size))


def _read_slices(direction: RowDirection, row: Row, block: int, slices: list[slice]) -> Written:
    scales, codes = row.sections
    starts = block_starts(codes.array(), -(-row.count(direction) // CODER_BLOCK))

    def work(number: int) -> Tally:
        part = slices[number]
        start, stop = starts[part.start // CODER_BLOCK], starts[-(-part.stop // CODER_BLOCK)]
        scale = _scales(row, block, part) if block else (scales.address, scales.size)
        addresses, sizes = (scale[0], codes.address + start, 0), (scale[1], stop - start, 0)
        given = _native(row, direction, block, part, addresses, sizes)
        *_, saturated, nonfinite = native_rows.run_row(direction, given)
        return Tally(saturated, nonfinite)

    tally = total(parallel.each(work, len(slices)))
    return Written(tally, (scales.size, codes.size))


def _scales(row: Row, block: int, part: slice) -> tuple[int, int]:
    """Where the scales of a slice are, and their bytes."""
    item = row.format.itemsize
    start, stop = part.start // block * item, -(-part.stop // block) * item
    return row.sections[0].address + start, stop - start


def _native(
    row: Row,
    direction: RowDirection,
    block: int,
    part: slice,
    addresses: tuple[int, int, int],
    sizes: tuple[int, int, int],
) -> NativeRow:
    values = row.values.address + part.start * row.itemsize(direction)
    return NativeRow(
        Kind.SIGN, row.format.code, 0, values, part.stop - part.start, 0, NO_KEY, 0,
        addresses, sizes, 0, block,
    )  # fmt: skip


def _mean(terms: npt.NDArray[Any], row: Row) -> int:
    """The scale of a whole vector, as in `dithering.means`."""
    used = int(terms["used"].sum())
    if not used:
        return 0
    smallest, largest = int(terms["smallest"].min()), int(terms["largest"].max())
    sums, shift = terms["sum"], 0
    if row.format == FLOAT64:  # divided by the largest magnitude's power of two
        shift = math.frexp(float(np.array([largest], np.uint64).view(np.float64)[0]))[1]
        sums = scaled_sums(row.values.array(row.format.bits), 1.0, shift, row.threads)
    together = 0.0
    for term in sums.tolist():  # in order, as one thread would
        together += term
    with np.errstate(over="ignore"):
        mean = np.minimum(np.ldexp(np.array([together / used]), shift), np.finfo(np.float64).max)
    nearest, _, _ = casts.cast(mean.view(np.uint64), FLOAT64, row.format)
    return min(max(int(nearest[0]), smallest), largest)
