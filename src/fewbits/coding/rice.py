r"""Golomb-Rice coding: numbers that are geometric, or nearly so.

A number $v = 2^r q + l$ with $l < 2^r$ takes $r$ bits for $l$ and $q + 1$ bits for $q$: ones, then
a zero. All $l$ come first, then all $q$, so that both are read without a loop.
"""

import numpy as np
import numpy.typing as npt

from fewbits.coding.bitpack import packed_size
from fewbits.errors import DecodeError

_Numbers = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]

_PART = 1 << 16  # numbers that are widened at a time
RICE_CUT = "a section of Rice codes ends before its numbers do"
LEFT = "bits are left over at the end of a section of Rice codes"
RICE_LARGE = "a Rice code is not below its bound"


def encode(numbers: _Numbers, parameter: int) -> _Bytes:
    """The bits of all numbers, padded with zeros to a byte."""
    quotients = numbers >> parameter
    ends = np.cumsum(quotients + 1)
    unary = np.ones(int(ends[-1]) if ends.size else 0, np.uint8)
    unary[ends - 1] = 0
    low = np.empty((numbers.size, parameter), np.uint8)
    for place in range(parameter):
        low[:, place] = numbers >> place & 1
    return np.packbits(np.concatenate([low.ravel(), unary]), bitorder="little")


def decode(data: _Bytes, parameter: int, bound: int, count: int) -> _Numbers:
    """The `count` numbers below `bound` that `encode` wrote; refuses any other bytes."""
    split = count * parameter
    if data.size < packed_size(count, parameter + 1):
        raise DecodeError(RICE_CUT)
    bits = np.unpackbits(data, bitorder="little")
    low = bits[:split].reshape(count, parameter)
    unary = bits[split:]
    ends = np.flatnonzero(unary == 0)[:count]
    if ends.size < count:
        raise DecodeError(RICE_CUT)
    end = int(ends[-1]) + 1 if count else 0
    if unary.size - end >= 8 or unary[end:].any():
        raise DecodeError(LEFT)
    numbers: _Numbers = np.diff(ends, prepend=-1)
    numbers -= 1
    numbers <<= parameter
    for start in range(0, count, _PART):
        part = slice(start, start + _PART)
        for place in range(parameter):
            numbers[part] += low[part, place].astype(np.int64) << place
    if count and int(numbers.max()) >= bound:
        raise DecodeError(RICE_LARGE)
    return numbers
