"""Rows that round to multiples of a step.

float32 vectors are rounded natively, fused with the entropy coder, where blocks are made of whole
coder blocks or divide them. Vectors with values that are not finite are left to the reference.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.backend import coders, functions, library, parallel
from fewbits.backend.kernel import Row, Written
from fewbits.backend.kinds.plain import cast, joined
from fewbits.backend.library import Bytes
from fewbits.backend.streams import FastRng
from fewbits.coding import rans
from fewbits.coding.rans import CODER_BLOCK
from fewbits.reference import grid, grid_scales
from fewbits.reference.blocks import Blocks
from fewbits.reference.casts import to_float64
from fewbits.reference.formats import FLOAT32, FLOAT64, Bits, Format
from fewbits.reference.grid import Numbers, Tools
from fewbits.reference.grid_scales import (
    LEAST_SQUARES,
    MATCHED,
    NEAREST,
    STOCHASTIC,
    SUBTRACTIVE,
    Grid,
)
from fewbits.reference.tally import Tally
from fewbits.rng import Rng

_SQUARES = 2  # the norm whose terms are squares


class CodedGrid(NamedTuple):
    """What encoding met: sums for each block, values that are not finite, bytes."""

    products: Numbers
    squares: Numbers
    nonfinite: int
    size: int


def encode(row: Row) -> Written:
    """Scales, codes and, if the decoder draws the dither again, its key."""
    how: Grid = row.kernel.numbers
    format = row.format
    bits, rng = row.values.array(format.bits), Rng(row.key)
    if how.rounding == SUBTRACTIVE:
        rng = rng.fork("dither")
    sections = [section.array() for section in row.sections]
    if not how.enumerated and suits(format, Blocks.of(bits.size, how.block)):
        written = _encode_natively(bits, how, rng, sections, row.threads)
        if written is not None:
            return written
    own = FastRng(rng.key)
    scales, codes, tally = grid_scales.quantised(bits, format, how, own, tools(row.threads))
    if how.enumerated:
        scale, block = grid_scales.scale_format(format), _widest(how, bits.size)
        return Written(tally, (coders.write_enumerated(scales, codes, block, scale, sections[0]),))
    sizes = (
        coders.write_floats(scales, sections[0]),
        coders.write_coded(codes, how.bound, sections[1]),
        *(coders.write_key(rng.key, key) for key in sections[2:]),
    )
    return Written(tally, sizes)


def decode(row: Row) -> Tally:
    """Multiples of the scales."""
    how: Grid = row.kernel.numbers
    format = row.format
    out, scale = row.values.array(format.bits), grid_scales.scale_format(format)
    blocks = Blocks.of(out.size, how.block)
    sections = [section.array() for section in row.sections]
    if how.enumerated:
        block = _widest(how, out.size)
        scales, codes = coders.read_enumerated(sections[0], out.size, block, scale, how.bound)
        some = grid_scales.nonzero_blocks(codes, blocks)
        grid.dequantise(codes, to_float64(scales, scale), blocks, format, out, None, tools(1))
    else:
        scales = coders.read_floats(sections[0], scale)
        dither = FastRng(sections[2].tobytes()) if how.rounding == SUBTRACTIVE else None
        if suits(format, blocks):
            some = native_decode(sections[1], blocks, scales, out, how, dither, row.threads)
        else:
            some = _decode_parts(row, how, blocks, to_float64(scales, scale), dither)
    nan = grid_scales.checked(scales, some, how, scale)
    return Tally(nonfinite=int(blocks.sizes[nan].sum()) if nan.any() else 0)


def _decode_parts(
    row: Row, how: Grid, blocks: Blocks, scales: Numbers, dither: Rng | None
) -> npt.NDArray[np.bool_]:
    """`native_decode` of any vector by the reference, one block of the coder after another."""
    out, section = row.values.array(row.format.bits), row.sections[1].array()
    starts = coders.block_starts(section, -(-out.size // CODER_BLOCK))
    some = np.zeros(blocks.number, np.bool_)
    workers = min(parallel.shares(out.size, row.threads), max(len(starts) - 1, 1))

    def work(worker: int) -> None:
        for number in range(worker, len(starts) - 1, workers):
            first = number * CODER_BLOCK
            own = out[first : first + CODER_BLOCK]
            data = section[starts[number] : starts[number + 1]]
            codes = coders.read_coded(data, how.bound, own.size)
            grid_scales.mark_nonzero(some, codes, blocks, first)
            grid.dequantise(codes, scales, blocks, row.format, own, dither, tools(1), first)

    parallel.each(work, workers)
    return some


def _widest(how: Grid, count: int) -> int:
    return max(min(how.block or count, count), 1)


def tools(threads: int) -> Tools:
    """The reference on several threads."""
    return Tools(lambda count: parallel.shares(count, threads), parallel.each, _narrowed)


def _narrowed(numbers: Numbers, format: Format, out: Bits) -> None:
    cast(numbers.view(np.uint64), FLOAT64, format, out)


def _encode_natively(
    bits: Bits, how: Grid, rng: Rng, sections: list[Bytes], threads: int
) -> Written | None:
    """The same bytes by the native core; None for the rare vectors that it does not settle.

    Those have a value that is not finite, or a block of codes that are all zero where the largest
    value must be sent.
    """
    blocks = Blocks.of(bits.size, how.block)
    squares = squared_norms(bits, blocks, threads)
    scanned = grid.Scanned(np.zeros(blocks.number, np.int32), squares, 0)
    sent = grid_scales.step_bits(how, scanned, blocks, FLOAT32)
    step = to_float64(sent, FLOAT32)
    found = native_encode(bits, blocks, sent, how, rng, sections[1], threads)
    bare = (step > 0) & (found.squares == 0)
    if found.nonfinite or (how.rounding == NEAREST and bare.any()):
        return None
    with np.errstate(invalid="ignore", divide="ignore"):
        if how.scale == LEAST_SQUARES:
            grid_scales.fit(sent, step, found.products / found.squares, FLOAT32)
        elif how.scale == MATCHED:
            grid_scales.fit(sent, step, squares / found.products, FLOAT32)
    if how.rounding == STOCHASTIC:
        sent[bare] = 0
    keys = (coders.write_key(rng.key, key) for key in sections[2:])
    sizes = coders.write_floats(sent, sections[0]), found.size, *keys
    return Written(Tally(grid_scales.saturated(bits, FLOAT32, how, scanned)), sizes)


def suits(format: Format, blocks: Blocks) -> bool:
    """Whether native code can round and code such a vector."""
    size = blocks.size
    whole = blocks.number <= 1 or size % CODER_BLOCK == 0 or (size >= 8 and CODER_BLOCK % size == 0)
    return format == FLOAT32 and blocks.count > 0 and whole


def squared_norms(bits: Bits, blocks: Blocks, threads: int = 1) -> Numbers:
    """Sums of squares, values that are not finite counted as 0."""
    values = bits.view(np.uint32)
    terms = parallel.run(
        lambda piece: functions.norm_terms(values[piece], FLOAT32, _run(blocks), _SQUARES)[0],
        blocks.count,
        threads,
    )
    return _by_block(np.concatenate(terms), blocks)


def native_encode(
    bits: Bits, blocks: Blocks, scales: Bits, how: Grid, rng: Rng, section: Bytes, threads: int = 1
) -> CodedGrid:
    """Codes of the values, entropy coded into `section`.

    If scales are not fitted, the products are 0 and the squares say whether a code is not 0.
    """
    values, each = bits.view(np.uint32), _by_run(scales.view(np.uint32), blocks)
    run, fit = _run(blocks), how.scale != grid_scales.NORM

    def work(piece: slice) -> tuple[Numbers, int, int, int]:
        start, end = (rans.largest_size(at, how.bound, True) for at in (piece.start, piece.stop))
        task = _task(how.bound, how.rounding, run, piece.start, rng.key, fit=fit)
        own = each[piece.start // run : -(-piece.stop // run)]
        sums, nonfinite, size = functions.steps_encode(values[piece], task, own, section[start:end])
        return sums, nonfinite, start, size

    written = parallel.run(work, blocks.count, threads)
    size = joined(section, [(start, own) for _, _, start, own in written])
    sums = np.concatenate([own for own, _, _, _ in written])
    products, squares = (_by_block(sums[:, column], blocks) for column in (0, 1))
    return CodedGrid(products, squares, sum(count for _, count, _, _ in written), size)


def native_decode(
    section: Bytes,
    blocks: Blocks,
    scales: Bits,
    out: Bits,
    how: Grid,
    dither: Rng | None,
    threads: int = 1,
) -> npt.NDArray[np.bool_]:
    """Values of the codes in `section`; returns for each block whether a code is not 0."""
    values, each = out.view(np.uint32), _by_run(scales.view(np.uint32), blocks)
    run = _run(blocks)
    rounding, key = (NEAREST, bytes(16)) if dither is None else (SUBTRACTIVE, dither.key)
    starts = coders.block_starts(section, -(-blocks.count // CODER_BLOCK))

    def work(piece: slice) -> npt.NDArray[np.bool_]:
        first, last = piece.start // CODER_BLOCK, -(-piece.stop // CODER_BLOCK)
        task = _task(how.bound, rounding, run, piece.start, key)
        own = each[piece.start // run : -(-piece.stop // run)]
        part = section[starts[first] : starts[last]]
        return functions.steps_decode(part, task, own, values[piece])

    some = np.concatenate(parallel.run(work, blocks.count, threads))
    return some if _run(blocks) == blocks.size else _by_block(some.astype(np.float64), blocks) > 0


def _task(
    bound: int, rounding: int, run: int, first: int, key: bytes, fit: bool = False
) -> functions.Steps:
    return functions.Steps(bound, rounding, fit, run, first, library.key_words(key))


def _run(blocks: Blocks) -> int:
    """Values that share a scale within a coder block."""
    return blocks.size if blocks.number > 1 and blocks.size < CODER_BLOCK else CODER_BLOCK


def _by_run(scales: npt.NDArray[np.uint32], blocks: Blocks) -> npt.NDArray[np.uint32]:
    """The scale of each run."""
    if _run(blocks) == blocks.size:
        return scales
    return scales[np.arange(0, blocks.count, _run(blocks)) // blocks.size]


def _by_block(found: Numbers, blocks: Blocks) -> Numbers:
    """The runs of each block added in order."""
    if _run(blocks) == blocks.size:
        return found
    totals = np.zeros(blocks.number)
    np.add.at(totals, np.arange(found.size) * _run(blocks) // blocks.size, found)
    return totals
