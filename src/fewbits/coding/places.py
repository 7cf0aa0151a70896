r"""Which $k$ of $d$ places: a section whose length depends on $d$ and $k$ alone.

The smaller of the two sets, the $k$ places or the others, is listed: $n = \min(k, d - k)$ places
$p_0 < p_1 < \dots$ This is the code of Elias and Fano for $c_i = p_i - i$, which never decrease and
are at most $u = d - n$. The $l$ low bits of every $c_i$ are packed, one after another. Then comes a
string of $n + \lfloor u / 2^l \rfloor$ bits, in which bit $\lfloor c_i / 2^l \rfloor + i$ is set
for every $i$ and no other. So every place has its bits where its own number and index say, and all
can be written at the same time; counting ones finds any of them again.

$l$ is the width that makes the section shortest. It has at most 0.56 bits a place more than
$\log_2 \binom{d}{n}$ and a few bytes, and with $l = 0$, from $n > d / 3$ on, it is the plain bitmap
of $d$ bits. Taking $c_i$ in place of $p_i$ costs nothing and saves up to half a bit a place where
many are listed.

Native code gives the same bytes. `subsets` has the code of wire version 1.
"""

import numpy as np
import numpy.typing as npt

from fewbits.coding.bitpack import packed_size
from fewbits.errors import DecodeError

_Places = npt.NDArray[np.uint32]
_Bools = npt.NDArray[np.bool_]

MOST_PLACES = 1 << 32  # that 32 bits can number
WRONG_PLACES = "a section of places is not one that an encoder writes"
_PART = 1 << 16  # places that NumPy widens at a time


def widths(d: int, n: int) -> tuple[int, int]:
    """The number of low bits, and how many bits of the string are not set."""
    low, zeros = 0, d - n
    while (zeros + 1) // 2 > n:  # one bit more a place, and half of the zeros are gone
        low, zeros = low + 1, zeros // 2
    return low, zeros


def size(d: int, k: int) -> int:
    """Bytes of the section."""
    n = min(k, d - k)
    if n == 0:
        return 0
    low, zeros = widths(d, n)
    return packed_size(n, low) + packed_size(n + zeros, 1)


def encode(kept: _Places, d: int) -> bytes:
    """The section of these places below `d`, ascending."""
    places = listed(kept, d).astype(np.int64)
    n = places.size
    if n == 0:
        return b""
    low, zeros = widths(d, n)
    numbers = places - np.arange(n)
    string = np.zeros(n + zeros, np.bool_)
    string[(numbers >> low) + np.arange(n)] = True
    digits = (numbers[:, None] >> np.arange(low) & 1).astype(np.bool_)
    return _packed(digits.ravel()) + _packed(string)


def decode(data: bytes, d: int, k: int) -> _Places:
    """The `k` places in a section; refuses bytes that `encode` does not write."""
    n = min(k, d - k)
    if len(data) != size(d, k):
        raise DecodeError(WRONG_PLACES)
    if n == 0:
        return np.arange(k, dtype=np.uint32)
    low, zeros = widths(d, n)
    cut = packed_size(n, low)
    digits = _bits(data[:cut], n * low).reshape(n, low).astype(np.int64)
    ones = np.flatnonzero(_bits(data[cut:], n + zeros))
    if ones.size != n:
        raise DecodeError(WRONG_PLACES)
    numbers = (ones - np.arange(n) << low) + (digits << np.arange(low)).sum(1)
    if (np.diff(numbers) < 0).any() or numbers[-1] > d - n:
        raise DecodeError(WRONG_PLACES)
    places = (numbers + np.arange(n)).astype(np.uint32)
    return places if k == n else others(places, d)


def listed(kept: _Places, d: int) -> _Places:
    """The smaller of the two sets; of equals, the kept one."""
    return kept if 2 * kept.size <= d else others(kept, d)


def others(places: _Places, d: int) -> _Places:
    mask = np.ones(d, bool)
    found = np.empty(d - places.size, np.uint32)
    for start in range(0, places.size, _PART):
        mask[places[start : start + _PART]] = False
    at = 0
    for start in range(0, d, _PART):
        own = np.flatnonzero(mask[start : start + _PART])
        found[at : at + own.size] = own + start
        at += own.size
    return found


def _packed(bits: _Bools) -> bytes:
    return np.packbits(bits, bitorder="little").tobytes()


def _bits(data: bytes, count: int) -> _Bools:
    """So many bits; refuses others behind them that are not 0."""
    found = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").astype(np.bool_)
    if found[count:].any():
        raise DecodeError(WRONG_PLACES)
    return found[:count]
