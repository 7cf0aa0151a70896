r"""Gradient descent with compressed gradients, counted in steps and bits.

It runs until $\|x - x^*\|^2$ has fallen to the target's share of the start's. Biased operators step
by $1 / L$, unbiased ones by $1 / ((1 + \omega) L)$.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Float64Vector = npt.NDArray[np.float64]
_TARGET = 1e-4
_PATIENCE = 20  # times the steps without compression


class DescentProblem(Protocol):
    """A function to minimise; `smoothness` is the L of its gradient."""

    @property
    def start(self) -> Float64Vector: ...

    @property
    def solution(self) -> Float64Vector: ...

    @property
    def smoothness(self) -> float: ...

    def gradient(self, x: Float64Vector) -> Float64Vector: ...


@dataclass(frozen=True, slots=True)
class Quadratic:
    r"""$\frac12 x^\top A x$: the matrix, whose largest eigenvalue is 1, and the start.

    Eigenvalues are spread evenly in logarithms from $1 / \kappa$ to 1, eigenvectors are random.
    """

    matrix: Float64Vector
    start: Float64Vector

    @property
    def solution(self) -> Float64Vector:
        """The origin."""
        return np.zeros_like(self.start)

    @property
    def smoothness(self) -> float:
        """The largest eigenvalue."""
        return 1.0

    def gradient(self, x: Float64Vector) -> Float64Vector:
        return self.matrix @ x

    @classmethod
    def random(cls, d: int, condition: float, seed: int) -> "Quadratic":
        """A problem with this condition number in a random basis."""
        rng = np.random.default_rng(seed)
        basis, _ = np.linalg.qr(rng.standard_normal((d, d)))
        values = np.geomspace(1 / condition, 1, d)
        return cls((basis * values) @ basis.T, rng.standard_normal(d))


class SentVector(NamedTuple):
    """A decoded gradient, and the bits of its messages by way of counting."""

    value: Float64Vector
    bits: tuple[float, ...]


Compressor = Callable[[Float64Vector, int], SentVector]  # the gradient, the step's number


class DescentRun(NamedTuple):
    """Steps until the target, and bits in all; no steps where it was not reached."""

    steps: int | None
    bits: tuple[float, ...]


def descend(problem: DescentProblem, compress: Compressor, step: float, most: int) -> DescentRun:
    """Run until the target, or for `most` steps of `step` / L."""
    x, solution, length = problem.start.copy(), problem.solution, step / problem.smoothness
    goal = _TARGET * _square(x - solution)
    total: tuple[float, ...] = ()
    for number in range(most):
        sent = compress(problem.gradient(x), number)
        x -= length * sent.value
        total = tuple(map(sum, zip(total, sent.bits, strict=True))) if total else sent.bits
        if _square(x - solution) <= goal:
            return DescentRun(number + 1, total)
    return DescentRun(None, total)


def plain_steps(problem: DescentProblem) -> int:
    """Steps of gradient descent itself."""
    run = descend(problem, lambda gradient, _: SentVector(gradient, (0.0,)), 1.0, 10**6)
    assert run.steps is not None
    return run.steps


def patience(plain: int) -> int:
    """After how many steps a run counts as lost."""
    return _PATIENCE * plain


def conditioned(make: Callable[[float], DescentProblem], steps: int) -> DescentProblem:
    """The problem whose condition makes descent take about this many steps."""
    low, high = 1.0, 1e5
    for _ in range(24):
        middle = (low * high) ** 0.5
        if plain_steps(make(middle)) < steps:
            low = middle
        else:
            high = middle
    return make(high)


def _square(x: Float64Vector) -> float:
    return float(x @ x)
