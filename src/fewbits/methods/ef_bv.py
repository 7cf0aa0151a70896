r"""EF-BV: clients send compressed differences from shifts that the server knows too.

$$ d_i = C(\nabla f_i(x) - h_i), \quad G = h + \nu \frac1n \sum_i d_i, \quad
   h_i^+ = h_i + \lambda d_i, \quad h^+ = h + \lambda \frac1n \sum_i d_i, \quad
   x^+ = x - \gamma G $$
EF21 ($\lambda = \nu = 1$, contractive operators) and DIANA ($\lambda = 1 / (1 + \omega)$,
$\nu = 1$, unbiased ones) are special cases. Shifts converge to the clients' gradients at the
solution, so the compressed differences vanish, and so does the error. Source: Condat, Yi, Richtárik
(2022).
"""

from dataclasses import dataclass

from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.methods.remembering import Remembering, sender_of
from fewbits.methods.state import Clients
from fewbits.theory import step_sizes

KINDS = ("ef-bv", "ef21", "diana")


@dataclass(frozen=True, slots=True, kw_only=True)
class EfBv(Remembering):
    """Gradient descent with the shifts of `feedback.EFBV`, `EF21` or `Diana`."""

    @classmethod
    def of(cls, clients: Clients, operator: str | Operator, *, kind: str = "ef-bv") -> "EfBv":
        """The method with theory's step for a linear rate, or for convex functions with DIANA."""
        if kind not in KINDS:
            raise SpecError(f"kind must be {', '.join(KINDS)}, got {kind!r}")
        sender = sender_of(kind, clients, operator)
        return cls(clients=clients, sender=sender, step_size=_step(kind, clients, sender.operator))


def _step(kind: str, clients: Clients, operator: Operator) -> float:
    smoothness, number = clients.smoothness, clients.fleet.clients
    if kind == "diana":
        return step_sizes.diana(smoothness, clients.omega(kind, operator), number).step
    omega = operator.guarantee(clients.d).omega
    if kind == "ef21" or omega is None:
        return step_sizes.ef21(smoothness, clients.alpha(operator), linear=True)
    return step_sizes.ef_bv(smoothness, 0.0, omega, omega / number, linear=True).step
