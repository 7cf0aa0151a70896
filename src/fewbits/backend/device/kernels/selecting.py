"""The k largest magnitudes of each row, of equal ones the first: which they are, and where.

The threshold is found eight bits at a time, by counting digits. Then every block counts what is
above the threshold and equal to it, so that each program knows how many are kept before its own.
"""

from fewbits.backend.device.kernels.plans import (
    BINS,
    COUNTS,
    FLAGS,
    HANDED,
    KEPT_VALUES,
    LISTED,
    LOW_BITS,
    PLACES,
    planned,
    room,
    sum_before,
)
from fewbits.backend.device.kernels.rows import (
    NONFINITE,
    TALLIES,
    count_of,
    share,
    values_of,
)
from fewbits.backend.device.language import tl, triton

DIGIT = 8  # bits that a pass finds
_DIGIT, _DIGITS = tl.constexpr(DIGIT), tl.constexpr(1 << DIGIT)
_LANES = tl.constexpr(256)
_KEPT, _LISTED, _LOW = tl.constexpr(KEPT_VALUES), tl.constexpr(LISTED), tl.constexpr(LOW_BITS)
_BINS, _COUNTS, _PLACES = tl.constexpr(BINS), tl.constexpr(COUNTS), tl.constexpr(PLACES)
_FLAGS, _HANDED = tl.constexpr(FLAGS), tl.constexpr(HANDED)
_NONFINITE, _TALLIES = tl.constexpr(NONFINITE), tl.constexpr(TALLIES)


@triton.jit
def _bits_of_block(
    rows,
    row,
    block,
    EXPONENT: tl.constexpr,
    MANTISSA: tl.constexpr,
    BLOCK: tl.constexpr,
    ALIGNED: tl.constexpr,
):
    """A block's values as bits, their magnitudes, and which are there."""
    start = block.to(tl.int64) * BLOCK
    place = tl.arange(0, BLOCK)
    inside = place < count_of(rows, row) - start
    KIND: tl.constexpr = tl.uint32 if EXPONENT + MANTISSA == 31 else tl.uint16
    values = values_of(rows, row, KIND, ALIGNED) + start
    bits = tl.load(values + place, mask=inside, other=0)
    magnitude = bits.to(tl.uint32) & ((1 << (EXPONENT + MANTISSA)) - 1)
    return bits, magnitude, inside


@triton.jit
def _found(rows, plan, row, DIGITS: tl.constexpr):
    """The first digits of the threshold, and how many values that begin with them are kept."""
    prefix = tl.zeros((), tl.uint32)
    wanted = planned(plan, row, _KEPT).to(tl.int32)
    bins = room(plan, row, _BINS, tl.int32)
    digit = tl.arange(0, _DIGITS)
    for number in tl.static_range(DIGITS):
        own = tl.load(bins + number * _DIGITS + digit)
        upto = tl.cumsum(own, axis=0)
        reached = tl.sum(own, axis=0) - upto + own  # by this digit and larger ones
        last = tl.sum((reached >= wanted).to(tl.int32), axis=0) - 1
        wanted -= tl.sum(tl.where(digit > last, own, 0), axis=0)
        prefix = (prefix << _DIGIT) | last.to(tl.uint32)
    return prefix, wanted


@triton.jit
def count_digits(
    work,
    rows,
    keys,
    tally,
    plan,
    EXPONENT: tl.constexpr,
    MANTISSA: tl.constexpr,
    PASS: tl.constexpr,
    BLOCK: tl.constexpr,
    ALIGNED: tl.constexpr,
):
    """Count the next digit of all magnitudes that begin as the threshold does."""
    row, block = share(work)
    _bits, magnitude, inside = _bits_of_block(rows, row, block, EXPONENT, MANTISSA, BLOCK, ALIGNED)
    # Digits end with the lowest bit, so the first one may have fewer bits.
    PASSES: tl.constexpr = (EXPONENT + MANTISSA + 7) // 8
    SHIFT: tl.constexpr = (PASSES - 1 - PASS) * 8
    prefix, _wanted = _found(rows, plan, row, PASS)
    if PASS > 0:
        inside = inside & ((magnitude >> (SHIFT + 8)) == prefix)
    digit = ((magnitude >> SHIFT) & 255).to(tl.int32)
    met = tl.histogram(digit, _DIGITS, mask=inside)
    bins = room(plan, row, _BINS, tl.int32) + PASS * _DIGITS
    each = tl.arange(0, _DIGITS)
    tl.atomic_add(bins + each, met, mask=met != 0)


@triton.jit
def _threshold(rows, plan, row, EXPONENT: tl.constexpr, MANTISSA: tl.constexpr):
    """The k-th largest magnitude, and how many that are equal to it are kept."""
    PASSES: tl.constexpr = (EXPONENT + MANTISSA + 7) // 8
    return _found(rows, plan, row, PASSES)


@triton.jit
def count_kept(
    work,
    rows,
    keys,
    tally,
    plan,
    EXPONENT: tl.constexpr,
    MANTISSA: tl.constexpr,
    BLOCK: tl.constexpr,
    ALIGNED: tl.constexpr,
):
    """Count what is above the threshold and equal to it in each block."""
    row, block = share(work)
    _bits, magnitude, inside = _bits_of_block(rows, row, block, EXPONENT, MANTISSA, BLOCK, ALIGNED)
    threshold, _ties = _threshold(rows, plan, row, EXPONENT, MANTISSA)
    counts = room(plan, row, _COUNTS, tl.int32) + block * 2
    above, equal = inside & (magnitude > threshold), inside & (magnitude == threshold)
    tl.store(counts, tl.sum(above.to(tl.int32), axis=0))
    tl.store(counts + 1, tl.sum(equal.to(tl.int32), axis=0))


@triton.jit
def take_kept(
    work,
    rows,
    keys,
    tally,
    plan,
    EXPONENT: tl.constexpr,
    MANTISSA: tl.constexpr,
    BLOCK: tl.constexpr,
    ALIGNED: tl.constexpr,
):
    """Write the kept values side by side, and list their places, or those of the others.

    Values that are not finite and not kept are counted: whoever encodes the rest sees the others.
    """
    row, block = share(work)
    bits, magnitude, inside = _bits_of_block(rows, row, block, EXPONENT, MANTISSA, BLOCK, ALIGNED)
    threshold, ties = _threshold(rows, plan, row, EXPONENT, MANTISSA)
    counts = room(plan, row, _COUNTS, tl.int32)
    above_before = sum_before(counts, block, 2, 0, _LANES)
    equal_before = sum_before(counts, block, 2, 1, _LANES)
    above = (inside & (magnitude > threshold)).to(tl.int32)
    equal = (inside & (magnitude == threshold)).to(tl.int32)
    above_before += tl.cumsum(above, axis=0) - above
    equal_before += tl.cumsum(equal, axis=0) - equal
    kept = (above != 0) | ((equal != 0) & (equal_before < ties))
    rank = above_before + tl.minimum(equal_before, ties)
    KIND: tl.constexpr = tl.uint32 if EXPONENT + MANTISSA == 31 else tl.uint16
    tl.store(room(plan, row, _HANDED, KIND) + rank, bits, mask=kept)
    index = block * BLOCK + tl.arange(0, BLOCK)
    others = planned(plan, row, _KEPT) != planned(plan, row, _LISTED)
    listed = inside & (kept != others)
    number = tl.where(others, index - rank, rank)
    tl.store(room(plan, row, _PLACES, tl.int32) + number, index, mask=listed)
    low = planned(plan, row, _LOW).to(tl.int32)
    one = ((index - number) >> low) + number
    flag = tl.full([BLOCK], 1, tl.uint8)
    tl.store(room(plan, row, _FLAGS, tl.uint8) + one, flag, mask=listed)
    lost = inside & (kept == 0) & (magnitude >= (((1 << EXPONENT) - 1) << MANTISSA))
    missed = tl.sum(lost.to(tl.int32), axis=0)
    if missed != 0:
        tl.atomic_add(tally + row * _TALLIES + _NONFINITE, missed.to(tl.int64))
