r"""DASHA: compressed differences of successive gradients, corrected by a momentum, never full ones.

$$ x^+ = x - \gamma G, \qquad m_i = C_i\bigl(\nabla f_i(x^+) - \nabla f_i(x) - a (G_i -
   \nabla f_i(x))\bigr), \qquad G_i^+ = G_i + m_i, \qquad G^+ = G + \frac1n \sum_i m_i $$
Everybody sends the first gradient in full. Source: Tyurin, Richtárik (2022).
"""

from dataclasses import dataclass

import numpy as np

from fewbits import registry
from fewbits.core.operator import Operator
from fewbits.feedback.rule import Array
from fewbits.methods.differences import Differences
from fewbits.methods.messages import RealVector
from fewbits.methods.state import Clients, State
from fewbits.rng import Rng
from fewbits.theory import step_sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Dasha(Differences):
    """A client remembers its last gradient and the server's estimate of it."""

    momentum: float

    @classmethod
    def of(cls, clients: Clients, operator: str | Operator) -> "Dasha":
        """The method with theory's momentum and step."""
        chosen = registry.operator(operator)
        omega = clients.omega("dasha", chosen)
        own = step_sizes.dasha(clients.smoothness, omega, clients.fleet.clients)
        return cls(clients=clients, operator=chosen, momentum=own.momentum, step_size=own.step)

    def init(self, x: RealVector) -> State:
        return self.full_start(x, rows=2)

    def step(self, state: State, rng: Rng) -> State:
        return self.round(state, rng, self._told, _kept)

    def _told(self, gradient: RealVector, memory: Array) -> RealVector:
        before, known = memory
        told: RealVector = gradient - before - self.momentum * (known - before)
        return told


def _kept(gradient: RealVector, memory: Array, sent: RealVector) -> Array:
    return np.stack([gradient, memory[1] + sent])
