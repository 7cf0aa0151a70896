"""Rows that round to levels of their blocks' norms.

float32 vectors are rounded natively, and codes of few levels are written, coded and read natively;
the rest is the reference's. Where scales are sent as they are, a row of a table is native as a
whole.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits.backend import coders, functions, library, parallel
from fewbits.backend.kernel import Kernel, Kind, Row, Written
from fewbits.backend.kinds.plain import joined
from fewbits.backend.library import Bytes
from fewbits.backend.streams import FastRng
from fewbits.coding import rans
from fewbits.coding.bitpack import packed_size
from fewbits.coding.rans import CODER_BLOCK
from fewbits.reference import casts, dithering
from fewbits.reference.blocks import SUMMATION_BLOCK, Blocks
from fewbits.reference.dithering import Levels
from fewbits.reference.formats import FLOAT32, FLOAT64, Bits, Format
from fewbits.reference.tally import Tally, total

NORMS = {1.0: 1, 2.0: 2, math.inf: 3}  # those that native code knows
MOST_UNDITHERED = 127  # levels whose codes fit into a byte
_POWERS, _CODED = 4, 8  # added to a native row's norm: levels are powers of two, or coded


def native_numbers(kernel: Kernel, format: Format) -> tuple[int, int, int] | None:
    """Option, levels and block of a native row; None if native tables lack such a row."""
    if kernel.kind is not Kind.DITHERING or kernel.before:
        return None
    how = Levels(*kernel.numbers)
    if how.natural_scale or how.p not in NORMS or not _reads_natively(how, format):
        return None
    option = NORMS[how.p] + _POWERS * how.natural + _CODED * how.coded
    return option, how.levels, how.block


def encode(row: Row) -> Written:
    """Scales, then codes."""
    how: Levels = row.kernel.numbers
    format, rng = row.format, FastRng(row.key)
    bits = row.values.array(format.bits)
    first, second = (section.array() for section in row.sections)
    scales, sent = dithering.sent_scales(_scales(bits, format, how, row.threads), how, format, rng)
    _write_scales(sent, how, format, first)
    if _rounds_natively(how, format, scales, sent):
        return _encode_natively(row, how, bits, scales)
    found = dithering.encode(bits, format, how, rng, scales, sent)
    if how.coded:
        size = coders.write_coded(found.codes, how.levels + 2, second)
    else:
        coders.pack(found.codes, _width(how), second)
        size = second.size
    return Written(Tally(found.saturated, found.nonfinite), (first.size, size))


def decode(row: Row) -> Tally:
    """Values of the codes."""
    how: Levels = row.kernel.numbers
    format = row.format
    out = row.values.array(format.bits)
    scales = _read_scales(row, how, out.size)
    data = row.sections[1].array()
    if _reads_natively(how, format):
        return undither(data, scales, out, how, threads=row.threads)
    parts: Iterator[tuple[slice, npt.NDArray[Any]]]
    if how.coded:
        parts = coders.coded_parts(data, how.levels + 2, out.size)
    else:
        parts = coders.packed_parts(data, _width(how), 2 * how.levels + 2, out.size)
    table = dithering.values_of_codes(scales, how, format)

    def work(part: slice, codes: npt.NDArray[Any]) -> int:
        return dithering.decode(codes, scales, how, format, out[part], part.start, table)

    return Tally(0, coders.each_part(parts, work))


def accumulate(row: Row, totals: npt.NDArray[Any]) -> Tally | None:
    """Add natively; None if only `decode` knows how."""
    how: Levels = row.kernel.numbers
    if not _reads_natively(how, row.format):
        return None
    scales = _read_scales(row, how, totals.size)
    return undither(row.sections[1].array(), scales, totals, how, add=True, threads=row.threads)


def _scales(bits: Bits, format: Format, how: Levels, threads: int) -> Bits:
    if format == FLOAT32 and how.p in NORMS:
        return norms(bits, how.p, how.block, threads=threads)
    return dithering.scales(bits, format, how.p, how.block)


def _write_scales(sent: npt.NDArray[Any], how: Levels, format: Format, into: Bytes) -> None:
    if how.natural_scale:
        coders.pack(sent, format.exponent, into)
    else:
        coders.write_floats(sent, into)


def _read_scales(row: Row, how: Levels, count: int) -> Bits:
    format, data = row.format, row.sections[0].array()
    if how.natural_scale:
        number = Blocks.of(count, how.block).number
        powers = coders.unpack(data, format.exponent, format.top_code, number)
        return dithering.read_scales(powers, how, format)
    return dithering.read_scales(coders.read_floats(data, format), how, format)


def _width(how: Levels) -> int:
    return (2 * how.levels + 1).bit_length()


def _reads_natively(how: Levels, format: Format) -> bool:
    return format == FLOAT32 and how.levels <= MOST_UNDITHERED


def _rounds_natively(how: Levels, format: Format, scales: Bits, sent: npt.NDArray[Any]) -> bool:
    """Whether the native kernel rounds as the reference does: no scale was lost or cut."""
    if format != FLOAT32:
        return False
    cut = how.natural_scale and bool((scales >= format.largest_power).any())
    return not cut and not ((sent == 0) & (scales != 0)).any()


def _encode_natively(row: Row, how: Levels, bits: Bits, scales: Bits) -> Written:
    first, second = (section.array() for section in row.sections)
    if not how.coded or how.levels <= MOST_UNDITHERED:
        tally, size = dither(bits, row.key, scales, second, how, threads=row.threads)
        return Written(tally, (first.size, size))
    plain = how._replace(coded=False)
    packed = np.empty(packed_size(bits.size, _width(how)), np.uint8)
    tally, _ = dither(bits, row.key, scales, packed, plain, threads=row.threads)
    codes = coders.unpack(packed, _width(how), 2 * how.levels + 2, bits.size).astype(np.int32)
    negative = codes > how.levels
    codes[negative] = how.levels - codes[negative]
    codes[codes == -how.levels - 1] = how.levels + 1
    return Written(tally, (first.size, coders.write_coded(codes, how.levels + 2, second)))


def norms(bits: Bits, p: float, block: int, *, threads: int = 1) -> Bits:
    """The norm of each block, as in `dithering.scales`, for float32 and a norm in `NORMS`."""
    own = bits.view(np.uint32)
    size = block or SUMMATION_BLOCK
    terms = parallel.run(
        lambda piece: functions.norm_terms(own[piece], size, NORMS[p]), bits.size, threads
    )
    sums, largest = (np.concatenate(part) for part in zip(*terms, strict=True))
    if not block and bits.size:
        together = 0.0
        for term in sums.tolist():  # in order, as one thread would
            together += term
        sums, largest = np.array([together]), largest.max(keepdims=True)
    if p == math.inf:
        return largest
    roots = np.sqrt(sums) if p == 2 else sums
    nearest, _, _ = casts.cast(roots.view(np.uint64), FLOAT64, FLOAT32)
    scales: Bits = np.maximum(largest, nearest)
    return scales


def dither(
    bits: Bits, key: bytes, scales: Bits, section: Bytes, how: Levels, *, threads: int = 1
) -> tuple[Tally, int]:
    """Round float32 values to levels of their block's scale and pack or code them: the size."""
    own = bits.view(np.uint32)

    def work(piece: slice) -> tuple[Tally, tuple[int, int]]:
        size, given = _blocks(scales, how.block, piece)
        words, start = library.key_words(key), _largest(how, piece.start)
        task = functions.DitheringArguments(
            how.levels, how.natural, size, piece.start, words, how.coded
        )
        part = section[start : _largest(how, piece.stop)]
        written, nonfinite = functions.dither(own[piece], task, given, part)
        return Tally(0, nonfinite), (start, written)

    found = parallel.run(work, bits.size, threads)
    return total([tally for tally, _ in found]), joined(section, [part for _, part in found])


def _largest(how: Levels, count: int) -> int:
    """Where the codes of a slice begin that is written at the same time as those before it."""
    if how.coded:
        return rans.largest_size(count, how.levels + 2, True)
    return packed_size(count, _width(how))


def undither(
    section: Bytes,
    scales: Bits,
    values: npt.NDArray[Any],
    how: Levels,
    *,
    add: bool = False,
    threads: int = 1,
) -> Tally:
    """The reverse for at most `MOST_UNDITHERED` levels: to float32 bits, or added to totals."""
    own = values.view(np.uint32)
    apart = how.coded and parallel.shares(own.size, threads) > 1
    starts = coders.block_starts(section, -(-own.size // CODER_BLOCK)) if apart else []

    def work(piece: slice) -> tuple[int, int]:
        size, given = _blocks(scales, how.block, piece)
        task = functions.DitheringArguments(how.levels, how.natural, size, coded=how.coded)
        part = section
        if apart:
            first, last = piece.start // CODER_BLOCK, -(-piece.stop // CODER_BLOCK)
            part = section[starts[first] : starts[last]]
        elif not how.coded:
            part = section[_largest(how, piece.start) : _largest(how, piece.stop)]
        return functions.undither(part, task, given, own[piece], add=add)

    found = parallel.run(work, values.size, threads)
    statuses = [status for status, _ in found]
    if apart and any(statuses):  # the reason must not depend on the number of threads
        return undither(section, scales, values, how, add=add)
    functions.check(statuses)
    return Tally(0, sum(nonfinite for _, nonfinite in found))


def _blocks(scales: Bits, block: int, piece: slice) -> tuple[int, npt.NDArray[np.uint32]]:
    """The size of a piece's blocks, and their scales."""
    size = block or max(piece.stop - piece.start, 1)
    first = piece.start // block if block else 0
    given = scales[first : first + -(-(piece.stop - piece.start) // size)]
    return size, given.view(np.uint32)
