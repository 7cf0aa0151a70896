"""CRC-32C in parallel: blocks of a message, lanes of a block, one exclusive or at the end.

Words that are LANES apart share a lane, whose state moves on by a product with a constant, by
tables of 256 words for each byte. At the end lanes and blocks move to their places in the message.
The order in which blocks are added does not matter, so atomics give the same bits.
"""

from fewbits.backend.device.kernels.rows import pointer
from fewbits.backend.device.language import tl, triton
from fewbits.backend.device.polynomials import POLYNOMIAL

_POLYNOMIAL = tl.constexpr(POLYNOMIAL)
_UNROLLED = tl.constexpr(8)  # of 32 bits; all at once, a compiler keeps too many in registers


@triton.jit
def polynomial_product(a, b):
    """The product modulo P of words, element by element."""
    result = a ^ a
    for _ in range(32 // _UNROLLED):
        for _ in tl.static_range(_UNROLLED):
            top = (a.to(tl.int32, bitcast=True) >> 31).to(tl.uint32, bitcast=True)  # all its bits
            result ^= top & b
            a = a << 1
            b = (b >> 1) ^ ((b & 1) * _POLYNOMIAL)
    return result


@triton.jit
def xor_of(words):
    """The exclusive or of all words, a whole number; first of neighbours, which share a thread."""
    for _ in tl.static_range(3):
        one, other = tl.split(tl.reshape(words, (words.numel // 2, 2)))
        words = one ^ other
    return tl.xor_sum(words.to(tl.int32, bitcast=True), axis=0)


@triton.jit
def moved(state, tables):
    """The states of lanes, moved on by one row of words."""
    part = tl.load(tables + (state & 255).to(tl.int32))
    part ^= tl.load(tables + 256 + ((state >> 8) & 255).to(tl.int32))
    part ^= tl.load(tables + 512 + ((state >> 16) & 255).to(tl.int32))
    part ^= tl.load(tables + 768 + (state >> 24).to(tl.int32))
    return part.to(tl.uint32, bitcast=True)


@triton.jit
def word_at(data, at, left, ALIGNED: tl.constexpr):
    """Words of a message of which `left` bytes are left; zeros behind its end."""
    if ALIGNED:
        word = tl.load(data + at, mask=at * 4 < left, other=0)
        over = tl.minimum(tl.maximum(at * 4 + 4 - left, 0), 3).to(tl.uint32)
        return word & (0xFFFFFFFF >> (8 * over))
    else:
        word = (at * 0).to(tl.uint32)
        for byte in tl.static_range(4):
            own = tl.load(data + at * 4 + byte, mask=at * 4 + byte < left, other=0)
            word |= own.to(tl.uint32) << (8 * byte)
        return word


@triton.jit
def crc_blocks(
    pieces,
    messages,
    tables,
    ends,
    crcs,
    ROWS: tl.constexpr,
    LANES: tl.constexpr,
    ALIGNED: tl.constexpr,
    TAILS: tl.constexpr,
):
    """Add the block of each program to its message's CRC.

    A line of `pieces` has the number of the message, the first row of words, their number, and the
    power that moves the block to its place; one of `messages` address and size.
    """
    piece = pieces + 4 * tl.program_id(0)
    message, rows = tl.load(piece), tl.load(piece + 2)
    first = tl.load(piece + 1).to(tl.int64) * (4 * LANES)
    left = tl.load(messages + 2 * message + 1) - first
    lane = tl.arange(0, LANES)
    state = tl.zeros((LANES,), tl.uint32)
    KIND: tl.constexpr = tl.uint32 if ALIGNED else tl.uint8
    data = pointer(tl.load(messages + 2 * message) + first, KIND, ALIGNED)
    if (left >= 4 * ROWS * LANES) & ALIGNED:
        for row in range(ROWS):
            state = moved(state, tables) ^ tl.load(data + row * LANES + lane)
    elif TAILS:
        for row in range(rows):
            state = moved(state, tables) ^ word_at(data, row * LANES + lane, left, ALIGNED)
    state = polynomial_product(state, tl.load(ends + lane).to(tl.uint32, bitcast=True))
    block = xor_of(state).to(tl.uint32, bitcast=True)
    behind = tl.load(piece + 3).to(tl.uint32, bitcast=True)
    tl.atomic_xor(crcs + message, polynomial_product(block, behind).to(tl.int32, bitcast=True))
