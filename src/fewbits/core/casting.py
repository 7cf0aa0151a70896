"""What the operators that only change the float format have in common."""

from dataclasses import dataclass
from typing import ClassVar

from fewbits.core.guarantee import Guarantee
from fewbits.core.operator import Operator, Parts
from fewbits.core.vector import Vector
from fewbits.kernels import native
from fewbits.kernels.formats import FLOAT32, Format
from fewbits.kernels.native import Tally
from fewbits.rng import Rng
from fewbits.wire.sections import Floats, Section


@dataclass(frozen=True, slots=True)
class Cast(Operator):
    """Round to the nearest value of `target`, ties to even."""

    target: ClassVar[Format]

    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        return (Floats("values", d, self.target),)

    def encode(self, x: Vector, rng: Rng, into: Parts, *, threads: int = 1) -> Tally:
        (values,) = into
        return native.cast(
            x.bits, x.format, self.target, native.as_bits(values, self.target), threads=threads
        )

    def decode(self, parts: Parts, out: Vector, *, threads: int = 1) -> Tally:
        (values,) = parts
        return native.cast(
            native.as_bits(values, self.target), self.target, out.format, out.bits, threads=threads
        )

    def native(self, format: Format) -> tuple[int, int]:
        return native.CAST, self.target.code

    def guarantee(self, d: int, format: Format = FLOAT32) -> Guarantee:
        bits = self.most_bits(d, format)
        exact = format.exponent <= self.target.exponent and format.mantissa <= self.target.mantissa
        if exact:
            return Guarantee(omega=0.0, bits=bits)
        # Half a unit in the last place, relative to the value.
        relative = 2.0 ** -(self.target.mantissa + 1)
        largest = (2.0 - 2.0**-self.target.mantissa) * self.target.largest_power_value
        low = max(self.target.smallest_normal, format.smallest_normal)
        return Guarantee(alpha=relative**2, sure=True, bits=bits, low=low, high=largest)
