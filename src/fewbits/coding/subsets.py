r"""Which $k$ of $d$ places, as wire version 1 has it; `places` has the code that is written now.

The smaller of the two sets, the $k$ places or the others, is listed: $n = \min(k, d - k)$ places in
ascending order, each by the gap $g$ to the one before it. If places are drawn at random, gaps are
nearly geometric with $\theta = 1 - n/d$, and the binary digits of a geometric number are
independent: digit $j$ is 1 with probability
$$ p_j = \theta^{2^j} / (1 + \theta^{2^j}) . $$
A range coder writes the digits with these probabilities. A gap then costs an affine function of
$g$, so *every* set of $n$ places costs the same, at most $d H(n/d)$ bits with $H$ the binary
entropy, which is within $\tfrac12 \log_2 (2 \pi n)$ of $\log_2 \binom{d}{n}$. Probabilities are
rounded up to 16 bits, which no digit 1 pays for and $n$ gaps of up to 32 digits 0 with less than
$n / 512$ bits. The section has room for that and for the end of the code, and is filled up with
zeros.

Native code reads the same bytes.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fewbits.coding.places import WRONG_PLACES, listed, others
from fewbits.errors import DecodeError

_Places = npt.NDArray[np.uint32]
_Bytes = npt.NDArray[np.uint8]

_ONE = 1 << 62  # the number 1 in powers of theta
_TOP = 1 << 64
_LEAST = 1 << 56  # below it a range is multiplied by 256
_PRECISION = 16


@lru_cache(maxsize=4096)
def size(d: int, k: int) -> int:
    """Bytes of the section: the entropy, 2 more, and one for every 4096 places listed."""
    n = min(k, d - k)
    if n == 0:
        return 0
    entropy = d * _log2(d) - n * _log2(n) - (d - n) * _log2(d - n)
    return ((entropy >> 32) + n // 512 + 23) // 8


def _log2(n: int) -> int:
    r"""$2^{32} \log_2 n$, rounded down: digit by digit in integers, so the same everywhere."""
    whole = n.bit_length() - 1
    x, result = n << 62 >> whole, whole
    for _ in range(32):
        x = x * x >> 62
        result *= 2
        if x >> 63:
            x >>= 1
            result += 1
    return result


def probabilities(d: int, n: int) -> list[int]:
    """65,536 times $p_j$, rounded up, for every digit that the largest gap has."""
    theta, result = ((d - n) << 62) // d, []
    for _ in range((d - n).bit_length()):
        result.append(-((-theta << _PRECISION) // (_ONE + theta)) or 1)
        theta = theta * theta >> 62
    return result


def encode(kept: _Places, d: int) -> bytes:
    """The section of these places below `d`, ascending, by definition."""
    places = listed(kept, d)
    out = bytearray()
    if places.size:
        chances = probabilities(d, places.size)
        coder = _Writer(out)
        before = -1
        for place in places.tolist():
            gap, before = place - before - 1, place
            for digit in range(len(chances) - 1, -1, -1):
                coder.put(gap >> digit & 1, chances[digit])
        coder.end()
    room = size(d, kept.size)
    assert len(out) <= room, "every set of places fits"
    return bytes(out).ljust(room, b"\0")


def decode(data: bytes, d: int, k: int) -> _Places:
    """The `k` places in a section; refuses bytes that `encode` does not write."""
    n = min(k, d - k)
    chances = probabilities(d, n) if n else []
    coder, places, before = _Reader(data), [], -1
    for _ in range(n):
        gap = 0
        for digit in range(len(chances) - 1, -1, -1):
            gap |= coder.get(chances[digit]) << digit
        before += gap + 1
        if before >= d:
            raise DecodeError(WRONG_PLACES)
        places.append(before)
    kept = np.array(places, np.uint32)
    if k > n:
        kept = others(kept, d)
    if encode(kept, d) != data:
        raise DecodeError(WRONG_PLACES)
    return kept


class _Writer:
    """A range coder: the message is a number in [low, low + range), written byte by byte."""

    def __init__(self, out: bytearray) -> None:
        self.out, self.low, self.range = out, 0, _TOP - 1

    def put(self, digit: int, chance: int) -> None:
        bound = (self.range >> _PRECISION) * chance
        if digit:
            self.range = bound
        else:
            self._add(bound)
            self.range -= bound
        while self.range < _LEAST:
            self._shift()
            self.range <<= 8

    def end(self) -> None:
        """The shortest number in the interval: one more byte, zeros after it."""
        self._add(_LEAST - 1)
        self._shift()

    def _shift(self) -> None:
        self.out.append(self.low >> 56)
        self.low = self.low << 8 & (_TOP - 1)

    def _add(self, amount: int) -> None:
        self.low += amount
        if self.low >= _TOP:
            self.low -= _TOP
            at = len(self.out) - 1
            while self.out[at] == 255:
                self.out[at] = 0
                at -= 1
            self.out[at] += 1


class _Reader:
    """The reverse; beyond the end there are zeros."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.range = data, 8, _TOP - 1
        self.code = int.from_bytes(data[:8].ljust(8, b"\0"), "big")

    def get(self, chance: int) -> int:
        bound = (self.range >> _PRECISION) * chance
        digit = int(self.code < bound)
        if digit:
            self.range = bound
        else:
            self.code -= bound
            self.range -= bound
        while self.range < _LEAST:
            following = self.data[self.at] if self.at < len(self.data) else 0
            self.code = (self.code << 8 | following) & (_TOP - 1)
            self.at += 1
            self.range <<= 8
        return digit
