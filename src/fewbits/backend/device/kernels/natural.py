"""Natural compression of float32, bfloat16 and float16.

Values are read as whole numbers, so that no float operation touches a NaN, a -0 or a subnormal
number. Eight neighbours stand in a line: they share a byte of signs and, in float16, five bytes of
exponents.
"""

from fewbits.backend.device.kernels.rows import (
    NONFINITE,
    SATURATED,
    count,
    left_of,
    section_of,
    share,
    values_of,
)
from fewbits.backend.device.kernels.words import stream, words
from fewbits.backend.device.language import tl, triton

_SATURATED, _NONFINITE = tl.constexpr(SATURATED), tl.constexpr(NONFINITE)


@triton.jit
def lines(BLOCK: tl.constexpr):
    """Places in a block: of values, in lines of eight; of lines; in a line."""
    line = tl.arange(0, BLOCK // 8)
    column = tl.arange(0, 8)
    return line[:, None] * 8 + column[None, :], line, column


@triton.jit
def addends(
    keys, row, start, place, MANTISSA: tl.constexpr, NEAREST: tl.constexpr, BLOCK: tl.constexpr
):
    """What is added to magnitudes: a draw of the mantissa's size, or just less than its half."""
    if NEAREST:
        return tl.full((BLOCK // 8, 8), (1 << (MANTISSA - 1)) - 1, tl.uint32)
    key_0, key_1 = stream(keys, row, start >> 32)
    low = start.to(tl.uint32) + place.to(tl.uint32)
    return words(low, key_0, key_1) >> (32 - MANTISSA)


@triton.jit
def put_codes(
    exponents, code, place, line, column, left, EXPONENT: tl.constexpr, MASKED: tl.constexpr
):
    """Write exponents: a byte each, or five bytes for a line."""
    if EXPONENT == 8:
        if MASKED:
            tl.store(exponents + place, code.to(tl.uint8), mask=place < left)
        else:  # a mask that is no multiple of a vector would cost the wide stores
            tl.store(exponents + place, code.to(tl.uint8))
    else:
        # The five bytes of a line, of which the last has the code of the last value only in part.
        shift = (column * EXPONENT).to(tl.uint64)
        packed = tl.sum(code.to(tl.uint64) << shift[None, :], axis=1)
        byte = packed[:, None] >> (column * 8).to(tl.uint64)[None, :]
        at = line[:, None] * EXPONENT + column[None, :]
        inside = (column[None, :] < EXPONENT) & (at < (left * EXPONENT + 7) // 8)
        tl.store(exponents + at, byte.to(tl.uint8), mask=inside)


@triton.jit
def put(
    exponents,
    signs,
    code,
    sign,
    place,
    line,
    column,
    left,
    EXPONENT: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Write codes and signs, which are 0 or 1."""
    put_codes(exponents, code, place, line, column, left, EXPONENT, MASKED)
    packed = tl.sum(sign << column[None, :].to(tl.uint32), axis=1)
    if MASKED:
        tl.store(signs + line, packed.to(tl.uint8), mask=line * 8 < left)
    else:
        tl.store(signs + line, packed.to(tl.uint8))


@triton.jit
def round_block(
    bits,
    exponents,
    signs,
    tally,
    keys,
    row,
    start,
    left,
    EXPONENT: tl.constexpr,
    MANTISSA: tl.constexpr,
    NEAREST: tl.constexpr,
    BLOCK: tl.constexpr,
    MASKED: tl.constexpr,
    RARE: tl.constexpr,
):
    """Round patterns to powers of two and write them behind the block's first section bytes."""
    place, line, column = lines(BLOCK)
    TOP: tl.constexpr = (1 << EXPONENT) - 1
    magnitude = bits & ((1 << (EXPONENT + MANTISSA)) - 1)
    negative = bits >> (EXPONENT + MANTISSA)
    code = (magnitude + addends(keys, row, start, place, MANTISSA, NEAREST, BLOCK)) >> MANTISSA
    # One maximum of the block keeps all that is rare off the usual way.
    most = tl.max(tl.max(magnitude, axis=1), axis=0)
    if most <= ((TOP - 1) << MANTISSA):
        sign = tl.where(code == 0, 0, negative)
        put(exponents, signs, code, sign, place, line, column, left, EXPONENT, MASKED)
    elif RARE:
        nonfinite = magnitude >= (TOP << MANTISSA)
        saturated = (magnitude > ((TOP - 1) << MANTISSA)) & (magnitude < (TOP << MANTISSA))
        code = tl.where(nonfinite, TOP, tl.where(saturated, TOP - 1, code))
        sign = tl.where((code == 0) | nonfinite, 0, negative)
        put(exponents, signs, code, sign, place, line, column, left, EXPONENT, MASKED)
        count(tally, row, _SATURATED, saturated)
        count(tally, row, _NONFINITE, nonfinite)


@triton.jit
def encode_block(
    values,
    exponents,
    signs,
    tally,
    keys,
    row,
    start,
    left,
    EXPONENT: tl.constexpr,
    MANTISSA: tl.constexpr,
    NEAREST: tl.constexpr,
    BLOCK: tl.constexpr,
    MASKED: tl.constexpr,
    RARE: tl.constexpr,
):
    place, _line, _column = lines(BLOCK)
    if MASKED:
        bits = tl.load(values + place, mask=place < left, other=0).to(tl.uint32)
    else:
        bits = tl.load(values + place).to(tl.uint32)
    round_block(
        bits, exponents, signs, tally, keys, row, start, left,
        EXPONENT, MANTISSA, NEAREST, BLOCK, MASKED, RARE,
    )  # fmt: skip


@triton.jit
def natural_encode(
    work,
    rows,
    keys,
    tally,
    EXPONENT: tl.constexpr,
    MANTISSA: tl.constexpr,
    NEAREST: tl.constexpr,
    BLOCK: tl.constexpr,
    ALIGNED: tl.constexpr,
    TAILS: tl.constexpr,
    RARE: tl.constexpr,
):
    """Values to exponents and signs."""
    row, block = share(work)
    start = block.to(tl.int64) * BLOCK
    left = left_of(rows, row, start, BLOCK, TAILS)
    KIND: tl.constexpr = tl.uint32 if EXPONENT + MANTISSA == 31 else tl.uint16
    values = values_of(rows, row, KIND, ALIGNED) + start
    exponents = section_of(rows, row, 0, tl.uint8, ALIGNED) + start // 8 * EXPONENT
    signs = section_of(rows, row, 1, tl.uint8, ALIGNED) + start // 8
    encode_block(
        values, exponents, signs, tally, keys, row, start, left,
        EXPONENT, MANTISSA, NEAREST, BLOCK, TAILS, RARE,
    )  # fmt: skip
