"""Multiples of a step by the native core, fused with the entropy coder: the bits of `steps`.

For float32, and blocks that are made of whole coded blocks or divide them. Vectors with values that
are not finite are left to the reference.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits import _native, _native_operators
from fewbits.kernels import native, parallel
from fewbits.kernels.formats import FLOAT32, Bits, Format
from fewbits.kernels.steps import PIECE, Blocks, Numbers
from fewbits.rng import Rng

ROUNDINGS = {"stochastic": 0, "nearest": 1, "subtractive": 2}
_SQUARES = 2  # the norm whose terms are squares


class Coded(NamedTuple):
    """What encoding met: sums for each block, values that are not finite, bytes."""

    products: Numbers
    squares: Numbers
    nonfinite: int
    size: int


def suits(format: Format, blocks: Blocks) -> bool:
    """Whether this module can do what `steps` does."""
    size = blocks.size
    whole = blocks.number <= 1 or size % PIECE == 0 or (size >= 8 and PIECE % size == 0)
    return format == FLOAT32 and blocks.count > 0 and whole


def squared_norms(bits: Bits, blocks: Blocks, threads: int = 1) -> Numbers:
    """Sums of squares, values that are not finite counted as 0."""
    values = bits.view(np.uint32)
    terms = parallel.run(
        lambda piece: _native_operators.norm_terms(values[piece], _run(blocks), _SQUARES)[0],
        blocks.count,
        threads,
    )
    return _by_block(np.concatenate(terms), blocks)


def encode(
    bits: Bits,
    blocks: Blocks,
    scales: Bits,
    rng: Rng,
    section: _native.Bytes,
    *,
    bound: int,
    rounding: str,
    fit: bool,
    threads: int = 1,
) -> Coded:
    """Codes of the values, entropy coded into `section`.

    Without `fit` the products are 0 and the squares say whether a code is not 0.
    """
    values, each = bits.view(np.uint32), _by_run(scales.view(np.uint32), blocks)
    run = _run(blocks)

    def work(piece: slice) -> tuple[Numbers, int, _native.Bytes]:
        start, end = (_native.coded_size(at, bound, True) for at in (piece.start, piece.stop))
        how = _how(bound, rounding, run, piece.start, rng.key, fit=fit)
        own = each[piece.start // run : -(-piece.stop // run)]
        sums, nonfinite, size = _native_operators.steps_encode(
            values[piece], how, own, section[start:end]
        )
        return sums, nonfinite, section[start : start + size]

    written = parallel.run(work, blocks.count, threads)
    size = native.joined(section, [part for _, _, part in written])
    sums = np.concatenate([own for own, _, _ in written])
    products, squares = (_by_block(sums[:, column], blocks) for column in (0, 1))
    return Coded(products, squares, sum(count for _, count, _ in written), size)


def decode(
    section: _native.Bytes,
    blocks: Blocks,
    scales: Bits,
    out: Bits,
    *,
    bound: int,
    dither: Rng | None,
    threads: int = 1,
) -> npt.NDArray[np.bool_]:
    """Values of the codes in `section`; returns for each block whether a code is not 0."""
    values, each = out.view(np.uint32), _by_run(scales.view(np.uint32), blocks)
    run = _run(blocks)
    rounding, key = ("nearest", bytes(16)) if dither is None else ("subtractive", dither.key)
    starts = native.block_starts(section, -(-blocks.count // PIECE))

    def work(piece: slice) -> npt.NDArray[np.bool_]:
        first, last = piece.start // PIECE, -(-piece.stop // PIECE)
        how = _how(bound, rounding, run, piece.start, key)
        own = each[piece.start // run : -(-piece.stop // run)]
        return _native_operators.steps_decode(
            section[starts[first] : starts[last]], how, own, values[piece]
        )

    some = np.concatenate(parallel.run(work, blocks.count, threads))
    return _by_block(some.astype(np.float64), blocks) > 0


def _how(
    bound: int, rounding: str, run: int, first: int, key: bytes, fit: bool = False
) -> _native_operators.Steps:
    return _native_operators.Steps(
        bound, ROUNDINGS[rounding], fit, run, first, _native.key_words(key)
    )


def _run(blocks: Blocks) -> int:
    """Values that share a scale within a coded block."""
    return blocks.size if blocks.number > 1 and blocks.size < PIECE else PIECE


def _by_run(scales: npt.NDArray[np.uint32], blocks: Blocks) -> npt.NDArray[np.uint32]:
    """The scale of each run."""
    return scales[np.arange(0, blocks.count, _run(blocks)) // blocks.size]


def _by_block(found: Numbers, blocks: Blocks) -> Numbers:
    """The runs of each block added in order."""
    totals = np.zeros(blocks.number)
    np.add.at(totals, np.arange(found.size) * _run(blocks) // blocks.size, found)
    return totals
