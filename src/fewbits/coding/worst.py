r"""Bytes that no section of codes with a bounded sum of squares exceeds.

Let $n$ codes with signs, cut into blocks, have $\sum_{q_i \ne 0} (|q_i| - t)^2 \le E$. By Gibbs'
inequality their entropy, block by block, is at most
$$ n \log_2 Z + \lambda E \log_2 e, \qquad Z = 1 + 2 \sum_{k \ge 1} e^{-\lambda (k - t)^2}, $$
for every $\lambda > 0$: the right side is what an ideal coder with the probabilities
$e^{-\lambda (|q| - t)^2} / Z$ would take. `docs/theory.md` has what rANS, its tables and its lanes
add to that, surely.
"""

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fewbits.coding.frequencies import TOTAL
from fewbits.coding.rans import CODER_BLOCK, LENGTH_SIZE
from fewbits.coding.symbols import WINDOW

_Numbers = npt.NDArray[np.float64]

ROUNDED = 0.17  # log2 of what a symbol that puts out a word grows a state too much: 9/8
KEPT_BACK = 0.0476  # the same for one that does not
ESTIMATED = 0.004  # `frequencies.cost` is above the logarithm by this at most
_GROWTH = 1 / (1 - ROUNDED / 16)  # a word has 16 bits
_MASKED = 9 / 8  # symbols for each code, where a mask has one for eight
_FIXED = 24 * 32 + 8 * 64 + 8 * (LENGTH_SIZE + 20)  # bits of lanes, lengths and kinds of a block
_TERMS = 64
_LOG_E = math.log2(math.e)


@lru_cache(1024)
def largest_coded(count: int, energy: float, slack: float) -> int:
    """Bytes of signed codes whose squares, each code less `slack`, add up to `energy` at most."""
    if not count:
        return 0
    blocks = -(-count // CODER_BLOCK)
    least = _entropy(count, energy, slack)
    shares: _Numbers = np.exp2(-np.arange(2.0, 20.0))
    paid = _overheads(slack, shares)
    more = float((shares * energy + blocks * paid).min())
    escapes = 16 * energy / (WINDOW + 1 - slack) ** 2
    losses = count * (_MASKED * KEPT_BACK + ESTIMATED)
    bits = _GROWTH * (least + losses + more + escapes) + blocks * _FIXED
    return math.ceil(bits / 8)


def _entropy(count: int, energy: float, slack: float) -> float:
    r"""The least of the bounds for some $\lambda$; every one holds."""
    near = count / (2 * energy)
    slopes = near * 2.0 ** (np.arange(-32, 33) / 8)
    first = np.arange(1, _TERMS + 1) - slack
    with np.errstate(under="ignore"):
        terms = np.exp(-slopes[:, None] * first**2).sum(axis=1)
    roots = np.sqrt(slopes)
    rest = [math.erfc(root * first[-1]) for root in roots.tolist()]  # an integral above the sum
    z = 1 + 2 * terms + math.sqrt(math.pi) / roots * np.array(rest)
    return float((count * np.log2(z) + slopes * energy * _LOG_E).min())


def _overheads(slack: float, shares: _Numbers) -> _Numbers:
    """Bits of a block's table and of its rounded frequencies, less a share of its energy.

    With m symbols the energy is at least that of the codes below m. The more of them, the more is
    lost, and the more energy pays for it.
    """
    m = np.arange(2, 257)
    fine = 16 * np.maximum(2, _LOG_E * (1 + m / (TOTAL // m)))
    coarse = 2 * np.maximum(2, _LOG_E * (1 + m / 4))
    table = 16 + m * (16 + np.log2(TOTAL / m))
    energies = np.cumsum((np.arange(1, 256) - slack) ** 2)
    most = m * np.maximum(fine, coarse) + table - shares[:, None] * energies
    return np.asarray(most.max(axis=1))
