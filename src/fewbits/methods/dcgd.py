r"""Distributed compressed gradient descent, one way or both.

$$ x^+ = x - \gamma\, C_M\Bigl(\frac1n \sum_i C_i(\nabla f_i(x))\Bigr) $$
With clients whose gradients do not vanish at the solution it stops in a neighbourhood of it.
Source: Khirirat, Feyzmahdavian, Johansson (2018); both ways: Horváth et al. (2022), Algorithm 1.
"""

from dataclasses import dataclass, replace

from fewbits import registry
from fewbits.core.operator import Operator
from fewbits.methods.messages import Vector, encode
from fewbits.methods.state import Clients, State, descend
from fewbits.rng import Rng
from fewbits.theory import step_sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Dcgd:
    """Clients send compressed gradients, the server their mean, compressed by `master`."""

    clients: Clients
    operator: Operator
    master: Operator
    step_size: float

    @classmethod
    def of(
        cls,
        clients: Clients,
        operator: str | Operator,
        *,
        master: str | Operator = "identity",
    ) -> "Dcgd":
        """With the longest step that theory allows for convex functions."""
        chosen, back = registry.operator(operator), registry.operator(master)
        step = step_sizes.dcgd(
            clients.smoothness,
            clients.omega("dcgd", chosen),
            clients.fleet.clients,
            clients.omega("dcgd", back),
        )
        return cls(clients=clients, operator=chosen, master=back, step_size=step)

    def init(self, x: Vector) -> State:
        """Only the point."""
        return State(x)

    def step(self, state: State, rng: Rng) -> State:
        """Up and down once."""
        messages = {}
        for client in self.clients.fleet.own():
            gradient = self.clients.gradient(client, state.x)
            messages[client] = encode(gradient, self.operator, rng.fork(state.number, client))
        gathered = self.clients.fleet.gather(messages, self.operator, state.x.size)
        state = replace(state, traffic=state.traffic + gathered.traffic)
        return descend(state, self.clients.fleet, gathered.mean(), self.step_size, self.master, rng)
