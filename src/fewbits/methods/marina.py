r"""MARINA: compressed differences of successive gradients, and now and then full gradients.

$$ x^+ = x - \gamma G, \qquad G^+ = \begin{cases} \frac1n \sum_i \nabla f_i(x^+) & \text{with
   probability } p, \\ G + \frac1n \sum_i C_i(\nabla f_i(x^+) - \nabla f_i(x)) & \text{otherwise.}
   \end{cases} $$
Full gradients are frames of float32. They do not vanish at the solution, so their rounding leaves
an error of about $10^{-15}$ of the first one. Source: Gorbunov, Burlachenko, Li, Richtárik (2021).
"""

from dataclasses import dataclass, replace

from fewbits import registry
from fewbits.core.operator import Operator
from fewbits.methods.differences import IDENTITY, full_start
from fewbits.methods.messages import Vector, encode
from fewbits.methods.state import Clients, State, descend
from fewbits.rng import Rng
from fewbits.theory import step_sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Marina:
    """A client remembers its last gradient, the server its estimate."""

    clients: Clients
    operator: Operator
    probability: float
    step_size: float

    @classmethod
    def of(
        cls,
        clients: Clients,
        operator: str | Operator,
    ) -> "Marina":
        """With theory's probability and step."""
        chosen = registry.operator(operator)
        own = step_sizes.marina(
            clients.smoothness, clients.omega("marina", chosen), clients.fleet.clients
        )
        return cls(
            clients=clients, operator=chosen, probability=own.probability, step_size=own.step
        )

    def init(self, x: Vector) -> State:
        """Everybody sends the gradient at the start."""
        return full_start(self.clients, x, rows=1)

    def step(self, state: State, rng: Rng) -> State:
        """Down once, then up; the server's coin decides what goes up."""
        number = state.number
        state = descend(state, self.clients.fleet, state.server[0], self.step_size, IDENTITY, rng)
        full = _uniform(rng.fork(number, "coin")) < self.probability
        operator = IDENTITY if full else self.operator
        messages, memories = {}, {}
        for client in self.clients.fleet.own():
            gradient = self.clients.gradient(client, state.x)
            told = gradient if full else gradient - state.memories[client][0]
            messages[client] = encode(told, operator, rng.fork(number, client))
            memories[client] = gradient[None]
        gathered = self.clients.fleet.gather(messages, operator, state.x.size)
        mean = gathered.mean()[None]
        return replace(
            state,
            memories=memories,
            server=mean if full else state.server + mean,
            traffic=state.traffic + gathered.traffic,
        )


def _uniform(rng: Rng) -> float:
    return float(rng.words(0, 1)[0]) / 2**32
