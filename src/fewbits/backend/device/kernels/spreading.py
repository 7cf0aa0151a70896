"""Kept values back to their places, which were listed before."""

from fewbits.backend.device.kernels.floats import wide
from fewbits.backend.device.kernels.plans import HANDED, KEPT_VALUES, LISTED, PLACES, planned, room
from fewbits.backend.device.kernels.powers import canonical
from fewbits.backend.device.kernels.rows import count_of, share, values_of
from fewbits.backend.device.language import tl, triton

PUT, ADD, SUBTRACT = range(3)  # what becomes of a value
_PUT, _ADD, _SUBTRACT = tl.constexpr(PUT), tl.constexpr(ADD), tl.constexpr(SUBTRACT)
_KEPT, _LISTED = tl.constexpr(KEPT_VALUES), tl.constexpr(LISTED)
_PLACES, _HANDED = tl.constexpr(PLACES), tl.constexpr(HANDED)


@triton.jit
def _use(
    values, place, bits, mask, EXPONENT: tl.constexpr, MANTISSA: tl.constexpr, HOW: tl.constexpr
):
    """Write values, or add them to totals of float32, or subtract them."""
    if HOW == _PUT:
        tl.store(values + place, bits.to(values.dtype.element_ty), mask=mask)
    else:
        own = bits.to(tl.uint32)
        magnitude = own & ((1 << (EXPONENT + MANTISSA)) - 1)
        sign = (own >> (EXPONENT + MANTISSA)) ^ (HOW == _SUBTRACT)
        term = wide(magnitude, EXPONENT, MANTISSA).to(tl.uint32, bitcast=True) | (sign << 31)
        term = term.to(tl.float32, bitcast=True)
        before = tl.load(values + place, mask=mask, other=0).to(tl.float32, bitcast=True)
        tl.store(values + place, canonical(before + term), mask=mask)


@triton.jit
def spread_kept(
    work,
    rows,
    keys,
    tally,
    plan,
    EXPONENT: tl.constexpr,
    MANTISSA: tl.constexpr,
    HOW: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Use each kept value at its place, which is listed."""
    row, block = share(work)
    number = block * BLOCK + tl.arange(0, BLOCK)
    KIND: tl.constexpr = tl.uint32 if EXPONENT + MANTISSA == 31 else tl.uint16
    TO: tl.constexpr = KIND if HOW == _PUT else tl.uint32
    inside = number < planned(plan, row, _KEPT)
    bits = tl.load(room(plan, row, _HANDED, KIND) + number, mask=inside, other=0)
    place = tl.load(room(plan, row, _PLACES, tl.int32) + number, mask=inside, other=0)
    _use(values_of(rows, row, TO, False), place, bits, inside, EXPONENT, MANTISSA, HOW)


@triton.jit
def spread_around(
    work,
    rows,
    keys,
    tally,
    plan,
    EXPONENT: tl.constexpr,
    MANTISSA: tl.constexpr,
    HOW: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The same where the other places are listed: each finds how many are before it."""
    row, block = share(work)
    index = block * BLOCK + tl.arange(0, BLOCK)
    KIND: tl.constexpr = tl.uint32 if EXPONENT + MANTISSA == 31 else tl.uint16
    TO: tl.constexpr = KIND if HOW == _PUT else tl.uint32
    places, listed = room(plan, row, _PLACES, tl.int32), planned(plan, row, _LISTED).to(tl.int32)
    low = tl.zeros([BLOCK], tl.int32)
    high = tl.zeros([BLOCK], tl.int32) + listed
    left = listed
    while left > 0:  # halves of what is left
        middle = (low + high) // 2
        open = low < high
        smaller = open & (tl.load(places + middle, mask=open, other=0) < index)
        low = tl.where(smaller, middle + 1, low)
        high = tl.where(open & (smaller == 0), middle, high)
        left = left // 2
    inside = index < count_of(rows, row)
    other = inside & (low < listed)
    other = other & (tl.load(places + low, mask=other, other=-1) == index)
    rank = index - low
    kept = inside & (other == 0) & (rank < planned(plan, row, _KEPT))
    bits = tl.load(room(plan, row, _HANDED, KIND) + rank, mask=kept, other=0)
    used = inside if HOW == _PUT else kept
    _use(values_of(rows, row, TO, False), index, bits, used, EXPONENT, MANTISSA, HOW)


@triton.jit
def clear_values(
    work, rows, keys, tally, WIDE: tl.constexpr, BLOCK: tl.constexpr, ALIGNED: tl.constexpr
):
    """Zeros in place of a row's values."""
    row, block = share(work)
    start = block.to(tl.int64) * BLOCK
    place = tl.arange(0, BLOCK)
    KIND: tl.constexpr = tl.uint32 if WIDE else tl.uint16
    values = values_of(rows, row, KIND, ALIGNED) + start
    zero = tl.zeros([BLOCK], KIND)
    tl.store(values + place, zero, mask=place < count_of(rows, row) - start)
