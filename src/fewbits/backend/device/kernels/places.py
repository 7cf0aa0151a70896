"""Sections of places: the code of Elias and Fano of places less their ranks.

Each byte of a section is made from the places whose bits it holds, and each place of a section from
its own bits, so no program waits for another.
"""

from fewbits.backend.device.kernels.plans import (
    COUNTS,
    FLAGS,
    LISTED,
    LOW_BITS,
    PLACES,
    STRING,
    planned,
    room,
    sum_before,
)
from fewbits.backend.device.kernels.rows import count_of, reason, refuse, section_of, share
from fewbits.backend.device.language import tl, triton
from fewbits.backend.library import BAD_PLACES

_LISTED, _LOW, _STRING = tl.constexpr(LISTED), tl.constexpr(LOW_BITS), tl.constexpr(STRING)
_COUNTS, _PLACES = tl.constexpr(COUNTS), tl.constexpr(PLACES)
_FLAGS, _BAD_PLACES = tl.constexpr(FLAGS), reason(BAD_PLACES)
_LANES = tl.constexpr(256)


@triton.jit
def _low_bytes(plan, row):
    """Bytes of the low bits."""
    return (planned(plan, row, _LISTED) * planned(plan, row, _LOW) + 7) // 8


@triton.jit
def write_low(work, rows, keys, tally, plan, BLOCK: tl.constexpr):
    """The low bits of places less their ranks, a byte after the other."""
    row, block = share(work)
    byte = block * BLOCK + tl.arange(0, BLOCK)
    inside = byte < _low_bytes(plan, row)
    low = planned(plan, row, _LOW).to(tl.int32)
    places = room(plan, row, _PLACES, tl.int32)
    first = byte * 8 // low
    found = tl.zeros([BLOCK], tl.uint32)
    for more in range(8 // low + 2):
        number = first + more
        there = inside & (number < planned(plan, row, _LISTED)) & (number * low < byte * 8 + 8)
        own = tl.load(places + number, mask=there, other=0) - tl.where(there, number, 0)
        own &= (1 << low) - 1
        shift = number * low - byte * 8
        left = own << tl.minimum(tl.maximum(shift, 0), 8)
        right = own >> tl.minimum(tl.maximum(-shift, 0), 31)
        found |= tl.where(there, tl.where(shift >= 0, left, right), 0).to(tl.uint32)
    section = section_of(rows, row, 0, tl.uint8, False)
    tl.store(section + byte, (found & 255).to(tl.uint8), mask=inside)


@triton.jit
def write_string(work, rows, keys, tally, plan, BLOCK: tl.constexpr):
    """The string's bits, of which every byte of the flags is one."""
    row, block = share(work)
    byte = block * BLOCK + tl.arange(0, BLOCK)
    column = tl.arange(0, 8)
    bit = byte[:, None] * 8 + column[None, :]
    flags = room(plan, row, _FLAGS, tl.uint8)
    string = planned(plan, row, _STRING)
    flag = tl.load(flags + bit, mask=bit < string, other=0).to(tl.uint32)
    packed = tl.sum(flag << column[None, :].to(tl.uint32), axis=1)
    section = section_of(rows, row, 0, tl.uint8, False) + _low_bytes(plan, row)
    tl.store(section + byte, packed.to(tl.uint8), mask=byte * 8 < string)


# ---- reading ----


@triton.jit
def _string_bits(rows, plan, row, bit):
    """Bits of the string; 0 before it and behind its last byte."""
    string = section_of(rows, row, 0, tl.uint8, False) + _low_bytes(plan, row)
    there = (bit >= 0) & (bit // 8 < (planned(plan, row, _STRING) + 7) // 8)
    byte = tl.load(string + bit // 8, mask=there, other=0).to(tl.int32)
    return (byte >> (bit % 8)) & 1


@triton.jit
def _low_bits(rows, plan, row, number, mask):
    """The low bits of listed places, by number."""
    section = section_of(rows, row, 0, tl.uint8, False)
    low, end = planned(plan, row, _LOW), _low_bytes(plan, row)
    bit = number.to(tl.int64) * low
    found = tl.zeros(number.shape, tl.uint64)
    for more in tl.static_range(5):
        at = bit // 8 + more
        byte = tl.load(section + at, mask=mask & (at < end), other=0).to(tl.uint64)
        found |= byte << (8 * more)
    one = tl.full([1], 1, tl.uint64)
    return ((found >> (bit % 8).to(tl.uint64)) & ((one << low.to(tl.uint64)) - 1)).to(tl.int32)


@triton.jit
def count_ones(work, rows, keys, tally, plan, BLOCK: tl.constexpr):
    """Count the ones in each block of the string."""
    row, block = share(work)
    one = _string_bits(rows, plan, row, block * BLOCK + tl.arange(0, BLOCK))
    tl.store(room(plan, row, _COUNTS, tl.int32) + block, tl.sum(one, axis=0))


@triton.jit
def list_places(work, rows, keys, tally, plan, BLOCK: tl.constexpr):
    """Write the listed places; refuse a section that no encoder writes."""
    row, block = share(work)
    bit = block * BLOCK + tl.arange(0, BLOCK)
    one = _string_bits(rows, plan, row, bit)
    before = sum_before(room(plan, row, _COUNTS, tl.int32), block, 1, 0, _LANES)
    number = before + tl.cumsum(one, axis=0) - one
    there, string = planned(plan, row, _LISTED), planned(plan, row, _STRING)
    inside = (one != 0) & (number < there)
    low = planned(plan, row, _LOW).to(tl.int32)
    own = _low_bits(rows, plan, row, number, inside)
    code = ((bit - number) << low) | own
    # The numbers never decrease: only those with equal high bits can be out of order.
    beside = inside & (_string_bits(rows, plan, row, bit - 1) != 0)
    previous = _low_bits(rows, plan, row, number - 1, beside)
    most = (count_of(rows, row) - there).to(tl.int32)
    wrong = (inside & (code > most)) | (beside & (previous > own))
    wrong |= (one != 0) & ((bit >= string) | (number >= there))
    refuse(tally, row, _BAD_PLACES, tl.max(wrong.to(tl.int32), axis=0) != 0)
    good = inside & (code <= most)
    tl.store(room(plan, row, _PLACES, tl.int32) + number, code + number, mask=good)
    if (block + 1) * BLOCK >= string:
        refuse(tally, row, _BAD_PLACES, before + tl.sum(one, axis=0) != there)
    if block == 0:
        used = (there * low) % 8
        if used != 0:
            end = section_of(rows, row, 0, tl.uint8, False) + there * low // 8
            last = tl.load(end).to(tl.int32)
            refuse(tally, row, _BAD_PLACES, (last >> used.to(tl.int32)) != 0)
