r"""Caps of spheres: how likely a random direction lies in one, and how to code when it first does.

A cap with parameter $\alpha$ holds the unit vectors of $\mathbb{R}^n$ whose angle $\theta$ with a
given one has $\cos\theta \ge \sqrt{1 - \alpha}$. With $a = (n - 1) / 2$ and
$$ S = \sum_{k \ge 0} \alpha^k \prod_{j < k} \frac{a + \frac12 + j}{a + 1 + j} $$
(the hypergeometric series of the incomplete beta function; all terms are positive) its share of the
sphere and the mean of $\cos\theta$ over it are
$$ P = \tfrac12 I_\alpha(a, \tfrac12) = \frac{\alpha^a \sqrt{1 - \alpha}\, S}{2 a B(a, \frac12)},
   \qquad m = \frac{1}{\sqrt{1 - \alpha}\, S} . $$
Readers of frames depend on these numbers, so only additions, multiplications, divisions and square
roots are used, which IEEE 754 rounds alike everywhere.
"""

import math
from functools import lru_cache


def _series(alpha: float, size: int) -> float:
    half = (size - 1) / 2
    total, term, step = 0.0, 1.0, 0
    while total + term != total:
        total += term
        term = term * (half + 0.5 + step) / (half + 1 + step) * alpha
        step += 1
    return total


@lru_cache(256)
def mean_cosine(alpha: float, size: int) -> float:
    r"""The mean cosine $m$ over a cap: 1 for numbers, $\sqrt{1 - \alpha}$ in high dimensions."""
    return 1 / (math.sqrt(1 - alpha) * _series(alpha, size)) if size > 1 else 1.0


@lru_cache(256)
def probability(alpha: float, size: int) -> float:
    """The share $P$ of the sphere that a cap takes; 0 where it is too small for a float."""
    if size == 1:
        return 0.5
    whole, odd = divmod(size - 1, 2)
    power = math.sqrt(alpha) if odd else 1.0
    beta = math.pi / 2 if odd else 1.0  # a B(a, 1/2), from a = 1/2 or 0 up to (size - 1) / 2
    at = odd / 2
    for _ in range(whole):
        power *= alpha
        beta *= (at + 1) / (at + 0.5)
        at += 1
    return power * math.sqrt(1 - alpha) * _series(alpha, size) / (2 * beta)


def rice_bits(chance: float, parameter: int) -> float:
    """The mean length of the Rice code of a geometric number: $r + 1 / (1 - (1 - P)^{2^r})$."""
    miss = 1 - chance
    for _ in range(parameter):
        miss *= miss
    return parameter + 1 / (1 - miss) if miss < 1 else math.inf


@lru_cache(256)
def rice_parameter(chance: float, most: int) -> int | None:
    """The $r$ with the least mean length, the smaller of equals; None if it is above `most`."""
    lengths = [rice_bits(chance, parameter) for parameter in range(most + 2)]
    best = lengths.index(min(lengths))
    return best if best <= most and lengths[best] < math.inf else None
