r"""Logistic regression, for instance on the breast cancer data that come with scikit-learn.

$$ f(x) = \frac1m \sum_i \ln(1 + e^{-b_i \langle a_i, x \rangle}) + \frac\lambda2 \|x\|^2 $$
from $x = 0$. Features of the breast cancer data are scaled to $[-1, 1]$. Of the 30 the first ten
are means; the others are their deviations and extremes.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fewbits_lab.problems import datasets
from fewbits_lab.problems.descent import Float64Vector

FEATURES = 10
_NEWTON = 50  # steps, of which it takes about ten
_FLAT = 1e-13


@dataclass(frozen=True)
class Logistic:
    """Rows are the features of a sample times its label, -1 or 1; a sparse matrix will do."""

    rows: Any
    regularisation: float

    @property
    def start(self) -> Float64Vector:
        """The origin."""
        return np.zeros(self.rows.shape[1])

    @cached_property
    def solution(self) -> Float64Vector:
        """The solution by Newton's method, to the last digits."""
        x = self.start
        for _ in range(_NEWTON):
            gradient, share = self.gradient(x), self._share(x)
            if np.linalg.norm(gradient) <= _FLAT:
                return x
            curved = self._moment(np.sqrt(share * (1 - share)))
            x = x - np.linalg.solve(curved + self.regularisation * np.eye(x.size), gradient)
        raise AssertionError("Newton's method did not settle")

    @cached_property
    def smoothness(self) -> float:
        """A quarter of the largest eigenvalue of the rows' second moment, and λ."""
        moment = self._moment(np.ones(self.rows.shape[0]))
        return float(np.linalg.eigvalsh(moment)[-1]) / 4 + self.regularisation

    def value(self, x: Float64Vector) -> float:
        """The function itself."""
        losses = np.logaddexp(0, -self.rows @ x)
        return float(losses.mean() + self.regularisation / 2 * (x @ x))

    def gradient(self, x: Float64Vector) -> Float64Vector:
        return np.asarray(
            self.regularisation * x - self.rows.T @ self._share(x) / self.rows.shape[0]
        )

    def _moment(self, weights: Float64Vector) -> Float64Vector:
        """The second moment of the rows times their weights."""
        sparse = hasattr(self.rows, "multiply")
        times = self.rows.multiply if sparse else self.rows.__mul__
        own = times(weights[:, None])
        moment = own.T @ own
        dense: Float64Vector = np.asarray(moment.toarray() if sparse else moment)
        return dense / float(self.rows.shape[0])

    def _share(self, x: Float64Vector) -> Float64Vector:
        """The chance that the model gives to the wrong label."""
        share: Float64Vector = 1 / (1 + np.exp(self.rows @ x))
        return share


def breast_cancer(features: int = FEATURES) -> Float64Vector:
    """569 rows of the first features, by default the ten means, times the label."""
    samples = datasets.breast_cancer(features)
    return np.asarray(samples.features * samples.targets[:, None])
