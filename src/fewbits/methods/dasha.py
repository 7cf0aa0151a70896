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
from fewbits.methods.messages import Vector, encode
from fewbits.methods.state import Clients, State, descend
from fewbits.rng import Rng
from fewbits.theory import step_sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Dasha:
    """A client remembers its last gradient and what the server has of it."""

    clients: Clients
    operator: Operator
    momentum: float
    step_size: float

    @classmethod
    def of(
        cls,
        clients: Clients,
        operator: str | Operator,
    ) -> "Dasha":
        """With theory's momentum and step."""
        chosen = registry.operator(operator)
        own = step_sizes.dasha(
            clients.smoothness, clients.omega("dasha", chosen), clients.fleet.clients
        )
        return cls(clients=clients, operator=chosen, momentum=own.momentum, step_size=own.step)

    def init(self, x: Vector) -> State:
        """Everybody sends the gradient at the start."""
        return full_start(self.clients, x, rows=2)

    def step(self, state: State, rng: Rng) -> State:
        """Down once, then up."""
        number = state.number
        state = descend(state, self.clients.fleet, state.server[0], self.step_size, IDENTITY, rng)
        messages, memories = {}, {}
        for client in self.clients.fleet.own():
            before, known = state.memories[client]
            gradient = self.clients.gradient(client, state.x)
            change = gradient - before - self.momentum * (known - before)
            messages[client] = encode(change, self.operator, rng.fork(number, client))
            memories[client] = np.stack([gradient, known + messages[client].value])
        gathered = self.clients.fleet.gather(messages, self.operator, state.x.size)
        return replace(
            state,
            memories=memories,
            server=state.server + gathered.mean(),
            traffic=state.traffic + gathered.traffic,
        )
