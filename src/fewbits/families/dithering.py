"""The common part of the dithering operators: a norm for each block, and levels below it."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from fewbits.backend.kernel import Kernel, Kind
from fewbits.core import parameters
from fewbits.core.guarantee import Guarantee
from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.families import blocks
from fewbits.reference.blocks import Blocks
from fewbits.reference.dithering import Levels
from fewbits.reference.formats import FLOAT32, Format
from fewbits.wire.sections import Coded, Floats, Packed, Section

SUMMATION = 2.0**-40  # relative; far above the error of any sum or root in float64


@dataclass(frozen=True, slots=True)
class Dithering(Operator):
    """Round magnitudes to levels between 0 and the norm of their block, at random."""

    most_levels: ClassVar[int]
    natural_levels: ClassVar[bool]  # powers of two, not multiples

    p: float = parameters.infinite(math.inf)
    levels: int = 7
    block: int = 0
    scale: Literal["exact", "natural"] = "exact"
    coder: Literal["packed", "rans"] = "packed"

    def __post_init__(self) -> None:
        Operator.__post_init__(self)
        if not self.p >= 1:
            raise SpecError(f"p must be at least 1, or inf, got {self.p}")
        if not 1 <= self.levels <= self.most_levels:
            raise SpecError(f"levels must be from 1 to {self.most_levels}, got {self.levels}")
        blocks.check(self.block)

    @property
    @abstractmethod
    def step(self) -> float:
        """The lowest level above 0, in units of the norm."""

    @abstractmethod
    def omega(self, z: float) -> float:
        """The variance bound if the lowest level is z times the value of a flat vector."""

    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        number = Blocks.of(d, self.block).number
        scales: Section = Floats("scales", number, format)
        if self.scale == "natural":
            scales = Packed("scales", number, width=format.exponent, bound=format.top_code)
        if self.coder == "rans":
            return scales, Coded("codes", d, bound=self.levels + 2, signed=True)
        bound = 2 * self.levels + 2
        return scales, Packed("codes", d, width=(bound - 1).bit_length(), bound=bound)

    def kernel(self, d: int, format: Format) -> Kernel:
        natural_scale, coded = self.scale == "natural", self.coder == "rans"
        numbers = Levels(self.p, self.levels, self.block, self.natural_levels, natural_scale, coded)
        return Kernel(Kind.DITHERING, 0, numbers)

    def guarantee(self, d: int, format: Format = FLOAT32) -> Guarantee:
        bits, low = self.max_frame_bits(d, format), 2 * format.smallest_normal
        together = min(self.block or d, d)
        rounding = 1 + max(2.0 ** -(format.mantissa + 1), SUMMATION)  # of the scale, upwards
        omega = self.omega(together ** (1 / min(self.p, 2)) * self.step * rounding)
        if self.scale == "natural":
            high = format.largest_power_value
            return Guarantee(omega=9 / 8 * (1 + omega) - 1, bits=bits, low=low, high=high)
        return Guarantee(omega=omega, bits=bits, low=low)
