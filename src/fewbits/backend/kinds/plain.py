"""Kinds whose rows are the native core's own: natural compression and casts.

A row is cut into one for each thread, at multiples of a slice.
"""

from collections.abc import Callable

import numpy as np

from fewbits.backend import library, native_rows, parallel
from fewbits.backend.coders import block_starts
from fewbits.backend.kernel import CODED, NO_KEY, Kind, Row, RowDirection, Written
from fewbits.backend.kinds.joining import JoinedSection
from fewbits.backend.native_rows import NativeRow
from fewbits.coding import rans
from fewbits.coding.bitpack import packed_size
from fewbits.coding.rans import CODER_BLOCK
from fewbits.errors import DecodeError
from fewbits.reference.blocks import pieces
from fewbits.reference.formats import BY_CODE, Bits, Format
from fewbits.reference.tally import Tally, total

Call = Callable[[RowDirection, NativeRow], tuple[int, ...]]


def run(direction: RowDirection, row: Row, call: Call = native_rows.run_row) -> Written:
    """Encode, decode or accumulate one row; `call` runs each thread's."""
    kernel = row.kernel
    if kernel.kind is Kind.NATURAL and kernel.option & CODED:
        if direction == "encode":
            return _coded_encode(row, call)
        return _coded_read(direction, row, call)
    widths = _widths(row)
    item = row.itemsize(direction)
    count = row.values.size // item
    sizes = tuple(section.size for section in row.sections)
    if sum(sizes) != packed_size(count, widths[0]) + packed_size(count, widths[1]):
        raise RuntimeError(f"sections of {sizes} bytes do not fit {count} values")
    slices = parallel.slices(count, row.threads)
    if len(slices) == 1:
        tally = _run_slice(direction, row, call, widths, slice(0, count))
    else:
        found = parallel.each(
            lambda number: _run_slice(direction, row, call, widths, slices[number]), len(slices)
        )
        tally = total(found)
    if direction == "decode" and kernel.kind is Kind.CAST:
        check_cast(row, tally)
    return Written(tally, sizes)


def _widths(row: Row) -> tuple[int, int]:
    """Bits that a value takes in each section."""
    if row.kernel.kind is Kind.NATURAL:
        return row.format.exponent, 1
    return 8 * BY_CODE[row.kernel.option].itemsize, 0


def _run_slice(
    direction: RowDirection, row: Row, call: Call, widths: tuple[int, int], part: slice
) -> Tally:
    item = row.itemsize(direction)
    starts = [packed_size(part.start, width) for width in widths]
    stops = [packed_size(part.stop, width) for width in widths]
    where = [section.address for section in row.sections]
    first, second = where if len(where) == 2 else (where[0], 0)
    *_, saturated, nonfinite = call(
        direction,
        NativeRow(
            row.kernel.kind,
            row.format.code,
            row.kernel.option,
            row.values.address + part.start * item,
            part.stop - part.start,
            part.start,
            row.key,
            0,
            (first + starts[0], second + starts[1], 0),
            (stops[0] - starts[0], stops[1] - starts[1], 0),
        ),
    )
    return Tally(saturated, nonfinite)


def cast(bits: Bits, source: Format, target: Format, out: Bits) -> Tally:
    """Convert between formats; a copy that counts non-finite values where they are equal."""
    if bits.size != out.size or bits.dtype != source.bits or out.dtype != target.bits:
        raise RuntimeError(f"cannot cast {bits.size} {bits.dtype} to {out.size} {out.dtype}")
    row = NativeRow(
        Kind.CAST, source.code, target.code, library.address(bits), bits.size, 0, NO_KEY, 0,
        (library.address(out), 0, 0), (out.nbytes, 0, 0),
    )  # fmt: skip
    *_, saturated, nonfinite = native_rows.run_row("encode", row)
    return Tally(saturated, nonfinite)


def add(bits: Bits, format: Format, totals: library.AnyArray) -> None:
    """Add numbers to totals, which are float64 for float64 and float32 for the others."""
    if bits.dtype != format.bits or totals.shape != bits.shape:
        raise RuntimeError(f"cannot add {bits.size} {bits.dtype} to {totals.size} {totals.dtype}")
    row = NativeRow(
        Kind.CAST, format.code, format.code, library.address(totals), bits.size, 0, NO_KEY, 0,
        (library.address(bits), 0, 0), (bits.nbytes, 0, 0),
    )  # fmt: skip
    native_rows.run_row("accumulate", row)


def check_cast(row: Row, tally: Tally) -> None:
    """Refuse what encoding does not write: another NaN, or a value that the format lacks."""
    target = BY_CODE[row.kernel.option]
    if target == row.format or not (tally.nonfinite or not row.format.holds(target)):
        return
    values, sent = row.values.array(row.format.bits), row.sections[0].array(target.bits)

    def are_written(part: slice) -> bool:
        own, given = values[part], sent[part]
        return all(
            _is_written(own[piece], row.format, given[piece], target) for piece in pieces(own.size)
        )

    if not all(parallel.run(are_written, values.size, row.threads)):
        raise DecodeError(f"section 'values' holds a value that {target.name} cannot have written")


def _is_written(values: Bits, format: Format, sent: Bits, target: Format) -> bool:
    again = np.empty(sent.size, target.bits)
    cast(values, format, target, again)
    return np.array_equal(again, sent)


# ---- natural compression with coded exponents ----


def _coded_encode(row: Row, call: Call) -> Written:
    """Blocks do not depend on each other.

    Every slice is written where the largest blocks before its own would end, and then moves.
    """
    section, bound, item = row.sections[0], row.format.top_code + 1, row.format.itemsize
    slices, joined = parallel.fine_slices(row.elements, row.threads), JoinedSection(section)

    def work(number: int) -> Tally:
        part = slices[number]
        start, end = (rans.largest_size(at, bound, True) for at in (part.start, part.stop))
        own = NativeRow(
            row.kernel.kind, row.format.code, row.kernel.option,
            row.values.address + part.start * item, part.stop - part.start, part.start, row.key, 0,
            (section.address + start, 0, 0), (end - start, 0, 0),
        )  # fmt: skip
        size, _, _, saturated, nonfinite = call("encode", own)
        joined.add(number, start, size)
        return Tally(saturated, nonfinite)

    met = total(parallel.in_turns(work, len(slices), row.threads))
    return Written(met, (joined.size,))


def _coded_read(direction: RowDirection, row: Row, call: Call) -> Written:
    section, item = row.sections[0], row.itemsize(direction)
    count = row.values.size // item
    slices = parallel.fine_slices(count, row.threads)
    starts = block_starts(section.array(), -(-count // CODER_BLOCK)) if len(slices) > 1 else []

    def work(number: int) -> Tally:
        part = slices[number]
        start, stop = 0, section.size
        if starts:
            start, stop = starts[part.start // CODER_BLOCK], starts[-(-part.stop // CODER_BLOCK)]
        own = NativeRow(
            row.kernel.kind, row.format.code, CODED,
            row.values.address + part.start * item, part.stop - part.start, part.start, NO_KEY,
            0, (section.address + start, 0, 0), (stop - start, 0, 0),
        )  # fmt: skip
        *_, saturated, nonfinite = call(direction, own)
        return Tally(saturated, nonfinite)

    met = total(parallel.in_turns(work, len(slices), row.threads))
    return Written(met, (section.size,))
