r"""Distributed compressed gradient descent, in one direction or both.

$$ x^+ = x - \gamma\, C_M\Bigl(\frac1n \sum_i C_i(\nabla f_i(x))\Bigr) $$
If the clients' gradients do not vanish at the solution, it stops in a neighbourhood of it. Sources:
Khirirat, Feyzmahdavian, Johansson (2018); both directions: Horváth et al. (2022), Algorithm 1.
"""

import warnings
from dataclasses import dataclass, replace

from fewbits import registry
from fewbits.core.operator import Operator
from fewbits.methods.messages import RealVector, encode
from fewbits.methods.state import Clients, State, descend
from fewbits.rng import Rng
from fewbits.theory import step_sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Dcgd:
    """Clients send compressed gradients, the server their mean, compressed by `downlink`."""

    clients: Clients
    operator: Operator
    downlink: Operator
    step_size: float

    @classmethod
    def of(
        cls,
        clients: Clients,
        operator: str | Operator,
        *,
        downlink: str | Operator = "identity",
        master: str | Operator | None = None,
    ) -> "Dcgd":
        """The method with the longest step that theory allows for convex functions.

        `master` is the old name of `downlink`.
        """
        if master is not None:
            warnings.warn("master= is called downlink= now", DeprecationWarning, stacklevel=2)
            downlink = master
        chosen, back = registry.operator(operator), registry.operator(downlink)
        step = step_sizes.dcgd(
            clients.smoothness,
            clients.omega("dcgd", chosen),
            clients.fleet.clients,
            clients.omega("dcgd", back),
        )
        return cls(clients=clients, operator=chosen, downlink=back, step_size=step)

    def init(self, x: RealVector) -> State:
        return State(x)

    def step(self, state: State, rng: Rng) -> State:
        messages = {}
        for client in self.clients.fleet.own():
            gradient = self.clients.gradient(client, state.x)
            messages[client] = encode(gradient, self.operator, rng.fork(state.number, client))
        gathered = self.clients.fleet.gather(messages, self.operator, state.x.size)
        state = replace(state, traffic=state.traffic + gathered.traffic)
        return descend(
            state, self.clients.fleet, gathered.mean(), self.step_size, self.downlink, rng
        )
