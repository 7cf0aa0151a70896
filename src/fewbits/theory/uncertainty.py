r"""The uncertainty principle: no operator has less error for its bits.

Source: Safaryan, Shulgin, Richtárik, *Uncertainty Principle for Communication Compression in
Distributed and Federated Learning and the Search for an Optimal Compressor* (2020).
"""

import math

from fewbits.errors import SpecError


def uncertainty_bits(alpha: float, d: int) -> float:
    r"""$\frac d2 \log_2 \frac1\alpha$: the $b$ with $\alpha\, 4^{b/d} = 1$.

    The uncertainty principle says that no operator with error $\alpha$ has fewer bits, even if the
    error is bounded in expectation only. It compares the volumes of *balls*, so the bits also
    describe the norm.
    """
    check(alpha, d)
    return d / 2 * math.log2(1 / alpha)


def uncertainty_product(alpha: float, bits: float, d: int) -> float:
    r"""$\alpha\, 4^{b/d}$, at least 1; 1 is ideal. Infinite if it is too large for a float."""
    check(alpha, d)
    exponent = math.log2(alpha) + 2 * bits / d
    return math.exp2(exponent) if exponent < 1024 else math.inf


def check(alpha: float, d: int) -> None:
    """Refuse an error or a dimension that makes no sense."""
    if not 0 < alpha < 1:
        raise SpecError(f"alpha must lie between 0 and 1, got {alpha}")
    if d < 1:
        raise SpecError(f"the dimension must be at least 1, got {d}")
