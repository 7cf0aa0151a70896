"""Rows that round to multiples of a step: the native core's own.

A large row alone is cut into slices, where its blocks allow that. The paper's stream of bits is the
reference's.
"""

import math
from typing import Any

import numpy as np

from fewbits.backend import coders, functions, library, native_rows, parallel
from fewbits.backend.kernel import Kernel, Kind, Row, RowDirection, Written
from fewbits.backend.kinds.dithering import vector_sum
from fewbits.backend.kinds.joining import JoinedSection
from fewbits.backend.kinds.plain import cast
from fewbits.backend.kinds.stages import add_to
from fewbits.backend.library import Bytes
from fewbits.backend.native_rows import NativeRow, run_whole
from fewbits.backend.streams import FastRng
from fewbits.coding.rans import CODER_BLOCK
from fewbits.errors import DecodeError
from fewbits.reference import grid, grid_scales
from fewbits.reference.blocks import Blocks
from fewbits.reference.casts import to_float64
from fewbits.reference.formats import FLOAT64, Bits, Format
from fewbits.reference.grid import Numbers, Tools
from fewbits.reference.grid_scales import (
    LEAST_SQUARES,
    NEAREST,
    NORM,
    STOCHASTIC,
    SUBTRACTIVE,
    Grid,
)
from fewbits.reference.tally import Tally, total
from fewbits.rng import Rng, token

FORK = token("dither")  # names the stream of a dither that is sent
_Numbers = tuple[int, int, int]


def native_numbers(kernel: Kernel) -> _Numbers | None:
    """Option, levels and block of a native row; None if native tables lack such a row."""
    if kernel.kind is not Kind.GRID or kernel.before or kernel.numbers.enumerated:
        return None
    how: Grid = kernel.numbers
    return how.rounding + 4 * how.scale, how.bound - 1, how.block


def run(direction: RowDirection, row: Row) -> Written:
    """Encode, decode or accumulate one row."""
    how: Grid = row.kernel.numbers
    if how.enumerated:
        return _enumerated(direction, row, how)
    if direction == "encode" and how.rounding == SUBTRACTIVE:
        row = row._replace(key=Rng(row.key).child_key(FORK))
    count, written = row.count(direction), None
    unit = math.lcm(how.block or CODER_BLOCK, CODER_BLOCK)
    cut = parallel.slices if direction == "encode" else parallel.fine_slices
    slices = cut(count, row.threads, unit)
    if len(slices) > 1:
        if how.block and how.block < count:
            written = _run_slices(direction, row, how, slices)
        elif direction == "encode":
            written = _encode_together(row, how)
        elif direction == "decode":
            written = _decode_together(row, how)
    if written is not None:
        return written
    return run_whole(direction, row, _numbers(how), factors=how.factors)


def _numbers(how: Grid) -> _Numbers:
    return how.rounding + 4 * how.scale, how.bound - 1, how.block


# ---- slices of whole blocks ----


def _run_slices(
    direction: RowDirection, row: Row, how: Grid, slices: list[slice]
) -> Written | None:
    """Every slice is a row; None if one is refused or has no room: one thread settles that."""
    scales, codes, *keys = row.sections
    encodes, count = direction == "encode", row.count(direction)
    starts = [] if encodes else coders.block_starts(codes.array(), -(-count // CODER_BLOCK))
    item, joined = grid_scales.scale_format(row.format).itemsize, JoinedSection(codes)

    def work(number: int) -> Tally:
        part = slices[number]
        first, last = part.start // how.block * item, -(-part.stop // how.block) * item
        room = share_of(codes.array(), part, count)
        if not encodes:
            room = slice(*(starts[-(-at // CODER_BLOCK)] for at in (part.start, part.stop)))
        option, levels, block = _numbers(how)
        own = NativeRow(
            Kind.GRID, row.format.code, option,
            row.values.address + part.start * row.itemsize(direction), part.stop - part.start,
            part.start, row.key, 0,
            (scales.address + first, codes.address + room.start, keys[0].address if keys else 0),
            (last - first, room.stop - room.start, keys[0].size if keys else 0),
            levels, block, how.factors,
        )  # fmt: skip
        _, size, _, saturated, nonfinite = native_rows.run_row(direction, own)
        if encodes:
            joined.add(number, room.start, size)
        return Tally(saturated, nonfinite)

    try:
        met = total(parallel.in_turns(work, len(slices), row.threads))
    except (DecodeError, RuntimeError):
        return None
    size = joined.size if encodes else codes.size
    return Written(met, (scales.size, size, *(key.size for key in keys)))


def share_of(section: Bytes, part: slice, count: int) -> slice:
    """A slice's share of the section. It is enough unless slices differ much."""
    return slice(section.size * part.start // count, section.size * part.stop // count)


# ---- slices of values that share one step ----


def _encode_together(row: Row, how: Grid) -> Written | None:
    """None for rare vectors, which one thread settles.

    Those have a value that is not finite or may be cut, codes that are all zero where the largest
    value must be sent, or slices of which one needs more than its share of the section.
    """
    format = row.format
    bits, blocks = row.values.array(format.bits), Blocks.of(row.elements, 0)
    squares, largest, shift = vector_sum(bits, format, 2.0, row.threads)
    scanned = grid.Scanned(np.array([shift], np.int32), np.array([squares]), 0)
    sent = grid_scales.step_bits(how, scanned, blocks, format)
    scale = grid_scales.scale_format(format)
    step = to_float64(sent, scale)
    peak = float(to_float64(np.array([largest], format.bits), format)[0])
    if how.rounding == NEAREST and np.rint(peak / step[0] if step[0] else 0.0) == 0:
        return None
    if not np.ldexp(scanned.norms[0], shift) <= how.high:
        return None
    try:
        found = encode_slices(bits, format, sent, how, shift, row)
    except RuntimeError:  # a slice's share of the section is too small for it
        return None
    products, squared = (in_order(found.sums[:, column]) for column in (0, 1))
    if found.nonfinite:
        return None
    if how.scale != NORM:
        best = products / squared if how.scale == LEAST_SQUARES else squares / products
        grid_scales.fit(sent, step, np.ldexp(np.array([best]), shift), scale)
    if how.rounding == STOCHASTIC and not squared:
        sent[:] = 0
    scales, _, *keys = (section.array() for section in row.sections)
    written = (coders.write_key(row.key, key) for key in keys)
    return Written(Tally(), (coders.write_floats(sent, scales), found.size, *written))


def in_order(terms: Numbers) -> float:
    """The sum, term by term."""
    together = 0.0
    for term in terms.tolist():  # as one thread would
        together += term
    return together


def encode_slices(
    bits: Bits, format: Format, step: Bits, how: Grid, shift: int, row: Row
) -> functions.CodedSteps:
    """Codes of a vector with one step, entropy coded into the row's section."""
    section, joined = row.sections[1].array(), JoinedSection(row.sections[1])
    slices = parallel.slices(bits.size, row.threads)  # the larger, the more alike are their sizes

    def work(number: int) -> functions.CodedSteps:
        piece = slices[number]
        room = share_of(section, piece, bits.size)
        task = _task(how, format, how.rounding, row.key, piece.start, shift)
        each = np.repeat(step, -(-(piece.stop - piece.start) // CODER_BLOCK))
        own = functions.steps_encode(bits[piece], task, each, section[room])
        joined.add(number, room.start, own.size)
        return own

    found = parallel.in_turns(work, len(slices), row.threads)
    sums = np.concatenate([own.sums for own in found])
    return functions.CodedSteps(sums, sum(own.nonfinite for own in found), joined.size)


def _decode_together(row: Row, how: Grid) -> Written:
    format, scale = row.format, grid_scales.scale_format(row.format)
    sections = [section.array() for section in row.sections]
    scales, out = coders.read_floats(sections[0], scale), row.values.array(format.bits)
    dithered = how.rounding == SUBTRACTIVE
    key = sections[2].tobytes() if dithered else row.key
    starts = coders.block_starts(sections[1], -(-out.size // CODER_BLOCK))

    slices = parallel.fine_slices(out.size, row.threads)

    def work(number: int) -> bool:
        piece = slices[number]
        first, last = piece.start // CODER_BLOCK, -(-piece.stop // CODER_BLOCK)
        rounding = SUBTRACTIVE if dithered else NEAREST
        task = _task(how, format, rounding, key, piece.start)
        part = sections[1][starts[first] : starts[last]]
        each = np.repeat(scales, last - first)
        return bool(functions.steps_decode(part, task, each, out[piece]).any())

    some = any(parallel.in_turns(work, len(slices), row.threads))
    nan = grid_scales.checked(scales, np.array([some]), how, scale)
    return _read(row, Tally(nonfinite=out.size if nan.any() else 0))


def _task(
    how: Grid, format: Format, rounding: int, key: bytes, first: int, shift: int = 0
) -> functions.Steps:
    fit, words = how.scale != NORM, library.key_words(key)
    return functions.Steps(how.bound, rounding, fit, CODER_BLOCK, first, words, format.code, shift)


def _read(row: Row, tally: Tally) -> Written:
    return Written(tally, tuple(section.size for section in row.sections))


# ---- the paper's stream ----


def _enumerated(direction: RowDirection, row: Row, how: Grid) -> Written:
    format, scale = row.format, grid_scales.scale_format(row.format)
    section, count = row.sections[0].array(), row.count(direction)
    block, blocks = max(min(how.block or count, count), 1), Blocks.of(count, how.block)
    if direction == "encode":
        bits = row.values.array(format.bits)
        scales, codes, tally = grid_scales.quantised(
            bits, format, how, FastRng(row.key), tools(row.threads)
        )
        size = coders.write_enumerated(scales, codes, block, scale, section)
        return Written(tally, (size,))
    scales, codes = coders.read_enumerated(section, count, block, scale, how.bound)
    out: Any = row.values.array(format.bits) if direction == "decode" else None
    values = np.empty(count, format.bits) if out is None else out
    grid.dequantise(codes, to_float64(scales, scale), blocks, format, values, None, tools(1))
    nan = grid_scales.checked(scales, grid_scales.nonzero_blocks(codes, blocks), how, scale)
    if out is None:
        add_to(row.values.array(np.float64 if format == FLOAT64 else np.float32), values, format)
    return _read(row, Tally(nonfinite=int(blocks.sizes[nan].sum()) if nan.any() else 0))


def tools(threads: int) -> Tools:
    """The reference on several threads."""
    return Tools(lambda count: parallel.shares(count, threads), parallel.each, _narrowed)


def _narrowed(numbers: Numbers, format: Format, out: Bits) -> None:
    cast(numbers.view(np.uint64), FLOAT64, format, out)
