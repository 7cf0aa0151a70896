"""Casts between float32, bfloat16 and float16, and copies that count what is not finite.

Formats come as their wire codes. Patterns are whole numbers of 32 bits; the two float operations
below are exact or round once, to nearest even, as every device does.
"""

from fewbits.backend.device.kernels.natural import lines
from fewbits.backend.device.kernels.packing import read_number, write_number
from fewbits.backend.device.kernels.powers import canonical
from fewbits.backend.device.kernels.rows import (
    NONFINITE,
    SATURATED,
    count,
    left_of,
    reason,
    refuse,
    section_of,
    share,
    values_of,
)
from fewbits.backend.device.language import tl, triton
from fewbits.reference.formats import BFLOAT16, FLOAT16, FLOAT32

OTHER_VALUE = 62  # a status: the value is none that the format's cast gives
_SATURATED, _NONFINITE = tl.constexpr(SATURATED), tl.constexpr(NONFINITE)
_FLOAT32, _FLOAT16 = tl.constexpr(FLOAT32.code), tl.constexpr(FLOAT16.code)
_BFLOAT16 = tl.constexpr(BFLOAT16.code)
_OTHER_VALUE = reason(OTHER_VALUE)


@triton.jit
def is_nonfinite(bits, FORMAT: tl.constexpr):
    if FORMAT == _FLOAT32:
        return (bits & 0x7FFFFFFF) >= 0x7F800000
    elif FORMAT == _BFLOAT16:
        return (bits & 0x7FFF) >= 0x7F80
    else:
        return (bits & 0x7FFF) >= 0x7C00


@triton.jit
def widened(bits, FORMAT: tl.constexpr):
    """Patterns of float32 with the same values; every NaN is the quiet one."""
    if FORMAT == _FLOAT32:
        return bits
    magnitude = bits & 0x7FFF
    sign = (bits >> 15) << 31
    if FORMAT == _BFLOAT16:
        return tl.where(magnitude > 0x7F80, 0x7FC00000, sign | (magnitude << 16))
    else:
        small = magnitude.to(tl.int32, bitcast=True).to(tl.float32) * 5.9604644775390625e-08
        wide = (magnitude << 13) + 0x38000000
        wide = tl.where(magnitude < 0x400, small.to(tl.uint32, bitcast=True), wide)
        wide = tl.where(magnitude >= 0x7C00, 0x7F800000, wide)
        return tl.where(magnitude > 0x7C00, 0x7FC00000, sign | wide)


@triton.jit
def narrowed(bits, FORMAT: tl.constexpr):
    """Patterns of a format from those of float32, and whether a finite value was too large."""
    if FORMAT == _FLOAT32:
        return bits, bits != bits
    magnitude = bits & 0x7FFFFFFF
    sign = (bits >> 31) << 15
    TOP: tl.constexpr = 0x7F80 if FORMAT == _BFLOAT16 else 0x7C00
    QUIET: tl.constexpr = 0x7FC0 if FORMAT == _BFLOAT16 else 0x7E00
    if FORMAT == _BFLOAT16:
        result = (magnitude + 0x7FFF + ((magnitude >> 16) & 1)) >> 16
    else:
        above = magnitude - 0x38000000
        result = (above + 0xFFF + ((above >> 13) & 1)) >> 13
        # Below the normal numbers a sum with 1/2 has the spacing that float16 has there.
        small = (magnitude.to(tl.float32, bitcast=True) + 0.5).to(tl.uint32, bitcast=True)
        result = tl.where(magnitude < 0x38800000, small - 0x3F000000, result)
    saturated = (result >= TOP) & (magnitude < 0x7F800000)
    result = tl.where(saturated, TOP - 1, result)
    result = tl.where(magnitude >= 0x7F800000, TOP, result) | sign
    return tl.where(magnitude > 0x7F800000, QUIET, result), saturated


@triton.jit
def cast_bits(bits, FROM: tl.constexpr, TO: tl.constexpr):
    """Patterns of another format, and whether a finite value was too large."""
    if FROM == TO:
        return bits, bits != bits
    else:
        return narrowed(widened(bits, FROM), TO)


@triton.jit
def count_cast(tally, row, nonfinite, saturated, inside, RARE: tl.constexpr):
    """Count what a cast has met; most blocks have none."""
    rare = ((nonfinite | saturated) & inside).to(tl.int32)
    is_any = tl.max(tl.max(rare, axis=1), axis=0) != 0
    if RARE:
        if is_any:
            count(tally, row, _NONFINITE, nonfinite & inside)
            count(tally, row, _SATURATED, saturated & inside)
    else:
        refuse(tally, row, _OTHER_VALUE, is_any)


@triton.jit
def get_section(
    rows,
    row,
    start,
    place,
    left,
    FORMAT: tl.constexpr,
    ALIGNED: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Patterns of a format in a row's first section; byte by byte if they may lie anywhere."""
    if ALIGNED:
        KIND: tl.constexpr = tl.uint32 if FORMAT == _FLOAT32 else tl.uint16
        source = section_of(rows, row, 0, KIND, True) + start
        mask = place < left if MASKED else None
        return tl.load(source + place, mask=mask, other=0 if MASKED else None).to(tl.uint32)
    else:
        SIZE: tl.constexpr = 4 if FORMAT == _FLOAT32 else 2
        source = section_of(rows, row, 0, tl.uint8, False) + start * SIZE
        return read_number(source, place, place < left, SIZE)


@triton.jit
def put_section(
    rows,
    row,
    start,
    place,
    left,
    bits,
    FORMAT: tl.constexpr,
    ALIGNED: tl.constexpr,
    MASKED: tl.constexpr,
):
    """The reverse of `get_section`."""
    if ALIGNED:
        KIND: tl.constexpr = tl.uint32 if FORMAT == _FLOAT32 else tl.uint16
        target = section_of(rows, row, 0, KIND, True) + start
        tl.store(target + place, bits.to(KIND), mask=place < left if MASKED else None)
    else:
        SIZE: tl.constexpr = 4 if FORMAT == _FLOAT32 else 2
        target = section_of(rows, row, 0, tl.uint8, False) + start * SIZE
        write_number(target, place, bits, place < left, SIZE)


@triton.jit
def cast_values(
    work,
    rows,
    keys,
    tally,
    FROM: tl.constexpr,
    TO: tl.constexpr,
    READ: tl.constexpr,
    ADD: tl.constexpr,
    CHECKED: tl.constexpr,
    BLOCK: tl.constexpr,
    ALIGNED: tl.constexpr,
    TAILS: tl.constexpr,
    RARE: tl.constexpr,
):
    """Values to a section or, with READ, back: to values, or added to totals of float32."""
    row, block = share(work)
    start = block.to(tl.int64) * BLOCK
    left = left_of(rows, row, start, BLOCK, TAILS)
    place, _line, _column = lines(BLOCK)
    inside = place < left
    mask = inside if TAILS else None
    OWN: tl.constexpr = TO if READ else FROM
    KIND: tl.constexpr = tl.uint32 if ADD or OWN == _FLOAT32 else tl.uint16
    values = values_of(rows, row, KIND, ALIGNED) + start
    if READ:
        bits = get_section(rows, row, start, place, left, FROM, ALIGNED, TAILS)
    else:
        bits = tl.load(values + place, mask=mask, other=0 if TAILS else None).to(tl.uint32)
    result, saturated = cast_bits(bits, FROM, TO)
    if CHECKED:
        again, _ = cast_bits(result, TO, FROM)
        other = (inside & (again != bits)).to(tl.int32)
        refuse(tally, row, _OTHER_VALUE, tl.max(tl.max(other, axis=1), axis=0) != 0)
    if ADD:
        before = tl.load(values + place, mask=mask, other=0 if TAILS else None)
        term = widened(result, TO).to(tl.float32, bitcast=True)
        sum = canonical(before.to(tl.float32, bitcast=True) + term)
        tl.store(values + place, sum, mask=mask)
    elif READ:
        tl.store(values + place, result.to(KIND), mask=mask)
    else:
        put_section(rows, row, start, place, left, result, TO, ALIGNED, TAILS)
    count_cast(tally, row, is_nonfinite(bits, FROM), saturated, inside, RARE)
