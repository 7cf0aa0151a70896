r"""Identity: sends every value unchanged.

$$ C(x) = x, \qquad \omega = 0 . $$

It is the baseline without loss and without savings. Tensors that are too small to be worth
compressing travel this way. Bits are kept exactly: −0, subnormal numbers and, with
`nonfinite="carry"`, infinities and the payloads of NaN.
"""

from dataclasses import dataclass
from typing import ClassVar

from fewbits.backend.kernel import Kernel, Kind
from fewbits.core.guarantee import Guarantee
from fewbits.core.operator import Operator
from fewbits.reference.formats import FLOAT32, Format
from fewbits.wire.sections import Floats, Section


@dataclass(frozen=True, slots=True)
class Identity(Operator):
    """Send every value unchanged."""

    name: ClassVar[str] = "identity"
    code: ClassVar[int] = 1
    formula: ClassVar[str] = "ω = 0"

    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        return (Floats("values", d, format),)

    def kernel(self, d: int, format: Format) -> Kernel:
        return Kernel(Kind.CAST, format.code)

    def guarantee(self, d: int, format: Format = FLOAT32) -> Guarantee:
        return Guarantee(omega=0.0, bits=self.max_frame_bits(d, format))
