r"""A sparse vector of small integers as one string of bits: the stream of sparse dithering.

Each block of $d$ codes $q_i$ and its scale are five fields:

| field | bits |
| --- | --- |
| the scale, a float without its sign | 31 or 63 |
| $n_0$, how many codes are 0 | $\lceil \log_2 (d + 1) \rceil$ |
| which codes are 0 | $\lceil \log_2 \binom{d}{n_0} \rceil$ |
| the signs of the others | $d - n_0$ |
| their magnitudes in unary, $\lvert q_i \rvert - 1$ ones and a zero | $\sum \lvert q_i \rvert$ |

Nothing follows a scale that is 0 or not finite. The third field is the place of the set of zeros
among all sets of its size, in the order of the combinatorial number system: the set
$c_1 < c_2 < \dots$ is number $\binom{c_1}{1} + \binom{c_2}{2} + \dots$. Every number begins with
its least significant bit.

The work is that of $d$ operations on integers of $d$ bits, so it is meant for short blocks.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from fewbits.errors import DecodeError

LARGEST_STREAM_BLOCK = 4096
CUT = "a stream of dithered codes ends within a field"

_Codes = npt.NDArray[np.int32]
Scales = npt.NDArray[np.uint64]
_Bits = npt.NDArray[np.uint8]  # one bit in each
_Bytes = npt.NDArray[np.uint8]


class ScaleFormat(Protocol):
    """The float format of a scale."""

    @property
    def exponent(self) -> int:
        """Bits of the exponent."""

    @property
    def mantissa(self) -> int:
        """Bits of the mantissa."""

    @property
    def infinity(self) -> int:
        """The pattern of infinity."""


class Stream(NamedTuple):
    """The bits of each block's scale, and the codes of all blocks."""

    scales: Scales
    codes: _Codes


def block_sizes(count: int, block: int) -> Iterator[int]:
    """The sizes of the blocks of `count` codes; the last one may be shorter."""
    for start in range(0, count, block):
        yield min(block, count - start)


def block_counts(count: int, block: int) -> dict[int, int]:
    whole, rest = divmod(count, block)
    return {size: number for size, number in ((block, whole), (rest, int(rest > 0))) if number}


def encode(stream: Stream, block: int, scale: ScaleFormat) -> _Bits:
    """The bits of a stream, before any padding."""
    fields, at = [np.empty(0, np.uint8)], 0
    sizes = block_sizes(stream.codes.size, block)
    for pattern, size in zip(stream.scales.tolist(), sizes, strict=True):
        fields.append(_digits(pattern, _scale_bits(scale)))
        if not _is_bare(pattern, scale):
            fields += _fields(stream.codes[at : at + size])
        at += size
    return np.concatenate(fields)


def decode(data: _Bytes, count: int, block: int, scale: ScaleFormat, bound: int) -> Stream:
    """The stream in the bits of `data`, padded with zeros to whole bytes; refuses all others."""
    source, codes = _Source(data), np.zeros(count, np.int32)
    scales = np.empty(-(-count // block), np.uint64)
    for number, at in enumerate(range(0, count, block)):
        pattern = source.number(_scale_bits(scale))
        scales[number] = pattern
        if not _is_bare(pattern, scale):
            size = min(block, count - at)
            codes[at : at + size] = _read_codes(source, size, bound)
    if source.left >= 8 or source.take(source.left).any():
        raise DecodeError("a stream of dithered codes does not end where its section ends")
    return Stream(scales, codes)


def ideal_bits(codes: _Codes, scale_bits: int = 31) -> float:
    """The length of one block's fields if each were written without rounding up, as papers do."""
    zeros = int(np.count_nonzero(codes == 0))
    places = math.log2(math.comb(codes.size, zeros)) + math.log2(codes.size)
    return scale_bits + places + codes.size - zeros + float(np.abs(codes.astype(np.int64)).sum())


def most_bits(size: int, scale: ScaleFormat, spread: float, slack: float) -> int:
    r"""Bits that no block of $d$ codes exceeds, $m$ of them not 0.

    The sum of the magnitudes must be at most `slack` $m$ + `spread` $\sqrt{d m}$.
    """
    nonzero = np.arange(size + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log2(np.arange(1, size + 1)))])
    places = np.ceil(logs[size] - logs[nonzero] - logs[::-1] + 1e-6)  # a bit more than exact
    unary = np.floor(slack * nonzero + spread * np.sqrt(size * nonzero) + 1e-6)
    return _scale_bits(scale) + size.bit_length() + int((places + nonzero + unary).max())


def _scale_bits(scale: ScaleFormat) -> int:
    return scale.exponent + scale.mantissa


def _is_bare(pattern: int, scale: ScaleFormat) -> bool:
    return pattern == 0 or pattern >= scale.infinity


# ---- writing ----


def _fields(codes: _Codes) -> list[_Bits]:
    zero = codes == 0
    zeros = int(np.count_nonzero(zero))
    marks = codes[~zero]
    unary = np.ones(int(np.abs(marks).sum()), np.uint8)
    unary[np.cumsum(np.abs(marks)) - 1] = 0
    return [
        _digits(zeros, codes.size.bit_length()),
        _digits(rank(zero), _rank_bits(codes.size, zeros)),
        (marks < 0).astype(np.uint8),
        unary,
    ]


def _digits(number: int, width: int) -> _Bits:
    data = np.frombuffer(number.to_bytes((width + 7) // 8, "little"), np.uint8)
    return np.unpackbits(data, count=width, bitorder="little")


def _rank_bits(size: int, members: int) -> int:
    return (math.comb(size, members) - 1).bit_length()


def rank(member: npt.NDArray[np.bool_]) -> int:
    """The place of a set among the sets of its size."""
    left = int(np.count_nonzero(member))
    number, n = 0, member.size - 1
    ways = math.comb(n, left) if n >= 0 else 0  # sets of `left` members below n
    for inside in member[::-1].tolist():
        if left == 0 or left > n:  # nothing, or everything, is below
            break
        if inside:
            number += ways
            ways = ways * left // n
            left -= 1
        else:
            ways = ways * (n - left) // n
        n -= 1
    return number


# ---- reading ----


class _Source:
    """Reads the bits of a section, a field at a time; refuses to read beyond the end."""

    def __init__(self, data: _Bytes) -> None:
        self.data, self.at = data, 0

    @property
    def left(self) -> int:
        return 8 * self.data.size - self.at

    def peek(self, count: int) -> _Bits:
        """The next `count` bits, or all that are left."""
        first, skipped = divmod(self.at, 8)
        own = self.data[first : -(-(self.at + count) // 8)]
        return np.unpackbits(own, bitorder="little")[skipped : skipped + count]

    def take(self, count: int) -> _Bits:
        if self.left < count:
            raise DecodeError(CUT)
        bits = self.peek(count)
        self.at += count
        return bits

    def number(self, width: int) -> int:
        return int.from_bytes(np.packbits(self.take(width), bitorder="little").tobytes(), "little")

    def unary(self, count: int, bound: int) -> npt.NDArray[np.int64]:
        """`count` numbers from 1 to `bound` - 1; looks at few more bits than they have."""
        most = count * (bound - 1)
        ends, length = np.empty(0, np.int64), min(2 * count + _LOOK, most)
        while ends.size < count:
            window = self.peek(length)
            ends = np.flatnonzero(window == 0)[:count]
            if ends.size < count and window.size < length:
                raise DecodeError(CUT)
            if ends.size < count and length == most:
                raise DecodeError(_TOO_LARGE)
            length = min(2 * length, most)
        numbers = np.diff(ends, prepend=-1)
        if numbers.size and int(numbers.max()) >= bound:
            raise DecodeError(_TOO_LARGE)
        self.at += int(numbers.sum())
        return numbers


_LOOK = 64  # bits
_TOO_LARGE = "a code is not below its bound"


def _read_codes(source: _Source, size: int, bound: int) -> _Codes:
    zeros = source.number(size.bit_length())
    if zeros > size:
        raise DecodeError(f"{zeros} of {size} dithered codes cannot be zero")
    number = source.number(_rank_bits(size, zeros))
    if number >= math.comb(size, zeros):
        raise DecodeError("no set of zeros has this number")
    zero = unranked(number, size, zeros)
    negative = source.take(size - zeros).astype(bool)
    magnitudes = source.unary(size - zeros, bound)
    codes = np.zeros(size, np.int32)
    codes[~zero] = np.where(negative, -magnitudes, magnitudes)
    return codes


def unranked(number: int, size: int, members: int) -> npt.NDArray[np.bool_]:
    """The set at a place among the sets of `members` of `size`: the reverse of `rank`."""
    member = np.zeros(size, np.bool_)
    left, n = members, size - 1
    ways = math.comb(n, left) if n >= 0 else 0
    while left and left <= n:
        if number >= ways:
            member[n] = True
            number -= ways
            ways = ways * left // n
            left -= 1
        else:
            ways = ways * (n - left) // n
        n -= 1
    member[:left] = True
    return member
