"""Levels of blocks' norms back to values; see `dithering`."""

from fewbits.backend.device.kernels.floats import level_value, narrow, narrow_double, wide
from fewbits.backend.device.kernels.natural import lines
from fewbits.backend.device.kernels.packing import read_codes, read_number
from fewbits.backend.device.kernels.powers import canonical
from fewbits.backend.device.kernels.rows import (
    NONFINITE,
    count,
    count_of,
    left_of,
    reason,
    refuse,
    section_of,
    share,
    values_of,
)
from fewbits.backend.device.language import tl, triton
from fewbits.backend.library import BAD_CODE, BAD_LEVEL, BAD_NORM, BAD_PADDING

_NONFINITE = tl.constexpr(NONFINITE)
_BAD_PADDING, _BAD_CODE = reason(BAD_PADDING), reason(BAD_CODE)
_BAD_LEVEL, _BAD_SCALE = reason(BAD_LEVEL), reason(BAD_NORM)


@triton.jit
def _sent_scales(
    section, number, inside, EXPONENT: tl.constexpr, MANTISSA: tl.constexpr, POWERS: tl.constexpr
):
    """Scales as bits of the format; infinity for a power that no encoder sends."""
    if POWERS:
        bit = number * EXPONENT
        own = tl.load(section + bit // 8, mask=inside, other=0).to(tl.uint32)
        if EXPONENT != 8:
            more = inside & (bit % 8 + EXPONENT > 8)
            next = tl.load(section + bit // 8 + 1, mask=more, other=0).to(tl.uint32)
            own = ((own | (next << 8)) >> (bit % 8).to(tl.uint32)) & ((1 << EXPONENT) - 1)
        return own << MANTISSA
    else:
        return read_number(section, number, inside, (1 + EXPONENT + MANTISSA) // 8)


@triton.jit
def _scale_numbers(start, line, left, SIZE: tl.constexpr):
    """Which scale each line of eight values has, and whether the line has any."""
    if SIZE == 0:
        return tl.zeros([1, 1], tl.int64), tl.full([1, 1], 1, tl.int1)
    else:
        number = (start + line * 8).to(tl.uint64) // SIZE  # without signs a division is a shift
        return number.to(tl.int64)[:, None], (line * 8 < left)[:, None]


@triton.jit
def _undithered(
    scale,
    level,
    EXPONENT: tl.constexpr,
    MANTISSA: tl.constexpr,
    LEVELS: tl.constexpr,
    NATURAL: tl.constexpr,
):
    """Bits of the values of levels, without signs; scales are finite."""
    n = wide(scale, EXPONENT, MANTISSA)
    if NATURAL:
        power = ((level + (127 - LEVELS)) << 23).to(tl.float32, bitcast=True)
        return tl.where(level == 0, 0, narrow(n * power, EXPONENT, MANTISSA))
    else:
        value = level_value(n.to(tl.float64), level, LEVELS)
        if MANTISSA == 23:
            return value.to(tl.float32).to(tl.uint32, bitcast=True)
        else:
            return narrow_double(value, EXPONENT, MANTISSA)


@triton.jit
def _check_end(rows, row, tally, section, SIZE: tl.constexpr, EXPONENT: tl.constexpr):
    """Refuse unused bits behind the last packed scale."""
    there = count_of(rows, row)
    scales = (there + SIZE - 1) // SIZE if SIZE else there * 0 + 1
    used = (scales * EXPONENT) % 8
    if used != 0:
        byte = tl.load(section + scales * EXPONENT // 8).to(tl.int32)
        refuse(tally, row, _BAD_PADDING, (byte >> used.to(tl.int32)) != 0)


@triton.jit
def _any(flags):
    return tl.max(tl.max(flags.to(tl.int32), axis=1), axis=0) != 0


@triton.jit
def _judge(
    tally,
    row,
    code,
    sent,
    scale,
    level,
    place,
    left,
    INFINITY: tl.constexpr,
    LEVELS: tl.constexpr,
    POWERS: tl.constexpr,
):
    """Refuse what no encoder writes, and count what is not finite."""
    refuse(tally, row, _BAD_PADDING, _any((place >= left) & (code != 0)))
    refuse(tally, row, _BAD_CODE, _any(code > 2 * LEVELS + 1))
    if POWERS:
        refuse(tally, row, _BAD_CODE, _any(sent >= INFINITY))
    else:
        refuse(tally, row, _BAD_SCALE, _any(sent >= INFINITY))
    refuse(tally, row, _BAD_LEVEL, _any((scale == 0) & (level != 0)))
    count(tally, row, _NONFINITE, (code == 2 * LEVELS + 1) & (place < left))


@triton.jit
def dithering_decode(
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
    ADD: tl.constexpr,
    BLOCK: tl.constexpr,
    ALIGNED: tl.constexpr,
    TAILS: tl.constexpr,
):
    """Scales and packed codes to values, or added to totals of float32."""
    row, block = share(work)
    start = block.to(tl.int64) * BLOCK
    left = left_of(rows, row, start, BLOCK, TAILS)
    KIND: tl.constexpr = tl.uint32 if ADD or EXPONENT + MANTISSA == 31 else tl.uint16
    values = values_of(rows, row, KIND, ALIGNED) + start
    section = section_of(rows, row, 0, tl.uint8, False)
    codes = section_of(rows, row, 1, tl.uint8, ALIGNED) + start // 8 * WIDTH
    if POWERS and EXPONENT != 8:
        if block == 0:
            _check_end(rows, row, tally, section, SIZE, EXPONENT)
    place, line, _column = lines(BLOCK)
    INFINITY: tl.constexpr = ((1 << EXPONENT) - 1) << MANTISSA
    code = read_codes(codes, line, left, BLOCK // 8, WIDTH, TAILS)
    number, inside = _scale_numbers(start, line, left, SIZE)
    sent = _sent_scales(section, number, inside, EXPONENT, MANTISSA, POWERS)
    scale = tl.where(sent >= INFINITY, 0, sent)
    nonfinite = code == 2 * LEVELS + 1
    negative = (code > LEVELS) & (code <= 2 * LEVELS)
    level = tl.where(negative, code - LEVELS, tl.where(code > LEVELS, 0, code))
    bits = _undithered(scale, level, EXPONENT, MANTISSA, LEVELS, NATURAL)
    bits = tl.where(nonfinite, INFINITY | (1 << (MANTISSA - 1)), bits)
    sign = negative.to(tl.uint32)
    if ADD:
        if TAILS:
            before = tl.load(values + place, mask=place < left, other=0)
        else:
            before = tl.load(values + place)
        term = wide(bits, EXPONENT, MANTISSA).to(tl.uint32, bitcast=True) | (sign << 31)
        total = before.to(tl.float32, bitcast=True) + term.to(tl.float32, bitcast=True)
        bits = canonical(total)
    else:
        bits |= sign << (EXPONENT + MANTISSA)
    if TAILS:
        tl.store(values + place, bits.to(values.dtype.element_ty), mask=place < left)
    else:
        tl.store(values + place, bits.to(values.dtype.element_ty))
    rare = (code > 2 * LEVELS) | ((scale == 0) & (code != 0)) | (sent >= INFINITY)
    if TAILS:
        rare |= (place >= left) & (code != 0)
    if _any(rare):
        _judge(tally, row, code, sent, scale, level, place, left, INFINITY, LEVELS, POWERS)
