r"""Scale: divide by $1 + \omega$, which turns an unbiased operator into a contractive one.

This is a stage and stands before an operator: `scale|natural`. With $c = 1 / (1 + w)$, where $w$ is
the parameter `omega`, the operator $C$ gets $c\,x$, and its result is the decoded vector:
$$ y = C(c\, x) . $$
If $C \in U(\omega)$, that is $E\,C(x) = x$ and $E\|C(x) - x\|^2 \le \omega \|x\|^2$, then
$$ E\|y - x\|^2 \le \bigl( c^2 \omega + (1 - c)^2 \bigr) \|x\|^2 , $$
which is least at $w = \omega$ and is $\omega / (1 + \omega)$ there: $y \in B(\omega/(1+\omega))$.
So every unbiased operator, however large its $\omega$, has a contractive form for error feedback,
which needs $\alpha < 1$. The bound is reached where the operator's own is; before `natural` at
$|x_i| = (1 + w) \tfrac43 2^a$. The default, $w = \tfrac18$, is that of `natural`: $\alpha =
\tfrac19$. For another operator give its $\omega$, which `fewbits bounds` prints, as in
`scale:omega=8|rand-k:fraction=0.125|natural`, which has $\alpha = \tfrac89$. Before a contractive
operator the error is at most $(c \sqrt\alpha + 1 - c)^2 \|x\|^2$.

The paper divides the *result*, $C(x) / (1 + \omega)$; the proof and the bound are the same. Values
are divided before the operator sees them, so `natural` still gives powers of two, and a decoder has
nothing to do. The result is biased: do not average it over workers without error feedback.

Ends of the range. The product is rounded once to the vector's format, which counts in the stated
$\alpha$. Values that are NaN or infinite stay so.

Reference: Albasyoni et al., *Optimal Gradient Compression for Distributed and Federated Learning*
(2020), classes U, B and C.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from fewbits.backend.kernel import Kernel, Kind
from fewbits.core import parameters
from fewbits.core.guarantee import Guarantee
from fewbits.core.stage import Stage
from fewbits.errors import SpecError
from fewbits.reference.formats import Format
from fewbits.wire.sections import Section


@dataclass(frozen=True, slots=True)
class ScaleDown(Stage):
    """Divide by 1 + ω, so that an unbiased operator becomes contractive."""

    name: ClassVar[str] = "scale"
    code: ClassVar[int] = 13
    formula: ClassVar[str] = "α = ω/(1 + ω)"

    omega: float = 0.125

    def __post_init__(self) -> None:
        Stage.__post_init__(self)
        if not 0 <= self.omega < math.inf or math.copysign(1, self.omega) < 0:  # nor -0
            raise SpecError(f"omega must be a number from 0 on, got {self.omega}")

    def reduced(self, d: int) -> int:
        return d

    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        return ()

    def kernel(self, d: int) -> Kernel:
        return Kernel(Kind.SCALE, 0, (1 + self.omega,))

    def guarantee(self, d: int, format: Format, inner: Guarantee) -> Guarantee:
        parameters.check_count(d)
        unit = 2.0 ** -(format.mantissa + 1) if self.omega else 0.0
        kept = (1 + unit) / (1 + self.omega)
        lost = 1 - (1 - unit) / (1 + self.omega)
        if inner.omega is not None:
            alpha, sure = kept**2 * inner.omega + lost**2, inner.omega == 0
        else:
            alpha, sure = (kept * math.sqrt(inner.error) + lost) ** 2, inner.sure
        low = max(inner.low, format.smallest_normal) * (1 + self.omega) / (1 - unit)
        return replace(
            inner, omega=None, alpha=alpha, sure=sure, low=low, high=inner.high * (1 + self.omega)
        )
