"""Constants of CRC-32C: products and powers of polynomials modulo its own, on the host.

A CRC without its complements is linear. A message is a polynomial and its CRC the rest modulo P, so
parts of a message can be taken one by one and moved to their places by a product with a power of x.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

POLYNOMIAL = 0x82F63B78  # reflected: bit 31 is x^0
_ONE, _X = 1 << 31, 1 << 30
_INVERSE_OF_X = POLYNOMIAL << 1 & 0xFFFFFFFF | 1
_ALL = 0xFFFFFFFF
Words32 = npt.NDArray[np.int32]


def product(a: int, b: int) -> int:
    result = 0
    while a:
        if a & _ONE:
            result ^= b
        a = a << 1 & _ALL
        b = b >> 1 ^ (POLYNOMIAL if b & 1 else 0)
    return result


def power(exponent: int) -> int:
    """A power of x; a negative one takes factors away."""
    base = _X if exponent >= 0 else _INVERSE_OF_X
    result, exponent = _ONE, abs(exponent)
    while exponent:
        if exponent & 1:
            result = product(result, base)
        base, exponent = product(base, base), exponent >> 1
    return result


def without_message(size: int, start: int = 0) -> int:
    """What a CRC of `size` bytes, continued from `start`, is if all of them are zero."""
    return product(_ALL ^ start, power(8 * size)) ^ _ALL


def pieces(size: int, line: int, lines: int) -> list[tuple[int, int, int]]:
    """A message of `size` bytes in blocks of at most `lines` lines of `line` bytes.

    Each has its first line, the number of its lines, and the power that moves it to its place.
    """
    total, step = -(-size // line), power(8 * line * lines)
    starts = range(0, total, lines)
    if not starts:
        return []
    move = power(8 * (size - total * line))
    found = [(starts[-1], total - starts[-1], move)]
    move = product(move, power(8 * line * (total - starts[-1])))
    for start in reversed(starts[:-1]):
        found.append((start, lines, move))
        move = product(move, step)
    return found[::-1]


@lru_cache(None)
def step_tables(lanes: int) -> Words32:
    """Products of every byte of a word with the power of x that skips `lanes` words."""
    step = power(32 * lanes)
    bits = [product(1 << bit, step) for bit in range(32)]
    tables = np.zeros((4, 256), np.uint32)
    for byte in range(4):
        for bit in range(8):
            tables[byte, np.arange(256) >> bit & 1 == 1] ^= np.uint32(bits[8 * byte + bit])
    return signed(tables.reshape(-1))


@lru_cache(None)
def lane_moves(lanes: int, words: int | None = None) -> Words32:
    """The power for each of `lanes` words that lie side by side, of which `words` count."""
    behind = lanes if words is None else words
    return signed([power(32 * (behind - lane)) for lane in range(lanes)])


def signed(words: object) -> Words32:
    """Words as Triton's kernels take them."""
    return np.asarray(words, np.uint32).view(np.int32)
