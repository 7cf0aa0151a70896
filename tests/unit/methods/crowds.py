"""Clients that disagree, for tests: quadratics whose gradients do not vanish at the solution."""

from dataclasses import dataclass

import numpy as np

from fewbits.theory.step_sizes import Smoothness

CLIENTS, SIZE = 5, 24


@dataclass(frozen=True)
class Quadratics:
    """f_i(x) = 1/2 sum_j a_ij (x_j - b_ij)^2; every row is computed by itself."""

    curvature: np.ndarray
    centres: np.ndarray

    @classmethod
    def of(cls, clients: int = CLIENTS, size: int = SIZE, seed: int = 3) -> "Quadratics":
        rng = np.random.default_rng(seed)
        return cls(rng.uniform(0.5, 2, (clients, size)), 3 * rng.standard_normal((clients, size)))

    def gradient(self, client: int, x: np.ndarray) -> np.ndarray:
        return self.curvature[client] * (x - self.centres[client])

    @property
    def solution(self) -> np.ndarray:
        return (self.curvature * self.centres).sum(axis=0) / self.curvature.sum(axis=0)

    @property
    def smoothness(self) -> Smoothness:
        each = self.curvature.max(axis=1)
        whole = self.curvature.mean(axis=0).max()
        return Smoothness(float(whole), float(np.sqrt((each**2).mean())), float(each.max()))

    def distance(self, x: np.ndarray) -> float:
        """From the solution, in units of the start's."""
        return float(np.linalg.norm(x - self.solution) / np.linalg.norm(self.solution))
