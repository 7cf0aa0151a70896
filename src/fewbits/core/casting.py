"""What the operators that only change the float format have in common."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fewbits.core.guarantee import Guarantee
from fewbits.core.operator import Operator, Parts, Written
from fewbits.core.vector import Vector
from fewbits.errors import DecodeError
from fewbits.kernels import native, units
from fewbits.kernels.formats import FLOAT32, Format
from fewbits.kernels.units import Tally
from fewbits.rng import Rng
from fewbits.wire.sections import Floats, Section


@dataclass(frozen=True, slots=True)
class Cast(Operator):
    """Round to the nearest value of `target`, ties to even."""

    target: ClassVar[Format]

    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        return (Floats("values", d, self.target),)

    def encode(self, x: Vector, rng: Rng, into: Parts, *, threads: int = 1) -> Written:
        (values,) = into
        target = native.as_bits(values, self.target)
        return Written.full(
            native.cast(x.bits, x.format, self.target, target, threads=threads), into
        )

    def decode(self, parts: Parts, out: Vector, *, threads: int = 1) -> Tally:
        (values,) = parts
        sent = native.as_bits(values, self.target)
        tally = native.cast(sent, self.target, out.format, out.bits, threads=threads)
        if tally.nonfinite or not _holds(out.format, self.target):
            # Only what encode writes: no other NaN, no value that the vector's format lacks.
            again = np.empty_like(sent)
            native.cast(out.bits, out.format, self.target, again, threads=threads)
            if not np.array_equal(again, sent):
                raise DecodeError(
                    f"section 'values' holds a value that {self.name} cannot have written"
                )
        return tally

    def native(self, format: Format) -> tuple[int, int]:
        return units.CAST, self.target.code

    def guarantee(self, d: int, format: Format = FLOAT32) -> Guarantee:
        bits = self.most_bits(d, format)
        if _holds(self.target, format):
            return Guarantee(omega=0.0, bits=bits)
        # Half a unit in the last place, relative to the value.
        relative = 2.0 ** -(self.target.mantissa + 1)
        low = max(self.target.smallest_normal, format.smallest_normal)
        return Guarantee(
            alpha=relative**2, sure=True, bits=bits, low=low, high=self.target.largest_value
        )


def _holds(wide: Format, narrow: Format) -> bool:
    """Whether every finite value of `narrow` is a value of `wide`."""
    return narrow.exponent <= wide.exponent and narrow.mantissa <= wide.mantissa
