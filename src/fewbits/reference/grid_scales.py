"""The scales of a grid: the steps for rounding, and the scales that are sent."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.errors import DecodeError
from fewbits.reference import casts, grid
from fewbits.reference.blocks import Blocks
from fewbits.reference.casts import to_float64
from fewbits.reference.formats import FLOAT32, FLOAT64, Bits, Format
from fewbits.reference.grid import PLAIN_TOOLS, Codes, Numbers, Scanned, Tools
from fewbits.reference.tally import Tally
from fewbits.rng import Rng

STOCHASTIC, NEAREST, SUBTRACTIVE = 0, 1, 2  # roundings
NORM, LEAST_SQUARES, MATCHED = 0, 1, 2  # what is sent as a scale
BAD_STEP = "a scale is negative or infinite, or another NaN than the quiet one"
CODES_WITHOUT_SCALE = "a block without a scale has codes that are not zero"
ONLY_ZEROS = "a block has a scale and only zeros"


class Grid(NamedTuple):
    """How a vector is rounded to multiples of steps: numbers alone."""

    nu: float  # the relative squared error that the step aims at
    shrink: float  # the factor of the step that makes room for rounding to the format
    high: float  # from which magnitude on results may exceed the largest number
    bound: int  # of the codes
    block: int  # values that share a step, 0 for all
    rounding: int
    scale: int
    enumerated: bool  # the paper's stream of bits, not the entropy coder

    @property
    def factors(self) -> tuple[float, float]:
        """What a native row has as its factors."""
        return self.nu, self.shrink

    @property
    def dithered(self) -> bool:
        """Whether the decoder draws a dither again."""
        return self.rounding == SUBTRACTIVE


class Quantised(NamedTuple):
    """The bits of the blocks' scales, and the codes."""

    scales: Bits
    codes: Codes
    tally: Tally


def scale_format(format: Format) -> Format:
    """The format of the scales of a vector."""
    return FLOAT64 if format == FLOAT64 else FLOAT32


def step_bits(how: Grid, scanned: Scanned, blocks: Blocks, format: Format) -> Bits:
    """The steps of the blocks; 0 where all values are, NaN where one is not finite."""
    scale = scale_format(format)
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = np.ldexp(
            2 * np.sqrt(how.nu / blocks.sizes) * scanned.norms * how.shrink, scanned.exponents
        )
    finite = np.isfinite(scanned.squares)
    usable = finite & (scanned.squares > 0)
    positive = np.where(usable, wanted, 1.0)
    sent = grid.rounded_scales(positive, scale, np.zeros(blocks.number, np.bool_))
    sent = np.where(finite, np.where(usable, sent, 0), scale.quiet_nan)
    return sent.astype(scale.bits)


def quantised(
    bits: Bits, format: Format, how: Grid, rng: Rng, tools: Tools = PLAIN_TOOLS
) -> Quantised:
    """The parts of a vector that are sent."""
    blocks = Blocks.of(bits.size, how.block)
    scanned = grid.scan(bits, format, blocks, tools)
    sent = step_bits(how, scanned, blocks, format)
    step = to_float64(sent, scale_format(format))
    rounded = {
        NEAREST: grid.nearest,
        STOCHASTIC: grid.stochastic(rng),
        SUBTRACTIVE: grid.subtractive(rng),
    }[how.rounding]
    codes = grid.quantise(bits, format, blocks, step, rounded, tools)
    if how.rounding != SUBTRACTIVE:
        _settle(bits, format, how, scanned, codes, sent, tools)
    tally = Tally(saturated(bits, format, how, scanned), scanned.nonfinite)
    return Quantised(sent, codes, tally)


def saturated(bits: Bits, format: Format, how: Grid, scanned: Scanned) -> int:
    """How many values are so large that their results may be cut to the largest number."""
    with np.errstate(over="ignore", invalid="ignore"):
        within = np.ldexp(scanned.norms, scanned.exponents) <= how.high
    return 0 if within.all() else casts.count_above(bits, format, how.high)


def _settle(
    bits: Bits, format: Format, how: Grid, scanned: Scanned, codes: Codes, sent: Bits, tools: Tools
) -> None:
    """The scales that are sent, given the codes; a block of zeros has the scale 0."""
    blocks, scale = Blocks.of(bits.size, how.block), scale_format(format)
    step = to_float64(sent, scale)
    if how.scale != NORM:
        sums = grid.fit(bits, format, blocks, scanned, codes, tools)
        fit(sent, step, sums.best if how.scale == LEAST_SQUARES else sums.matched, scale)
    some = nonzero_blocks(codes, blocks)
    for block in np.flatnonzero((step > 0) & ~some).tolist():
        sent[block] = 0
        if how.rounding == NEAREST:
            at, value = grid.largest(bits, format, blocks, block)
            codes[at] = -1 if value < 0 else 1
            own = np.array([abs(value)])
            if how.scale == MATCHED:
                own = np.array([scanned.matched(block, abs(value))])
            sent[block] = grid.rounded_scales(own, scale, np.zeros(1, np.bool_))[0]


def fit(sent: Bits, step: Numbers, fitting: Numbers, scale: Format) -> None:
    """Replace the steps by scales that fit the codes better."""
    usable = (step > 0) & np.isfinite(fitting)
    # Towards the step: from the best scale on the error grows, so it stays below nu.
    numbers = np.where(usable, fitting, 1.0)
    rounded = grid.rounded_scales(numbers, scale, numbers < step)
    sent[usable] = rounded[usable]


def checked(
    scales: Bits, some: npt.NDArray[np.bool_], how: Grid, scale: Format
) -> npt.NDArray[np.bool_]:
    """Refuse scales that encoding cannot have sent; which of them are NaN."""
    nan = scales == scale.quiet_nan
    if (~nan & (scales >= scale.infinity)).any():
        raise DecodeError(BAD_STEP)
    bare = nan | (scales == 0)
    if (some & bare).any():
        raise DecodeError(CODES_WITHOUT_SCALE)
    if how.rounding != SUBTRACTIVE and (~some & ~bare).any():
        raise DecodeError(ONLY_ZEROS)
    return np.asarray(nan, np.bool_)


def nonzero_blocks(codes: Codes, blocks: Blocks) -> npt.NDArray[np.bool_]:
    """Which blocks have a code that is not 0."""
    some = np.zeros(blocks.number, np.bool_)
    mark_nonzero(some, codes, blocks)
    return some


def mark_nonzero(some: npt.NDArray[np.bool_], codes: Codes, blocks: Blocks, first: int = 0) -> None:
    """Mark the blocks that have a code that is not 0 among the codes from value `first` on."""
    if not codes.size:
        return
    start, stop = first // blocks.size, -(-(first + codes.size) // blocks.size)
    cuts = np.maximum(np.arange(start, stop) * blocks.size - first, 0)
    # Threads share a block at the ends of their parts: nobody may write what another one marked.
    some[start:stop][np.logical_or.reduceat(codes, cuts)] = True
