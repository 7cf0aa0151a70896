r"""DASHA: compressed differences of successive gradients, corrected by a momentum, never full ones.

$$ x^+ = x - \gamma G, \qquad m_i = C_i\bigl(\nabla f_i(x^+) - \nabla f_i(x) - a (G_i -
   \nabla f_i(x))\bigr), \qquad G_i^+ = G_i + m_i, \qquad G^+ = G + \frac1n \sum_i m_i $$
Everybody sends the first gradient in full. Source: Tyurin, Richtárik (2022).
"""

from dataclasses import dataclass, replace

import numpy as np

from fewbits import registry
from fewbits.core.operator import Operator
from fewbits.methods.differences import IDENTITY, full_start
from fewbits.methods.fleet import Fleet
from fewbits.methods.messages import Vector, encode
from fewbits.methods.state import Gradient, State, descend, unbiased
from fewbits.rng import Rng
from fewbits.theory import step_sizes
from fewbits.theory.step_sizes import Smoothness


@dataclass(frozen=True, slots=True, kw_only=True)
class Dasha:
    """A client remembers its last gradient and what the server has of it."""

    fleet: Fleet
    gradient: Gradient
    operator: Operator
    momentum: float
    step_size: float

    @classmethod
    def of(
        cls,
        fleet: Fleet,
        gradient: Gradient,
        operator: str | Operator,
        smoothness: Smoothness,
        d: int,
    ) -> "Dasha":
        """With theory's momentum and step."""
        chosen = registry.operator(operator)
        own = step_sizes.dasha(smoothness, unbiased("dasha", chosen, d), fleet.clients)
        return cls(
            fleet=fleet,
            gradient=gradient,
            operator=chosen,
            momentum=own.momentum,
            step_size=own.step,
        )

    def init(self, x: Vector) -> State:
        """Everybody sends the gradient at the start."""
        return full_start(self.fleet, self.gradient, x, rows=2)

    def step(self, state: State, rng: Rng) -> State:
        """Down once, then up."""
        number = state.number
        state = descend(state, self.fleet, state.server[0], self.step_size, IDENTITY, rng)
        messages, memories = {}, {}
        for client in self.fleet.own():
            before, known = state.memories[client]
            gradient = self.gradient(client, state.x)
            change = gradient - before - self.momentum * (known - before)
            messages[client] = encode(change, self.operator, rng.fork(number, client))
            memories[client] = np.stack([gradient, known + messages[client].value])
        gathered = self.fleet.gather(messages, self.operator, state.x.size)
        return replace(
            state,
            memories=memories,
            server=state.server + gathered.mean(),
            traffic=state.traffic + gathered.traffic,
        )
