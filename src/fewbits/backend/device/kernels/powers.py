"""Natural compression read back: codes and signs to powers of two, or added to totals."""

from fewbits.backend.device.kernels.natural import lines
from fewbits.backend.device.kernels.rows import (
    NONFINITE,
    count,
    left_of,
    reason,
    refuse,
    section_of,
    share,
    values_of,
)
from fewbits.backend.device.language import tl, triton
from fewbits.backend.library import BAD_PADDING, BAD_SIGN

_NONFINITE = tl.constexpr(NONFINITE)
_BAD_PADDING, _BAD_SIGN = reason(BAD_PADDING), reason(BAD_SIGN)


@triton.jit
def get_codes(exponents, place, line, column, left, EXPONENT: tl.constexpr, MASKED: tl.constexpr):
    """The exponents of a block, 0 behind its end; and whether bits behind the last are set."""
    if EXPONENT == 8:
        if MASKED:
            code = tl.load(exponents + place, mask=place < left, other=0).to(tl.uint32)
        else:
            code = tl.load(exponents + place).to(tl.uint32)
        return code, left < 0
    else:
        at = line[:, None] * EXPONENT + column[None, :]
        inside = (column[None, :] < EXPONENT) & (at < (left * EXPONENT + 7) // 8)
        byte = tl.load(exponents + at, mask=inside, other=0).to(tl.uint64)
        packed = tl.sum(byte << (column * 8).to(tl.uint64)[None, :], axis=1)
        shifted = packed[:, None] >> (column * EXPONENT).to(tl.uint64)[None, :]
        code = (shifted & ((1 << EXPONENT) - 1)).to(tl.uint32)
        behind = tl.where(place >= left, code, 0)
        unused = tl.max(tl.max(behind, axis=1), axis=0) != 0
        return tl.where(place < left, code, 0), unused


@triton.jit
def get(
    exponents,
    signs,
    place,
    line,
    column,
    left,
    EXPONENT: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Codes and signs of a block, and whether bits behind the last code are set."""
    code, unused = get_codes(exponents, place, line, column, left, EXPONENT, MASKED)
    if MASKED:
        packed = tl.load(signs + line, mask=line * 8 < left, other=0).to(tl.uint32)
    else:
        packed = tl.load(signs + line).to(tl.uint32)
    sign = (packed[:, None] >> column[None, :].to(tl.uint32)) & 1
    return code, sign, unused


@triton.jit
def is_rare(code, sign, EXPONENT: tl.constexpr):
    """Whether a value is not finite or a sign stands where none may be; behind the end too."""
    return (code == ((1 << EXPONENT) - 1)) | ((code == 0) & (sign != 0))


@triton.jit
def judge_block(
    tally, row, code, sign, place, left, unused, EXPONENT: tl.constexpr, MASKED: tl.constexpr
):
    """Count and refuse what is rare in a block; nothing stands behind a whole one."""
    TOP: tl.constexpr = (1 << EXPONENT) - 1
    wrong = (sign != 0) & ((code == 0) | (code == TOP))
    missing = code == TOP
    if MASKED:
        inside = place < left
        refuse(tally, row, _BAD_PADDING, unused)
        behind = tl.max(tl.max(tl.where(inside, 0, sign), axis=1), axis=0)
        refuse(tally, row, _BAD_PADDING, behind != 0)
        wrong, missing = inside & wrong, inside & missing
    refuse(tally, row, _BAD_SIGN, tl.max(tl.max(wrong.to(tl.int32), axis=1), axis=0) != 0)
    count(tally, row, _NONFINITE, missing)


@triton.jit
def judge_rare(
    tally, row, code, sign, place, left, unused, EXPONENT: tl.constexpr, RARE: tl.constexpr
):
    """`judge_block` where one of a block's values is rare."""
    rare = is_rare(code, sign, EXPONENT).to(tl.int32)
    is_any = unused | (tl.max(tl.max(rare, axis=1), axis=0) != 0)
    if RARE:
        if is_any:
            judge_block(tally, row, code, sign, place, left, unused, EXPONENT, True)
    else:
        refuse(tally, row, _BAD_SIGN, is_any)


@triton.jit
def float_of(code, sign, EXPONENT: tl.constexpr):
    """The power of two as a float32; the top code is the quiet NaN."""
    TOP: tl.constexpr = (1 << EXPONENT) - 1
    REBIAS: tl.constexpr = 127 - (TOP >> 1)
    bits = (code + REBIAS) << 23
    if REBIAS:
        bits = tl.where(code == 0, 0, bits)
    bits = tl.where(code == TOP, 0x7FC00000, bits)
    return (bits | (sign << 31)).to(tl.float32, bitcast=True)


@triton.jit
def pattern_of(code, sign, EXPONENT: tl.constexpr, MANTISSA: tl.constexpr):
    """The power of two in the values' own format."""
    TOP: tl.constexpr = (1 << EXPONENT) - 1
    QUIET: tl.constexpr = TOP << MANTISSA | 1 << (MANTISSA - 1)
    return tl.where(code == TOP, QUIET, code << MANTISSA) | (sign << (EXPONENT + MANTISSA))


@triton.jit
def canonical(total):
    """A total of which every NaN is the quiet one: devices and processors make others."""
    return tl.where(total == total, total.to(tl.uint32, bitcast=True), 0x7FC00000)


@triton.jit
def decode_block(
    values,
    exponents,
    signs,
    tally,
    row,
    left,
    EXPONENT: tl.constexpr,
    MANTISSA: tl.constexpr,
    ADD: tl.constexpr,
    BLOCK: tl.constexpr,
    MASKED: tl.constexpr,
    RARE: tl.constexpr,
):
    place, line, column = lines(BLOCK)
    code, sign, unused = get(exponents, signs, place, line, column, left, EXPONENT, MASKED)
    if ADD:
        if MASKED:
            before = tl.load(values + place, mask=place < left, other=0)
        else:
            before = tl.load(values + place)
        total = before.to(tl.float32, bitcast=True) + float_of(code, sign, EXPONENT)
        bits = canonical(total)
    else:
        bits = pattern_of(code, sign, EXPONENT, MANTISSA)
    if MASKED:
        tl.store(values + place, bits.to(values.dtype.element_ty), mask=place < left)
    else:
        tl.store(values + place, bits.to(values.dtype.element_ty))
    judge_rare(tally, row, code, sign, place, left, unused, EXPONENT, RARE)


@triton.jit
def natural_decode(
    work,
    rows,
    keys,
    tally,
    EXPONENT: tl.constexpr,
    MANTISSA: tl.constexpr,
    ADD: tl.constexpr,
    BLOCK: tl.constexpr,
    ALIGNED: tl.constexpr,
    TAILS: tl.constexpr,
    RARE: tl.constexpr,
):
    """Exponents and signs to values, or added to totals of float32."""
    row, block = share(work)
    start = block.to(tl.int64) * BLOCK
    left = left_of(rows, row, start, BLOCK, TAILS)
    KIND: tl.constexpr = tl.uint32 if ADD or EXPONENT + MANTISSA == 31 else tl.uint16
    values = values_of(rows, row, KIND, ALIGNED) + start
    exponents = section_of(rows, row, 0, tl.uint8, ALIGNED) + start // 8 * EXPONENT
    signs = section_of(rows, row, 1, tl.uint8, ALIGNED) + start // 8
    decode_block(
        values, exponents, signs, tally, row, left, EXPONENT, MANTISSA, ADD, BLOCK, TAILS, RARE
    )  # fmt: skip
