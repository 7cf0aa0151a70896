r"""How few bits can suffice: the share of a cap, and the lower bounds that follow from it.

A cap with parameter $\alpha$ takes the share
$$ P(\alpha, d) = \tfrac12 I_\alpha(\tfrac{d-1}2, \tfrac12) $$
of the unit sphere in $\mathbb{R}^d$, where $I$ is the regularised incomplete beta function. An
operator with $\|C(x) - x\|^2 \le \alpha \|x\|^2$ *surely* can use one message for no more than one
cap. The bounds below follow from that.

`fewbits.families.caps` has the same $P$ in arithmetic that is rounded alike on every machine,
because readers of frames depend on it. It underflows in high dimensions. This module computes in
logarithms, which works for $d = 10^8$ as well as for $d = 8$.

Source of the bounds: Albasyoni, Safaryan, Condat, Richtárik, *Optimal Gradient Compression for
Distributed and Federated Learning* (2020).
"""

import math
from typing import NamedTuple

from fewbits.errors import SpecError
from fewbits.theory.uncertainty import check, uncertainty_bits

_TINY = 1e-300  # stands for zero in the continued fraction
_PRECISION = 2.0**-52


def log2_cap_share(alpha: float, d: int) -> float:
    r"""$\log_2 P(\alpha, d)$, with an absolute error of about $10^{-16}$ of its value."""
    check(alpha, d)
    if d == 1:
        return -1.0  # the sphere has two points
    a, rest = (d - 1) / 2, 1 - alpha
    # ln of alpha^a sqrt(1 - alpha) / B(a, 1/2), which both forms share
    front = a * math.log(alpha) + math.log(rest) / 2 - _log_scaled_beta(a) + math.log(a)
    if rest * (a + 2.5) > 1.5:
        return (front + math.log(_fraction(a, 0.5, alpha) / (2 * a))) / math.log(2)
    # Nearly half of the sphere: the missing share is small, and its series is short.
    missing = 2 * math.exp(front) * _series(a, rest)
    return math.log2((1 - missing) / 2)


def cap_share(alpha: float, d: int) -> float:
    r"""$P(\alpha, d)$ itself; 0 if it is too small for a float."""
    return math.exp2(log2_cap_share(alpha, d))


def average_bits(alpha: float, d: int) -> float:
    r"""The least mean length of messages, $-\log_2 P(\alpha, d)$, for unit vectors.

    It holds for operators whose error is *surely* at most $\alpha \|x\|^2$, whatever seed encoder
    and decoder share. Given the seed, a random direction leads to each message with probability at
    most $P$, so messages have an entropy of at least $-\log_2 P$.
    """
    return -log2_cap_share(alpha, d)


class WorstCaseBits(NamedTuple):
    """Bits of the longest message, without the O(1) that the theorem leaves open."""

    proved: float  # -log2 P: there are not enough messages below
    lower: float  # + log2 d: as published, its proof not checked
    upper: float  # + log2 log2 d: a covering exists; nobody can compute it in high dimensions


def worst_case_bits(alpha: float, d: int) -> WorstCaseBits:
    r"""Bounds on the least length of the longest message, for unit vectors and a sure error.

    $-\log_2 P + \log_2 d + O(1) \le b^* \le -\log_2 P + \log_2 d + \log_2\log_2 d + O(1)$.
    Only $b^* \ge -\log_2 P$ is certain: it was an open question in 2011 whether coverings of the
    sphere by equal caps have a density of order $d$.
    """
    if d < 2:
        raise SpecError(f"the bounds need a dimension of at least 2, got {d}")
    proved = average_bits(alpha, d)
    lower = proved + math.log2(d)
    return WorstCaseBits(proved, lower, lower + math.log2(math.log2(d)))


def uncertainty_holds_for_unit_vectors(alpha: float, d: int) -> bool:
    r"""Whether $\frac d2 \log_2 \frac1\alpha$ bits are needed even if the norm is known.

    Then the limit is $-\log_2 P$, which is lower for few dimensions and tiny $\alpha$, about where
    $2 \pi d\, \alpha (1 - \alpha) < 1$. In the plane, 315 points on a circle reach
    $\alpha = 10^{-4}$ with 8.3 bits, and not 13.3. This matters for blocks of a few values, not for
    gradients.
    """
    return average_bits(alpha, d) >= uncertainty_bits(alpha, d)


def sparse_dithering_bits(nu: float) -> float:
    r"""An upper bound on the bits a value of sparse dithering with $\alpha = \nu$, for large $d$.

    $\max_\tau \{ H_2(\tau) + \frac32 (1 - \tau) + (1 - \frac\tau2) / (2\sqrt\nu) \}$, where
    $\tau$ is the share of zeros. With $c = \frac32 + 1 / (4\sqrt\nu)$ the maximum is at
    $\tau = 1 / (1 + 2^c)$ and equals $\frac32 + 1 / (2\sqrt\nu) + \log_2(1 + 2^{-c})$. (The poster
    prints $\sqrt\nu$ for the last denominator, which does not give its own 3.35 at $\nu = 0.1$.)
    A message adds $30 + \log_2 d$ bits.
    """
    _check_positive("nu", nu)
    root = math.sqrt(nu)
    c = 1.5 + 1 / (4 * root)
    return 1.5 + 1 / (2 * root) + math.log1p(2.0**-c) / math.log(2)


def stochastic_dithering_bits(omega: float) -> float:
    r"""The bound on mean bits with unbiased rounding: $\log_2 3 + 1 / (2\sqrt\omega)$ a value."""
    _check_positive("omega", omega)
    return math.log2(3) + 1 / (2 * math.sqrt(omega))


def _fraction(a: float, b: float, x: float) -> float:
    r"""The continued fraction of $I_x(a, b)$ without its leading factor, by Lentz's method.

    It converges for $x < (a + 1) / (a + b + 2)$, after about $\sqrt a$ terms at worst.
    """
    c, d = 1.0, 1 / _nonzero(1 - (a + b) * x / (a + 1))
    value, m = d, 0
    while True:
        m += 1
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        before = value
        for term in (even, odd):
            d = 1 / _nonzero(1 + term * d)
            c = _nonzero(1 + term / c)
            value *= c * d
        if abs(value - before) <= _PRECISION * abs(value):
            return value


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def _series(a: float, y: float) -> float:
    r"""$\sum_k y^k \prod_{j<k} (a + \frac12 + j) / (\frac32 + j)$, of $I_y(\frac12, a)$."""
    total, term, step = 0.0, 1.0, 0
    while total + term != total:
        total += term
        term *= (a + 0.5 + step) / (1.5 + step) * y
        step += 1
    return total


def _log_scaled_beta(a: float) -> float:
    r"""$\ln (a B(a, \frac12)) = \ln (\sqrt\pi\, \Gamma(a + 1) / \Gamma(a + \frac12))$."""
    if a < 32:
        ratio = math.lgamma(a + 1) - math.lgamma(a + 0.5)
    else:  # the difference of two large numbers has lost its digits
        square = 1 / (a * a)
        tail = 1 / 8 - square * (1 / 192 - square * (1 / 640 - square * 17 / 14336))
        ratio = math.log(a) / 2 + tail / a
    return ratio + math.log(math.pi) / 2


def _check_positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise SpecError(f"{name} must be positive, got {value}")
