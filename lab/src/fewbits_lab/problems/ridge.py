r"""Ridge regression, $f(x) = \frac1{2m} \|A x - b\|^2 + \frac\lambda2 \|x\|^2$, from $x = 0$."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fewbits_lab.problems.descent import Float64Vector


@dataclass(frozen=True)
class Ridge:
    """Rows of features, a target for each, and λ."""

    rows: Float64Vector
    targets: Float64Vector
    regularisation: float

    @property
    def start(self) -> Float64Vector:
        """The origin."""
        return np.zeros(self.rows.shape[1])

    @cached_property
    def curvature(self) -> Float64Vector:
        """The matrix of second derivatives, which is the same everywhere."""
        moment = self.rows.T @ self.rows / len(self.rows)
        return np.asarray(moment + self.regularisation * np.eye(self.rows.shape[1]))

    @cached_property
    def slope(self) -> Float64Vector:
        """Minus the gradient at the origin."""
        return np.asarray(self.rows.T @ self.targets / len(self.rows))

    @cached_property
    def solution(self) -> Float64Vector:
        """The solution of the normal equations."""
        return np.asarray(np.linalg.solve(self.curvature, self.slope))

    @cached_property
    def smoothness(self) -> float:
        """The largest eigenvalue."""
        return float(np.linalg.eigvalsh(self.curvature)[-1])

    def gradient(self, x: Float64Vector) -> Float64Vector:
        return np.asarray(self.curvature @ x - self.slope)
