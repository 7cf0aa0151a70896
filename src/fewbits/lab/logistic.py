r"""Logistic regression on the breast cancer data that come with scikit-learn.

$$ f(x) = \frac1m \sum_i \ln(1 + e^{-b_i \langle a_i, x \rangle}) + \frac\lambda2 \|x\|^2 $$
from $x = 0$, with features scaled to $[-1, 1]$. Of the 30 features the first ten are means; the
others are their deviations and extremes.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fewbits.lab.descent import Vector
from fewbits.train.extras import require

FEATURES = 10
_NEWTON = 50  # steps, of which it takes about ten
_FLAT = 1e-13


@dataclass(frozen=True)
class Logistic:
    """Rows are the features of a sample times its label, -1 or 1."""

    rows: Vector
    regularisation: float

    @property
    def start(self) -> Vector:
        """The origin."""
        return np.zeros(self.rows.shape[1])

    @cached_property
    def solution(self) -> Vector:
        """By Newton's method, to the last digits."""
        x = self.start
        for _ in range(_NEWTON):
            gradient, share = self.gradient(x), self._share(x)
            if np.linalg.norm(gradient) <= _FLAT:
                return x
            curved = (self.rows.T * (share * (1 - share))) @ self.rows / len(self.rows)
            x = x - np.linalg.solve(curved + self.regularisation * np.eye(x.size), gradient)
        raise AssertionError("Newton's method did not settle")

    @cached_property
    def smoothness(self) -> float:
        """A quarter of the largest eigenvalue of the rows' second moment, and λ."""
        moment = self.rows.T @ self.rows / len(self.rows)
        return float(np.linalg.eigvalsh(moment)[-1]) / 4 + self.regularisation

    def gradient(self, x: Vector) -> Vector:
        return self.regularisation * x - self.rows.T @ self._share(x) / len(self.rows)

    def _share(self, x: Vector) -> Vector:
        """The chance that the model gives to the wrong label."""
        share: Vector = 1 / (1 + np.exp(self.rows @ x))
        return share


def breast_cancer() -> Vector:
    """569 rows of the ten mean features, each scaled to [-1, 1], times the label."""
    data = require("sklearn.datasets", "lab", package="scikit-learn").load_breast_cancer()
    features: Vector = np.asarray(data.data, np.float64)[:, :FEATURES]
    low, high = features.min(axis=0), features.max(axis=0)
    scaled = 2 * (features - low) / (high - low) - 1
    labels = np.where(np.asarray(data.target) > 0, 1.0, -1.0)
    return np.asarray(scaled * labels[:, None])
