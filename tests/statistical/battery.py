"""Checks of random streams, shared by the gate and the soak, and generators that must fail them.

A battery takes `words(key, first, count)` and keys. Every function returns standard scores, or
counts whose expectation under independence is stated, and leaves the verdict to the test.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from fewbits.backend import library as _native
from fewbits.rng import MULTIPLY_1, MULTIPLY_2, STEP

Words = Callable[[bytes, int, int], npt.NDArray[np.uint32]]
LAGS = (0, 1, 2, 3, 8, 64, 1000)


def ours(key: bytes, first: int, count: int) -> npt.NDArray[np.uint32]:
    return _native.words(key, first, count)


def _mixed(x: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint32(16))) * MULTIPLY_1
        x = (x ^ (x >> np.uint32(15))) * MULTIPLY_2
        return x ^ (x >> np.uint32(16))


def _low_word(key: bytes) -> np.uint32:
    return np.frombuffer(key, "<u4")[0]


def one_key_exclusive_or(key: bytes, first: int, count: int) -> npt.NDArray[np.uint32]:
    """A good mixer of `index ^ key`: all streams are one permutation, read in another order."""
    index = np.arange(first, first + count, dtype=np.uint64).astype(np.uint32)
    return _mixed(index ^ _low_word(key))


def one_key_sum(key: bytes, first: int, count: int) -> npt.NDArray[np.uint32]:
    """The same with a sum: streams are shifted copies of one another."""
    index = np.arange(first, first + count, dtype=np.uint64).astype(np.uint32)
    with np.errstate(over="ignore"):
        return _mixed(index * STEP + _low_word(key))


def second_key_last(key: bytes, first: int, count: int) -> npt.NDArray[np.uint32]:
    """A second key, but only as a constant at the end: whoever shares the first differs by it."""
    return one_key_sum(key, first, count) ^ np.frombuffer(key, "<u4")[1]


def chi_square(words: npt.NDArray[np.uint32], shift: int) -> float:
    """Standard score of the 256 cells of eight bits from `shift` up."""
    cells = np.bincount((words >> np.uint32(shift)).astype(np.uint8), minlength=256)
    expected = words.size / 256
    statistic = ((cells - expected) ** 2 / expected).sum()
    # Wilson and Hilferty: the cube root of chi-square over its degrees of freedom is nearly normal.
    k = 255
    return float(((statistic / k) ** (1 / 3) - (1 - 2 / (9 * k))) / np.sqrt(2 / (9 * k)))


def correlations(words: Words, keys: Sequence[bytes], count: int, low: bool) -> list[np.ndarray]:
    """Scores of the correlation of every ordered pair of streams at each of `LAGS`.

    Uniform numbers have variance 1/12, so the sum of `count` products of two centred independent
    ones has variance count / 144. `low` looks at the lower 16 bits of each word only.
    """
    rows = np.stack([words(key, 0, count) for key in keys])
    uniform = (rows & 0xFFFF) / 2.0**16 - 0.5 if low else rows / 2.0**32 - 0.5
    scores = []
    for lag in LAGS:
        left, right = uniform[:, : count - lag], uniform[:, lag:]
        table = left @ right.T * 12 / np.sqrt(count - lag)
        if lag == 0:
            table = table[~np.eye(len(keys), dtype=bool)]  # a stream is not independent of itself
        scores.append(table.reshape(-1))
    return scores


def overlaps(words: Words, keys: Sequence[bytes], count: int) -> int:
    """Pairs of streams that seem to hold the same words, in whatever order.

    Two sets of `count` words that share most of their elements share their two smallest elements
    with a probability of the order of one. Independent sets do so for about
    (pairs) * (count / 2^32)^2 / 2 pairs.
    """
    smallest = np.array([np.partition(words(key, 0, count), 1)[:2] for key in keys])
    _, counts = np.unique(np.sort(smallest, axis=1), axis=0, return_counts=True)
    return int((counts * (counts - 1) // 2).sum())
