r"""Error feedback: what was not sent is added to the next gradient.

$$ c_i = C(e_i + \nabla f_i(x)), \qquad e_i^+ = e_i + \nabla f_i(x) - c_i, \qquad
   x^+ = x - \gamma \frac1n \sum_i c_i $$
The memory holds gradients and not steps, which is the same for a constant $\gamma$. Source: Seide
et al. (2014), Karimireddy et al. (2019).
"""

from dataclasses import dataclass

import numpy as np

from fewbits.core.operator import Operator
from fewbits.feedback import Sender
from fewbits.methods.fleet import Fleet
from fewbits.methods.remembering import Remembering
from fewbits.methods.state import Gradient, contraction
from fewbits.theory import step_sizes
from fewbits.theory.step_sizes import Smoothness


@dataclass(frozen=True, slots=True, kw_only=True)
class Ef14(Remembering):
    """With `feedback.EF14`'s memory."""

    @classmethod
    def of(
        cls,
        fleet: Fleet,
        gradient: Gradient,
        operator: str | Operator,
        smoothness: Smoothness,
        d: int,
        *,
        growth: float = 1.0,
    ) -> "Ef14":
        """With theory's step; `growth` is how much larger clients' gradients are than the mean's.

        Where gradients do not vanish at the solution no growth is enough, and the step is a guess.
        """
        sender = Sender.of("ef14", operator, d=d, senders=fleet.clients, precision=np.float64)
        step = step_sizes.ef14(smoothness, contraction(sender.operator, d), growth)
        return cls(fleet=fleet, gradient=gradient, sender=sender, step_size=step)
