r"""Error feedback: adds the error of each message to the next gradient.

$$ c_i = C(e_i + \nabla f_i(x)), \qquad e_i^+ = e_i + \nabla f_i(x) - c_i, \qquad
   x^+ = x - \gamma \frac1n \sum_i c_i $$
The memory holds gradients and not steps, which is the same for a constant $\gamma$. Source: Seide
et al. (2014), Karimireddy et al. (2019).
"""

from dataclasses import dataclass

from fewbits.core.operator import Operator
from fewbits.methods.remembering import Remembering, sender_of
from fewbits.methods.state import Clients
from fewbits.theory import step_sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ef14(Remembering):
    """Error feedback with the memory of `feedback.EF14`."""

    @classmethod
    def of(cls, clients: Clients, operator: str | Operator, *, growth: float = 1.0) -> "Ef14":
        """The method with theory's step; `growth` is $G$ of `step_sizes.ef14`.

        If gradients do not vanish at the solution no growth is enough, and the step is a guess.
        """
        sender = sender_of("ef14", clients, operator)
        step = step_sizes.ef14(clients.smoothness, clients.alpha(sender.operator), growth)
        return cls(clients=clients, sender=sender, step_size=step)
