r"""Ridge regression, $f(x) = \frac1{2m} \|A x - b\|^2 + \frac\lambda2 \|x\|^2$, from $x = 0$."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fewbits.lab.descent import Vector


@dataclass(frozen=True)
class Ridge:
    """Rows of features, a target for each, and λ."""

    rows: Vector
    targets: Vector
    regularisation: float

    @property
    def start(self) -> Vector:
        """The origin."""
        return np.zeros(self.rows.shape[1])

    @cached_property
    def curvature(self) -> Vector:
        """The matrix of second derivatives, which is the same everywhere."""
        moment = self.rows.T @ self.rows / len(self.rows)
        return np.asarray(moment + self.regularisation * np.eye(self.rows.shape[1]))

    @cached_property
    def slope(self) -> Vector:
        """Minus the gradient at the origin."""
        return np.asarray(self.rows.T @ self.targets / len(self.rows))

    @cached_property
    def solution(self) -> Vector:
        """Of the normal equations."""
        return np.asarray(np.linalg.solve(self.curvature, self.slope))

    @cached_property
    def smoothness(self) -> float:
        """The largest eigenvalue."""
        return float(np.linalg.eigvalsh(self.curvature)[-1])

    def gradient(self, x: Vector) -> Vector:
        return np.asarray(self.curvature @ x - self.slope)
