r"""Identity: every value as it is.

$$ C(x) = x, \qquad \omega = 0 . $$

The baseline that loses nothing and saves nothing; also how tensors travel that are too small to be
worth compressing. Bits are kept exactly: −0, subnormal numbers and, with `nonfinite="carry"`,
infinities and the payloads of NaN.
"""

from dataclasses import dataclass
from typing import ClassVar

from fewbits.core.guarantee import Guarantee
from fewbits.core.operator import Operator, Parts, Written
from fewbits.core.vector import Vector
from fewbits.kernels import native, units
from fewbits.kernels.formats import FLOAT32, Format
from fewbits.kernels.units import Tally
from fewbits.rng import Rng
from fewbits.wire.sections import Floats, Section


@dataclass(frozen=True, slots=True)
class Identity(Operator):
    """Every value as it is."""

    name: ClassVar[str] = "identity"
    code: ClassVar[int] = 1

    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        return (Floats("values", d, format),)

    def encode(self, x: Vector, rng: Rng, into: Parts, *, threads: int = 1) -> Written:
        (values,) = into
        target = native.as_bits(values, x.format)
        return Written.full(native.cast(x.bits, x.format, x.format, target, threads=threads), into)

    def decode(self, parts: Parts, out: Vector, *, threads: int = 1) -> Tally:
        (values,) = parts
        return native.cast(
            native.as_bits(values, out.format), out.format, out.format, out.bits, threads=threads
        )

    def native(self, format: Format) -> tuple[int, int]:
        return units.CAST, format.code

    def guarantee(self, d: int, format: Format = FLOAT32) -> Guarantee:
        return Guarantee(omega=0.0, bits=self.most_bits(d, format))
