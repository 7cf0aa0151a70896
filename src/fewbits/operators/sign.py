r"""Sign: every value becomes plus or minus the mean magnitude of its block.

$$ C(x)_i = a \operatorname{sign}(x_i), \qquad a = \frac{\|x\|_1}{k}, \qquad
   k = \#\{i : x_i \ne 0\}, \qquad \|C(x) - x\|^2 = \|x\|^2 - \frac{\|x\|_1^2}{k}
   \le \Bigl(1 - \frac1k\Bigr) \|x\|^2 $$
surely, with $k \le d$ for a block of $d$ values (`block`, 0 for the whole vector). $a$ is the best
factor for these signs: the projection of $x$ on them. The bound is tight if one value is far larger
than all others, which are not 0. The operator is deterministic, so it is biased: use it with error
feedback. On Gaussian vectors the error is $1 - 2/\pi = 0.363$ at one bit, without feedback.

The signs are one entropy-coded section of the codes 0, 1 and NaN. If no value is 0 or NaN, a block
of 65,536 costs 6 bytes beside one bit a value. Zeros stay 0, cost the entropy of their places and
take no sign. $a$ travels as the nearest value of the vector's format, which costs at most
$4^{-m-1}$ of $\|x\|_1^2 / k$ for an $m$-bit mantissa, and is kept within the smallest and the
largest magnitude. With `nonfinite="carry"`, NaN and the infinities decode to NaN, and $a$ is that
of the others.

References: Bernstein et al., *signSGD* (2018); Karimireddy et al., *Error Feedback Fixes SignSGD*
(2019), who have $1 - \|x\|_1^2 / (d \|x\|^2)$.
"""

from dataclasses import dataclass
from typing import ClassVar

from fewbits.backend.kernel import Kernel, Kind
from fewbits.core.guarantee import Guarantee
from fewbits.core.operator import Operator
from fewbits.families import blocks
from fewbits.reference.blocks import Blocks
from fewbits.reference.formats import FLOAT32, Format
from fewbits.reference.sign import BOUND
from fewbits.wire.sections import Coded, Floats, Section


@dataclass(frozen=True, slots=True)
class Sign(Operator):
    """Replace values by their signs times the mean magnitude."""

    name: ClassVar[str] = "sign"
    code: ClassVar[int] = 9
    formula: ClassVar[str] = "α = 1 − 1/d"

    block: int = 0

    def __post_init__(self) -> None:
        Operator.__post_init__(self)
        blocks.check(self.block)

    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        number = Blocks.of(d, self.block).number
        return Floats("scales", number, format), Coded("codes", d, bound=BOUND, signed=True)

    def kernel(self, d: int, format: Format) -> Kernel:
        return Kernel(Kind.SIGN, 0, (self.block,))

    def guarantee(self, d: int, format: Format = FLOAT32) -> Guarantee:
        bits, low = self.max_frame_bits(d, format), format.smallest_normal
        together = max(min(self.block or d, d), 1)
        rounding = max(2.0 ** -(format.mantissa + 1), 2.0**-40) ** 2
        alpha = 1 - (1 - rounding) / together
        return Guarantee(alpha=alpha, sure=True, bits=bits, low=low)
