r"""Quantising to whole multiples of a step, with one step for each block of a vector.

Everything is arithmetic in float64 whose order is fixed, so that equal inputs give equal bits with
any number of threads: a block is cut into pieces of 65,536 values; in a piece, value $i$ is added
to sum $i \bmod 32$, and the 32 sums are added in halves; the pieces of a block are added in order.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from fewbits.reference import casts
from fewbits.reference.blocks import LANES, SUMMATION_BLOCK, SUMMATION_PIECE, Blocks
from fewbits.reference.blocks import pieces as parts_of
from fewbits.reference.casts import to_float64
from fewbits.reference.formats import FLOAT32, FLOAT64, Bits, Format
from fewbits.rng import Rng

_LARGEST = float(np.finfo(np.float64).max)
LARGEST_32 = float(np.finfo(np.float32).max)
Numbers = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]
_Result = TypeVar("_Result")


class Piece(NamedTuple):
    """Whole blocks of one size, or a part of one block; `blocks` are those it belongs to."""

    values: slice
    blocks: slice
    width: int


class Scanned(NamedTuple):
    """For each block: a power of two and the sum of squares of the values divided by it."""

    exponents: npt.NDArray[np.int32]
    squares: Numbers
    nonfinite: int

    @property
    def norms(self) -> Numbers:
        """Norms, divided by two to the exponents."""
        return np.sqrt(self.squares)

    def matched(self, block: int, product: float) -> float:
        """The sum of squares of a block divided by a product with its values."""
        exponent = int(self.exponents[block])
        with np.errstate(over="ignore"):
            small = np.ldexp(product, -exponent)
            return float(np.ldexp(self.squares[block] / small, exponent))


def _all_in_order(work: Callable[[int], Any], count: int) -> list[Any]:
    return [work(number) for number in range(count)]


def _cast(numbers: Numbers, format: Format, out: Bits) -> None:
    out[:] = casts.cast(numbers.view(np.uint64), FLOAT64, format)[0]


class Tools(NamedTuple):
    """How the work is done: `shares` of a vector's pieces, `each` perhaps at the same time."""

    shares: Callable[[int], int] = lambda _: 1
    each: Callable[[Callable[[int], Any], int], list[Any]] = _all_in_order
    cast: Callable[[Numbers, Format, Bits], None] = _cast


PLAIN_TOOLS = Tools()


def blocks_pieces(blocks: Blocks) -> list[Piece]:
    """Slices that cover the vector in order, none of them longer than 65,536 values."""
    if blocks.size > SUMMATION_BLOCK:
        return [
            Piece(slice(at, min(at + SUMMATION_BLOCK, stop)), slice(block, block + 1), 0)
            for block, start in enumerate(range(0, blocks.count, blocks.size))
            for stop in [min(start + blocks.size, blocks.count)]
            for at in range(start, stop, SUMMATION_BLOCK)
        ]
    whole, group = blocks.count // blocks.size, SUMMATION_PIECE // blocks.size
    found = []
    for first in range(0, whole, group):
        last = min(first + group, whole)
        values = slice(first * blocks.size, last * blocks.size)
        found.append(Piece(values, slice(first, last), blocks.size))
    if whole < blocks.number:
        values = slice(whole * blocks.size, blocks.count)
        found.append(Piece(values, slice(whole, whole + 1), 0))
    return found


def scan(bits: Bits, format: Format, blocks: Blocks, tools: Tools = PLAIN_TOOLS) -> Scanned:
    """Norms of the blocks; those of blocks that are not finite are not finite."""
    exponents = np.zeros(blocks.number, np.int32)
    if format == FLOAT64:  # squares of the other formats stay within float64
        peaks = np.zeros(blocks.number)
        for piece, found in _each(
            blocks, lambda piece: np.abs(_values(bits, format, piece)).max(axis=1), tools
        ):
            peaks[piece.blocks] = np.maximum(peaks[piece.blocks], found)
        exponents = np.where(np.isfinite(peaks), np.frexp(peaks)[1], 0).astype(np.int32)

    def square(piece: Piece) -> Numbers:
        x = _scaled(_values(bits, format, piece), exponents[piece.blocks])
        return lane_sums(x * x)

    squares = _totals(blocks, square, tools)
    nonfinite = 0
    if not np.isfinite(squares).all():
        nonfinite = int(np.count_nonzero(~np.isfinite(to_float64(bits, format))))
    return Scanned(exponents, squares, nonfinite)


def quantise(
    bits: Bits,
    format: Format,
    blocks: Blocks,
    steps: Numbers,
    rounded: Callable[[Numbers, slice], Numbers],
    tools: Tools = PLAIN_TOOLS,
) -> Codes:
    """`rounded` of the values divided by their block's step; 0 where the step is 0 or NaN."""
    codes = np.empty(blocks.count, np.int32)
    usable = np.where(steps > 0, steps, np.inf)

    def work(piece: Piece) -> None:
        x = _values(bits, format, piece)
        t = x / usable[piece.blocks, None]
        t[~(steps[piece.blocks] > 0)] = 0.0  # NaN too
        codes[piece.values] = rounded(t.reshape(-1), piece.values)

    _each(blocks, work, tools)
    return codes


def nearest(t: Numbers, _: slice) -> Numbers:
    """The nearest integer, ties to even."""
    return np.rint(t)


def stochastic(rng: Rng) -> Callable[[Numbers, slice], Numbers]:
    """One of the two neighbouring integers, at random, with mean `t`."""

    def rounded(t: Numbers, place: slice) -> Numbers:
        up = np.floor(np.abs(t) + _uniform(rng, place))
        return np.copysign(up, t)

    return rounded


def subtractive(rng: Rng) -> Callable[[Numbers, slice], Numbers]:
    """The integer nearest to `t` plus a dither that `dithered` takes away again."""

    def rounded(t: Numbers, place: slice) -> Numbers:
        return np.rint(t + (_uniform(rng, place) - 0.5))

    return rounded


class Fit(NamedTuple):
    r"""Two scales for the codes $q$ of each block, not finite where all codes are 0.

    `best` is $\langle x, q \rangle / \langle q, q \rangle$, `matched` is
    $\langle x, x \rangle / \langle x, q \rangle$.
    """

    best: Numbers
    matched: Numbers
    kept: Numbers  # the share of the squares that the best scale leaves in the codes


def fit(
    bits: Bits,
    format: Format,
    blocks: Blocks,
    scanned: Scanned,
    codes: Codes,
    tools: Tools = PLAIN_TOOLS,
) -> Fit:
    """Scales that fit the codes, from sums in the order that the module fixes."""

    def products(piece: Piece) -> Numbers:
        x = _scaled(_values(bits, format, piece), scanned.exponents[piece.blocks])
        return lane_sums(x * codes[piece.values].reshape(x.shape))

    def squares(piece: Piece) -> Numbers:
        q = codes[piece.values].astype(np.float64).reshape(-1, piece.width or _length(piece))
        return lane_sums(q * q)

    along, own = (_totals(blocks, sums, tools) for sums in (products, squares))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        best, matched = along / own, scanned.squares / along
        kept = best / matched
        exponents = scanned.exponents
        return Fit(np.ldexp(best, exponents), np.ldexp(matched, exponents), kept)


def largest(bits: Bits, format: Format, blocks: Blocks, block: int) -> tuple[int, float]:
    """The first value of largest magnitude in a block: its place in the vector, and the value."""
    start = block * blocks.size
    x = to_float64(bits[start : min(start + blocks.size, blocks.count)], format)
    at = int(np.abs(x).argmax())
    return start + at, float(x[at])


def dequantise(
    codes: Codes,
    scales: Numbers,
    blocks: Blocks,
    format: Format,
    out: Bits,
    rng: Rng | None = None,
    tools: Tools = PLAIN_TOOLS,
    first: int = 0,
) -> None:
    """Codes times their block's scale, rounded once to the format; `rng` names a dither.

    Codes and `out` may be those of a part of the vector, from value `first` on.
    """
    for part in parts_of(out.size):
        place = slice(first + part.start, first + part.stop)
        q = codes[part].astype(np.float64)
        if rng is not None:
            q -= _uniform(rng, place) - 0.5
        each = scales if blocks.number == 1 else blocks.spread(scales, place)
        scaled(q, each, format, out[part], tools)


def scaled(
    numbers: Numbers, scale: Numbers, format: Format, out: Bits, tools: Tools = PLAIN_TOOLS
) -> None:
    """Numbers times a scale as a format's bits, rounded once; `numbers` are used up."""
    with np.errstate(all="ignore"):  # what is not finite is welcome
        numbers *= scale
        unset = np.isnan(numbers)
        _narrow(numbers, format, out, tools)
    out[unset] = format.quiet_nan  # the one NaN, whatever the processor made of it


def _narrow(y: Numbers, format: Format, out: Bits, tools: Tools) -> None:
    """Numbers as a format's bits: no -0, and what would become infinite is the largest number."""
    y += 0.0
    if format == FLOAT32:  # what `cast` does, at the speed of NumPy's own conversion
        np.clip(y, -LARGEST_32, LARGEST_32, out=y)
        out.view(np.float32)[:] = y
    else:
        np.clip(y, -_LARGEST, _LARGEST, out=y)
        tools.cast(y, format, out)


def lane_sums(terms: Numbers) -> Numbers:
    """The sum of each row, in the order that the module fixes."""
    rows, width = terms.shape
    full = -(-width // LANES) * LANES
    if full != width:
        terms = np.concatenate([terms, np.zeros((rows, full - width))], axis=1)
    lanes = np.zeros((rows, LANES))
    if rows == 1:
        lanes = np.add.reduce(terms.reshape(-1, LANES), axis=0)[None]
    else:
        for start in range(0, full, LANES):
            lanes = lanes + terms[:, start : start + LANES]
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    return lanes[:, 0]


def rounded_scales(numbers: Numbers, format: Format, up: npt.NDArray[np.bool_]) -> Bits:
    """Positive numbers as a scale's format, towards 0 or, where `up`, away from it.

    Results that are not normal numbers are rounded away from 0: a step that is cut to half of its
    size would double the codes. What is too large becomes the largest number.
    """
    if format == FLOAT64:
        with np.errstate(over="ignore"):
            above = np.nextafter(numbers, np.inf)
        result = np.where(numbers < format.smallest_normal, above, numbers)
        return np.minimum(result, _LARGEST).view(np.uint64)
    assert format == FLOAT32
    with np.errstate(over="ignore", under="ignore"):
        near = np.minimum(numbers, np.finfo(np.float32).max).astype(np.float32)
        exact = near.astype(np.float64)
        below = np.where(exact > numbers, np.nextafter(near, np.float32(0)), near)
        above = np.where(exact < numbers, np.nextafter(near, np.float32(np.inf)), near)
    chosen = np.where(up | (below < format.smallest_normal), above, below)
    return np.minimum(chosen, np.finfo(np.float32).max).astype(np.float32).view(np.uint32)


def _uniform(rng: Rng, place: slice) -> Numbers:
    """Word i of the stream for value i, as the middle of its 2^-32th of the unit interval."""
    words = rng.words(place.start, place.stop - place.start)
    return (words.astype(np.float64) + 0.5) * 2.0**-32


def _values(bits: Bits, format: Format, piece: Piece) -> Numbers:
    return to_float64(bits[piece.values], format).reshape(-1, piece.width or _length(piece))


def _length(piece: Piece) -> int:
    return int(piece.values.stop - piece.values.start)


def _scaled(x: Numbers, exponents: npt.NDArray[np.int32]) -> Numbers:
    return np.ldexp(x, -exponents[:, None]) if exponents.any() else x


def _totals(blocks: Blocks, sums: Callable[[Piece], Numbers], tools: Tools) -> Numbers:
    totals = np.zeros(blocks.number)
    for piece, found in _each(blocks, sums, tools):
        totals[piece.blocks] += found
    return totals


def _each(
    blocks: Blocks, work: Callable[[Piece], _Result], tools: Tools
) -> list[tuple[Piece, _Result]]:
    """`work` on every piece; results in order."""
    pieces = blocks_pieces(blocks)
    count = min(tools.shares(blocks.count), max(len(pieces), 1))
    cuts = [len(pieces) * share // count for share in range(count + 1)]

    def share(number: int) -> list[tuple[Piece, _Result]]:
        with np.errstate(all="ignore"):  # what is not finite is welcome, and counted
            return [(piece, work(piece)) for piece in pieces[cuts[number] : cuts[number + 1]]]

    return [item for items in tools.each(share, count) for item in items]
