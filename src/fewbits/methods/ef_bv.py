r"""EF-BV: clients send compressed differences from shifts that the server knows too.

$$ d_i = C(\nabla f_i(x) - h_i), \quad G = h + \nu \frac1n \sum_i d_i, \quad
   h_i^+ = h_i + \lambda d_i, \quad h^+ = h + \lambda \frac1n \sum_i d_i, \quad
   x^+ = x - \gamma G $$
EF21 ($\lambda = \nu = 1$, contractive operators) and DIANA ($\lambda = 1 / (1 + \omega)$,
$\nu = 1$, unbiased ones) are special cases. Shifts come to the clients' gradients at the solution,
so what is compressed vanishes, and so does the error. Source: Condat, Yi, Richtárik (2022).
"""

from dataclasses import dataclass

import numpy as np

from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.feedback import Sender
from fewbits.methods.fleet import Fleet
from fewbits.methods.remembering import Remembering
from fewbits.methods.state import Gradient, contraction, unbiased
from fewbits.theory import step_sizes
from fewbits.theory.step_sizes import Smoothness

KINDS = ("ef-bv", "ef21", "diana")


@dataclass(frozen=True, slots=True, kw_only=True)
class EfBv(Remembering):
    """With the shifts of `feedback.EFBV`, `EF21` or `Diana`."""

    @classmethod
    def of(
        cls,
        fleet: Fleet,
        gradient: Gradient,
        operator: str | Operator,
        smoothness: Smoothness,
        d: int,
        *,
        kind: str = "ef-bv",
    ) -> "EfBv":
        """With theory's step: for a linear rate, and for DIANA that for convex functions."""
        if kind not in KINDS:
            raise SpecError(f"kind must be {', '.join(KINDS)}, got {kind!r}")
        sender = Sender.of(kind, operator, d=d, senders=fleet.clients, precision=np.float64)
        step = _step(kind, sender.operator, smoothness, d, fleet.clients)
        return cls(fleet=fleet, gradient=gradient, sender=sender, step_size=step)


def _step(kind: str, operator: Operator, smoothness: Smoothness, d: int, clients: int) -> float:
    if kind == "diana":
        return step_sizes.diana(smoothness, unbiased(kind, operator, d), clients).step
    omega = operator.guarantee(d).omega
    if kind == "ef21" or omega is None:
        return step_sizes.ef21(smoothness, contraction(operator, d), linear=True)
    return step_sizes.ef_bv(smoothness, 0.0, omega, omega / clients, linear=True).step
