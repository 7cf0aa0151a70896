r"""The guarantee of an operator for every vector."""

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Guarantee:
    r"""Exactly one of `omega` and `alpha`, and an upper bound on the frame's bits.

    `omega`: unbiased, $E\,C(x) = x$ and $E\|C(x) - x\|^2 \le \omega \|x\|^2$. `alpha`: contractive,
    $E\|C(x) - x\|^2 \le \alpha \|x\|^2$, without the expectation if `sure`. Both hold for vectors
    whose non-zero magnitudes lie in [`low`, `high`], because of the ends of the float format.
    Below `low` an unbiased operator stays unbiased with an absolute error below `low` an element;
    above `high` values saturate and are counted.
    """

    bits: int
    omega: float | None = None
    alpha: float | None = None
    sure: bool = False
    low: float = 0.0
    high: float = math.inf

    def __post_init__(self) -> None:
        assert (self.omega is None) != (self.alpha is None), "either omega or alpha"

    @property
    def unbiased(self) -> bool:
        """Whether the expected output is the input."""
        return self.omega is not None

    @property
    def error(self) -> float:
        """The bound on the relative squared error: `omega` or `alpha`."""
        return self.omega if self.omega is not None else self.alpha or 0.0


def after_unbiased(omega: float, inner: Guarantee) -> Guarantee:
    r"""The guarantee of `inner` after an unbiased map with `omega` and independent randomness.

    Theorem 5 of Horváth et al. if `inner` is unbiased. If it is contractive, Minkowski's inequality
    gives $(\sqrt\omega + \sqrt{\alpha (1 + \omega)})^2$, in expectation.
    """
    if inner.omega is not None:
        return replace(inner, omega=(1 + omega) * (1 + inner.omega) - 1)
    if omega == 0:
        return inner
    alpha = (math.sqrt(omega) + math.sqrt(inner.error * (1 + omega))) ** 2
    return replace(inner, alpha=alpha, sure=False)
