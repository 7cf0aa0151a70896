"""Rounding to levels of a block's norm; `scales` has found the norms, `undithering` is the reverse.

Chances are whole numbers of 31 bits, compared with draws. A quotient is rounded once. Levels of the
16-bit formats lie between the values that decoding gives: these are found in float64.
"""

from fewbits.backend.device.kernels.floats import level_value, narrow_double, wide
from fewbits.backend.device.kernels.natural import lines
from fewbits.backend.device.kernels.packing import write_codes
from fewbits.backend.device.kernels.rows import (
    NONFINITE,
    SATURATED,
    count,
    left_of,
    own_number,
    section_of,
    share,
    values_of,
)
from fewbits.backend.device.kernels.words import stream, words
from fewbits.backend.device.language import tl, triton

_SATURATED, _NONFINITE = tl.constexpr(SATURATED), tl.constexpr(NONFINITE)


@triton.jit
def _levels_of_quotient(y, LEVELS: tl.constexpr, NATURAL: tl.constexpr):
    """The level below each quotient and the chance of the next one, in units of 2^-31."""
    if NATURAL:
        bits = y.to(tl.uint32, bitcast=True)
        below = bits < ((128 - LEVELS) << 23)  # y < 2^(1 - LEVELS)
        share = tl.where(below, y, 0.0) * (2.0 ** (LEVELS - 1))  # exact, as is the next product
        chance = (share * 2147483648.0).to(tl.uint32)
        chance = tl.where(below, chance, (bits & 0x7FFFFF) << 8)
        return tl.where(below, 0, (bits >> 23) + LEVELS - 127), chance
    else:
        at = y * (LEVELS * 1.0)
        lower = at.to(tl.uint32)
        return lower, ((at - lower.to(tl.float32)) * 2147483648.0).to(tl.uint32)


@triton.jit
def _levels_between_values(
    magnitude, scale, EXPONENT: tl.constexpr, MANTISSA: tl.constexpr, LEVELS: tl.constexpr
):
    """The same for uniform levels of 16-bit formats; `scale` is 0 nowhere."""
    x = wide(magnitude, EXPONENT, MANTISSA).to(tl.float64)
    n = wide(scale, EXPONENT, MANTISSA).to(tl.float64)
    at = tl.minimum(x / n, 1.0) * tl.full([1, 1], LEVELS, tl.float64)
    lower = tl.minimum(at.to(tl.int32), LEVELS - 1)
    low = narrow_double(level_value(n, lower, LEVELS), EXPONENT, MANTISSA)
    high = narrow_double(level_value(n, lower + 1, LEVELS), EXPONENT, MANTISSA)
    below = wide(low, EXPONENT, MANTISSA).to(tl.float64)
    above = wide(high, EXPONENT, MANTISSA).to(tl.float64)
    gap = tl.where(high > low, above - below, 1.0)
    part = tl.where(high > low, (x - below) / gap, 0.0)
    full = part >= 1.0
    part = tl.where(full | (part < 0.0), 0.0, part)
    return (lower + full.to(tl.int32)).to(tl.uint32), (part * 2147483648.0).to(tl.uint32)


@triton.jit
def _scale_of(scales, line, left, SIZE: tl.constexpr, TAILS: tl.constexpr):
    """The scale of each line of a block, or of all."""
    if SIZE == 0:
        return tl.zeros([1, 1], tl.uint32) + tl.load(scales)
    else:
        number = (line * 8).to(tl.uint32) // SIZE  # a division without signs is a shift
        if TAILS:
            return tl.load(scales + number, mask=line * 8 < left, other=0)[:, None]
        else:
            return tl.load(scales + number)[:, None]


@triton.jit
def dithering_encode(
    work,
    rows,
    keys,
    tally,
    EXPONENT: tl.constexpr,
    MANTISSA: tl.constexpr,
    LEVELS: tl.constexpr,
    NATURAL: tl.constexpr,
    POWERS: tl.constexpr,
    SIZE: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ALIGNED: tl.constexpr,
    TAILS: tl.constexpr,
):
    """Values to packed codes; `TAILS` if blocks are not whole."""
    row, block = share(work)
    start = block.to(tl.int64) * BLOCK
    left = left_of(rows, row, start, BLOCK, TAILS)
    KIND: tl.constexpr = tl.uint32 if EXPONENT + MANTISSA == 31 else tl.uint16
    values = values_of(rows, row, KIND, ALIGNED) + start
    codes = section_of(rows, row, 1, tl.uint8, ALIGNED) + start // 8 * WIDTH
    scales = own_number(rows, row, 0).to(tl.pointer_type(tl.uint32))
    if SIZE != 0:
        scales += start // SIZE
    place, line, _column = lines(BLOCK)
    if TAILS:
        bits = tl.load(values + place, mask=place < left, other=0).to(tl.uint32)
    else:
        bits = tl.load(values + place).to(tl.uint32)
    magnitude = bits & ((1 << (EXPONENT + MANTISSA)) - 1)
    nonfinite = magnitude >= (((1 << EXPONENT) - 1) << MANTISSA)
    magnitude = tl.where(nonfinite, 0, magnitude)
    scale = _scale_of(scales, line, left, SIZE, TAILS)
    under = tl.where(scale == 0, 1 << MANTISSA, scale)
    if NATURAL or MANTISSA == 23:
        over = wide(magnitude, EXPONENT, MANTISSA)
        y = tl.div_rn(over, tl.broadcast_to(wide(under, EXPONENT, MANTISSA), over.shape))
        if POWERS:  # only then may a scale be less than a magnitude
            y = tl.minimum(y, 1.0)
        lower, chance = _levels_of_quotient(y, LEVELS, NATURAL)
    else:
        lower, chance = _levels_between_values(magnitude, under, EXPONENT, MANTISSA, LEVELS)
    key_0, key_1 = stream(keys, row, start >> 32)
    draw = words(start.to(tl.uint32) + place.to(tl.uint32), key_0, key_1) >> 1
    level = lower + (draw < chance).to(tl.uint32)
    if POWERS:  # else all magnitudes are 0 where the scale is
        level = tl.where(scale == 0, 0, level)
    negative = (bits >> (EXPONENT + MANTISSA)) != 0
    code = level + tl.where(negative & (level != 0), LEVELS, 0)
    code = tl.where(nonfinite, 2 * LEVELS + 1, code)
    write_codes(codes, code, line, left, BLOCK // 8, WIDTH, TAILS)
    if tl.max(tl.max(nonfinite.to(tl.int32), axis=1), axis=0) != 0:
        count(tally, row, _NONFINITE, nonfinite)
    if POWERS:
        saturated = magnitude > (((1 << EXPONENT) - 2) << MANTISSA)
        if tl.max(tl.max(saturated.to(tl.int32), axis=1), axis=0) != 0:
            count(tally, row, _SATURATED, saturated)
