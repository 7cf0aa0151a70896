"""Operators that only change the float format."""

from dataclasses import dataclass
from typing import ClassVar

from fewbits.backend.kernel import Kernel, Kind
from fewbits.core.guarantee import Guarantee
from fewbits.core.operator import Operator
from fewbits.reference.formats import FLOAT32, Format
from fewbits.wire.sections import Floats, Section


@dataclass(frozen=True, slots=True)
class Cast(Operator):
    """Round to the nearest value of `target`, ties to even."""

    target: ClassVar[Format]

    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        return (Floats("values", d, self.target),)

    def kernel(self, d: int, format: Format) -> Kernel:
        return Kernel(Kind.CAST, self.target.code)

    def guarantee(self, d: int, format: Format = FLOAT32) -> Guarantee:
        bits = self.max_frame_bits(d, format)
        if self.target.holds(format):
            return Guarantee(omega=0.0, bits=bits)
        # Half a unit in the last place, relative to the value.
        relative = 2.0 ** -(self.target.mantissa + 1)
        low = max(self.target.smallest_normal, format.smallest_normal)
        return Guarantee(
            alpha=relative**2, sure=True, bits=bits, low=low, high=self.target.largest_value
        )
