r"""MARINA: compressed differences of successive gradients, and full gradients at random times.

$$ x^+ = x - \gamma G, \qquad G^+ = \begin{cases} \frac1n \sum_i \nabla f_i(x^+) & \text{with
   probability } p, \\ G + \frac1n \sum_i C_i(\nabla f_i(x^+) - \nabla f_i(x)) & \text{otherwise.}
   \end{cases} $$
Full gradients are frames of float32. They do not vanish at the solution, so their rounding leaves
an error of about $10^{-15}$ of the first one. Source: Gorbunov, Burlachenko, Li, Richtárik (2021).
"""

from dataclasses import dataclass

from fewbits import registry
from fewbits.core.operator import Operator
from fewbits.methods.differences import Differences
from fewbits.methods.messages import RealVector
from fewbits.methods.state import Clients, State
from fewbits.rng import Rng
from fewbits.theory import step_sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Marina(Differences):
    """A client remembers its last gradient, the server its estimate."""

    probability: float

    @classmethod
    def of(cls, clients: Clients, operator: str | Operator) -> "Marina":
        """The method with theory's probability and step."""
        chosen = registry.operator(operator)
        omega = clients.omega("marina", chosen)
        own = step_sizes.marina(clients.smoothness, omega, clients.fleet.clients)
        chance, step = own.probability, own.step
        return cls(clients=clients, operator=chosen, probability=chance, step_size=step)

    def init(self, x: RealVector) -> State:
        return self.full_start(x, rows=1)

    def step(self, state: State, rng: Rng) -> State:
        """One round; the server's coin decides whether clients send full gradients."""
        full = _uniform(rng.fork(state.number, "coin")) < self.probability
        return self.round(
            state,
            rng,
            lambda gradient, memory: gradient if full else gradient - memory[0],
            lambda gradient, *_: gradient[None],
            full=full,
        )


def _uniform(rng: Rng) -> float:
    return float(rng.words(0, 1)[0]) / 2**32
