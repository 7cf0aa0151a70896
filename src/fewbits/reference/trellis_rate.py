r"""The step of a trellis that makes a vector take a wanted number of bits.

The step follows from $\nu$, and $\nu$ is one of 64 numbers between two powers of two. Some values
of the vector, one in each of 8192 equal parts, are brought to levels with a step and counted as a
block that is written would be; what this costs, scaled to the whole vector, is the rate that the
step would have. Where in its part a value lies follows the golden ratio, so that the columns of a
matrix are met alike, whatever their number.
The finest step within the wanted rate is taken, as far as the rate grows with finer steps. All
costs are whole numbers, so that every machine finds the same step.
"""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fewbits.coding.paths import Paths, lanes_log2
from fewbits.coding.phases import DitherWords
from fewbits.coding.rans import CODER_BLOCK

RATE_SAMPLE = 8192  # values that are tried
_GOLDEN = 2654435769  # 2^32 divided by the golden ratio
_PLACES = 64  # numbers between two powers of two
_FIRST_STRIDE = 16
_HEAD = 48  # bits before the tables of a block, with its length


def number_at(place: int) -> float:
    """The number at a place; all are multiples of a small power of two."""
    return math.ldexp(_PLACES + place % _PLACES, place // _PLACES - 6)


def place_of(number: float) -> int:
    """The place of the largest number that is not above this one."""
    fraction, exponent = math.frexp(number)
    return _PLACES * (exponent - 1) + int((2 * fraction - 1) * _PLACES)


def sampled(count: int) -> npt.NDArray[np.int64]:
    """The places of the values that are tried."""
    size = min(count, RATE_SAMPLE)
    part = np.arange(size + 1, dtype=np.int64) * count // max(size, 1)
    share = np.arange(size, dtype=np.int64) * _GOLDEN % 2**32
    return part[:-1] + (share * np.diff(part) >> 32)


def fits(
    levels: npt.NDArray[np.int64],
    states: int,
    words: DitherWords | None,
    bound: int,
    count: int,
    bits: float,
) -> bool:
    """Whether `count` values like these take at most so many bits each."""
    magnitudes, signs = np.abs(levels).astype(np.uint16), (levels < 0).astype(np.uint8)
    plan = Paths(states, words).plan(magnitudes, signs, bound)
    if plan is None:
        return True
    tables = 8 * len(plan.written)
    growing = plan.cost - 256 * (tables + (24 << plan.lanes_log2))
    fixed = tables + _HEAD + (24 << lanes_log2(min(count, CODER_BLOCK)))
    blocks = -(-count // CODER_BLOCK)
    return growing * (count / levels.size) + 256 * fixed * blocks <= 256 * bits * count


def finest(least: int, most: int, within: Callable[[int], bool]) -> int:
    """The lowest place that is within the rate, if rates fall with places; `most` is taken to be.

    From there in growing strides to one that is not, or to the least, then by halving.
    """
    stride = _FIRST_STRIDE
    while most - stride > least and within(most - stride):
        most, stride = most - stride, 2 * stride
    low = max(most - stride, least)
    while most - low > 1:
        middle = (low + most) // 2
        if within(middle):
            most = middle
        else:
            low = middle
    return most
