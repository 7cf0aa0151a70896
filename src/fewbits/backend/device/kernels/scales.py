"""Scales of dithering: norms of blocks, in the reference's order of sums.

A block's terms are added in 32 lanes, in order, up to 65,536 terms; then the upper half of the
lanes to the lower half until one is left; then such sums in order. Largest magnitudes need none.
Both are left in memory of the row's own, from which `send_scales` makes what is sent.
"""

from fewbits.backend.device.kernels.floats import narrow_double, wide
from fewbits.backend.device.kernels.packing import write_codes, write_number
from fewbits.backend.device.kernels.rows import count_of, own_number, section_of, share, values_of
from fewbits.backend.device.kernels.words import stream, words
from fewbits.backend.device.language import tl, triton
from fewbits.reference.blocks import LANES
from fewbits.reference.dithering import SCALE_WORDS

_LANES = tl.constexpr(LANES)
_HIGH = tl.constexpr(SCALE_WORDS >> 32)
_AHEAD = tl.constexpr(4)  # loads that do not wait for each other


@triton.jit
def finite_magnitude(bits, EXPONENT: tl.constexpr, MANTISSA: tl.constexpr):
    """Bits without signs, 0 where not finite."""
    magnitude = bits.to(tl.uint32) & ((1 << (EXPONENT + MANTISSA)) - 1)
    return tl.where(magnitude >= (((1 << EXPONENT) - 1) << MANTISSA), 0, magnitude)


@triton.jit
def _scratch(rows, row, KIND: tl.constexpr, AT: tl.constexpr):
    """One of the row's own memories: scales and largest magnitudes, or sums."""
    return own_number(rows, row, AT).to(tl.pointer_type(KIND))


@triton.jit
def largest(
    work,
    rows,
    keys,
    tally,
    EXPONENT: tl.constexpr,
    MANTISSA: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
    ALIGNED: tl.constexpr,
):
    """The largest finite magnitude of each block; a block that has several programs was 0."""
    row, block = share(work)
    start = block.to(tl.int64) * BLOCK
    left = tl.minimum(count_of(rows, row) - start, BLOCK).to(tl.int32)
    KIND: tl.constexpr = tl.uint32 if EXPONENT + MANTISSA == 31 else tl.uint16
    place = tl.arange(0, BLOCK)
    values = values_of(rows, row, KIND, ALIGNED) + start
    bits = tl.load(values + place, mask=place < left, other=0)
    magnitude = finite_magnitude(bits, EXPONENT, MANTISSA)
    found = _scratch(rows, row, tl.uint32, 0)
    if SIZE == 0:
        tl.atomic_max(found, tl.max(magnitude, axis=0))
    elif SIZE >= BLOCK:
        tl.atomic_max(found + start // SIZE, tl.max(magnitude, axis=0))
    else:
        each = tl.max(tl.reshape(magnitude, [BLOCK // SIZE, SIZE]), axis=1)
        number = tl.arange(0, BLOCK // SIZE)
        tl.store(found + start // SIZE + number, each, mask=number * SIZE < left)


@triton.jit
def _halved(sums, NUMBER: tl.constexpr, WIDTH: tl.constexpr):
    """The upper half of the lanes added to the lower half."""
    return tl.sum(tl.reshape(sums, [NUMBER, 2, WIDTH // 2]), axis=1)


@triton.jit
def add_terms(
    work,
    rows,
    keys,
    tally,
    EXPONENT: tl.constexpr,
    MANTISSA: tl.constexpr,
    SQUARE: tl.constexpr,
    SIZE: tl.constexpr,
    TOGETHER: tl.constexpr,
):
    """The sum of the terms and the largest magnitude of each part of `SIZE` values."""
    row, block = share(work)
    part = block * TOGETHER + tl.arange(0, TOGETHER)
    first = part.to(tl.int64)[:, None] * SIZE
    count = count_of(rows, row)
    KIND: tl.constexpr = tl.uint32 if EXPONENT + MANTISSA == 31 else tl.uint16
    values = values_of(rows, row, KIND, False)
    lane = tl.arange(0, _LANES)
    sums = tl.zeros([TOGETHER, _LANES], tl.float64)
    most = tl.zeros([TOGETHER, _LANES], tl.uint32)
    end = tl.minimum(count - block.to(tl.int64) * (TOGETHER * SIZE), SIZE).to(tl.int32)
    for at in range(0, end, _LANES * _AHEAD):
        for ahead in tl.static_range(_AHEAD):
            place = (lane + ahead * _LANES + at)[None, :]
            inside = (place < SIZE) & (first + place < count)
            bits = tl.load(values + first + place, mask=inside, other=0)
            magnitude = finite_magnitude(bits, EXPONENT, MANTISSA)
            most = tl.maximum(most, magnitude)
            term = wide(magnitude, EXPONENT, MANTISSA).to(tl.float64)
            if SQUARE:
                term = term * term
            sums += term
    sums = _halved(_halved(sums, TOGETHER, 32), TOGETHER, 16)
    sums = _halved(_halved(sums, TOGETHER, 8), TOGETHER, 4)
    is_there = part.to(tl.int64) * SIZE < count
    tl.store(_scratch(rows, row, tl.uint32, 0) + part, tl.max(most, axis=1), mask=is_there)
    one = tl.sum(sums, axis=1)
    tl.store(_scratch(rows, row, tl.float64, 1) + part, one, mask=is_there)


@triton.jit
def _norms(
    rows,
    row,
    number,
    inside,
    parts,
    EXPONENT: tl.constexpr,
    MANTISSA: tl.constexpr,
    SQUARE: tl.constexpr,
):
    """Norms from sums, as the nearest numbers of the format, at least the largest magnitude."""
    INFINITY: tl.constexpr = ((1 << EXPONENT) - 1) << MANTISSA
    found, sums = _scratch(rows, row, tl.uint32, 0), _scratch(rows, row, tl.float64, 1)
    most = tl.zeros(number.shape, tl.uint32)
    total = tl.zeros(number.shape, tl.float64)
    for part in range(parts):
        most = tl.maximum(most, tl.load(found + number * parts + part, mask=inside, other=0))
        total += tl.load(sums + number * parts + part, mask=inside, other=0)
    if SQUARE:
        total = tl.sqrt(total)
    nearest = tl.minimum(narrow_double(total, EXPONENT, MANTISSA), INFINITY - 1)
    return tl.where(most == 0, 0, tl.maximum(most, nearest))


@triton.jit
def send_scales(
    work,
    rows,
    keys,
    tally,
    EXPONENT: tl.constexpr,
    MANTISSA: tl.constexpr,
    NORM: tl.constexpr,
    POWERS: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the scales to be sent; leave those to round with, 0 if 0 is sent.

    With `POWERS` scales are rounded to powers of two at random. `NORM` is 1, 2 or 0 for infinity.
    """
    row, block = share(work)
    count = count_of(rows, row)
    line, column = tl.arange(0, BLOCK // 8), tl.arange(0, 8)
    place = line[:, None] * 8 + column[None, :]
    number = block * BLOCK + place
    scales = 1 if SIZE == 0 else ((count + SIZE - 1) // SIZE).to(tl.int32)
    inside = number < scales
    found = _scratch(rows, row, tl.uint32, 0)
    if NORM == 0:
        scale = tl.load(found + number, mask=inside, other=0)
    else:
        parts = ((count + 65535) // 65536).to(tl.int32) if SIZE == 0 else 1
        scale = _norms(rows, row, number, inside, parts, EXPONENT, MANTISSA, NORM == 2)
    section = section_of(rows, row, 0, tl.uint8, False)
    if POWERS:
        scale = tl.minimum(scale, ((1 << EXPONENT) - 2) << MANTISSA)
        key_0, key_1 = stream(keys, row, tl.full((), _HIGH, tl.uint32))
        draw = words(number.to(tl.uint32), key_0, key_1) >> (32 - MANTISSA)
        code = tl.where(inside, (scale + draw) >> MANTISSA, 0)
        section += block.to(tl.int64) * (BLOCK // 8 * EXPONENT)
        left = tl.minimum(scales - block * BLOCK, BLOCK)
        write_codes(section, code, line, left, BLOCK // 8, EXPONENT, True)
        scale = tl.where(code == 0, 0, scale)
    else:
        write_number(section, number, scale, inside, (1 + EXPONENT + MANTISSA) // 8)
    tl.store(found + number, scale, mask=inside)
