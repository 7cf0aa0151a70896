r"""Gradient descent on a quadratic with compressed gradients, counted in steps and bits.

$f(x) = \frac12 x^\top A x$ with eigenvalues spread evenly in logarithms from $1 / \kappa$ to 1 and
random eigenvectors, from a random start, until $\|x\|^2$ has fallen to the target's share of the
start. Biased operators step by $1 / L$, unbiased ones by $1 / ((1 + \omega) L)$.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
TARGET = 1e-4
_PATIENCE = 20  # times the steps without compression


@dataclass(frozen=True, slots=True)
class Quadratic:
    """The matrix, whose largest eigenvalue is 1, and the start."""

    matrix: Vector
    start: Vector

    @classmethod
    def random(cls, d: int, condition: float, seed: int) -> "Quadratic":
        """With this condition number, in a random basis."""
        rng = np.random.default_rng(seed)
        basis, _ = np.linalg.qr(rng.standard_normal((d, d)))
        values = np.geomspace(1 / condition, 1, d)
        return cls((basis * values) @ basis.T, rng.standard_normal(d))


class Sent(NamedTuple):
    """What a compressed gradient became, and what its messages took, by way of counting."""

    value: Vector
    bits: tuple[float, ...]


Compressor = Callable[[Vector, int], Sent]  # the gradient, the step's number


class Run(NamedTuple):
    """Steps until the target, and bits in all; no steps where it was not reached."""

    steps: int | None
    bits: tuple[float, ...]


def descend(problem: Quadratic, compress: Compressor, step: float, most: int) -> Run:
    """Run until the target, or for `most` steps."""
    x = problem.start.copy()
    goal = TARGET * float(x @ x)
    total: tuple[float, ...] = ()
    for number in range(most):
        sent = compress(problem.matrix @ x, number)
        x -= step * sent.value
        total = tuple(map(sum, zip(total, sent.bits, strict=True))) if total else sent.bits
        if float(x @ x) <= goal:
            return Run(number + 1, total)
    return Run(None, total)


def plain_steps(problem: Quadratic) -> int:
    """Steps of gradient descent itself."""
    run = descend(problem, lambda gradient, _: Sent(gradient, (0.0,)), 1.0, 10**6)
    assert run.steps is not None
    return run.steps


def patience(plain: int) -> int:
    """After how many steps a run counts as lost."""
    return _PATIENCE * plain


def conditioned(d: int, steps: int, seed: int) -> Quadratic:
    """The quadratic for which gradient descent takes this many steps, nearly."""
    low, high = 1.0, 1e5
    for _ in range(24):
        middle = (low * high) ** 0.5
        if plain_steps(Quadratic.random(d, middle, seed)) < steps:
            low = middle
        else:
            high = middle
    return Quadratic.random(d, high, seed)
