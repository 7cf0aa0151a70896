r"""Logistic regression on workers that have little in common: samples sorted by label, in parts.

$f = \frac1n \sum_i f_i$, and $\lambda$ makes the condition $(L_0 + \lambda) / \lambda$ a given
number, where $L_0$ is the constant of smoothness without $\lambda$.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fewbits.theory.step_sizes import Smoothness
from fewbits_lab.problems.datasets import LabelledSet
from fewbits_lab.problems.descent import Float64Vector
from fewbits_lab.problems.logistic import Logistic

CONDITION = 101.0


@dataclass(frozen=True)
class Workers:
    """The whole function and each worker's."""

    whole: Logistic
    parts: tuple[Logistic, ...]

    @classmethod
    def sorted_by_label(
        cls, samples: LabelledSet, workers: int, condition: float = CONDITION
    ) -> "Workers":
        """Equal parts, so that the mean is that of all samples; a few at the end are left out."""
        order = np.argsort(samples.targets, kind="stable")
        rows = (samples.features * samples.targets[:, None])[order]
        each = len(rows) // workers
        rows = rows[: each * workers]
        regularisation = Logistic(rows, 0.0).smoothness / (condition - 1)
        cut = (rows[each * part : each * (part + 1)] for part in range(workers))
        return cls(
            Logistic(rows, regularisation),
            tuple(Logistic(part, regularisation) for part in cut),
        )

    @cached_property
    def smoothness(self) -> Smoothness:
        """The constants of the whole function and of the workers'."""
        each = np.array([part.smoothness for part in self.parts])
        square = float(np.sqrt(np.mean(each**2)))
        return Smoothness(self.whole.smoothness, square, float(each.max()))

    @cached_property
    def _ends(self) -> tuple[float, float]:
        return self.whole.value(self.whole.start), self.whole.value(self.whole.solution)

    def gradient(self, worker: int, x: Float64Vector) -> Float64Vector:
        """The gradient of one worker's function."""
        return self.parts[worker].gradient(x)

    def excess(self, x: Float64Vector) -> float:
        """(f(x) - f*) / (f(0) - f*)."""
        first, least = self._ends
        return (self.whole.value(x) - least) / (first - least)
