"""What the dithering operators have in common: a norm for each block, and levels below it."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from fewbits._native import LEVEL_WITHOUT_SCALE
from fewbits.core import blocks, parameters
from fewbits.core.guarantee import Guarantee
from fewbits.core.operator import Operator, Parts, Written
from fewbits.core.vector import Vector
from fewbits.errors import DecodeError, SpecError
from fewbits.kernels import dithering, native
from fewbits.kernels.dithering import Block, Integers, Rounded
from fewbits.kernels.formats import FLOAT32, Bits, Format
from fewbits.kernels.units import Tally
from fewbits.rng import Rng
from fewbits.wire.sections import Coded, Floats, Packed, Section

SIGN_ON_NAN = "a sign is set on a zero or on a value that is not finite"
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
        object.__setattr__(self, "p", float(self.p))
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
    def rounded(self, magnitude: Bits, scale: Bits, format: Format) -> Rounded:
        """The levels around each magnitude."""

    @abstractmethod
    def values(self, scale: Bits, code: Integers, format: Format) -> Bits:
        """What levels stand for, without signs."""

    @abstractmethod
    def omega(self, z: float) -> float:
        """The variance bound where the lowest level is z times what it is in a flat vector."""

    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        number = Block.of(d, self.block).number
        scales: Section = Floats("scales", number, format)
        if self.scale == "natural":
            scales = Packed("scales", number, width=format.exponent, bound=format.top_code)
        if self.coder == "rans":
            return scales, Coded("codes", d, bound=self.levels + 2, signed=True)
        bound = 2 * self.levels + 2
        return scales, Packed("codes", d, width=(bound - 1).bit_length(), bound=bound)

    def encode(self, x: Vector, rng: Rng, into: Parts, *, threads: int = 1) -> Written:
        first, second = self.layout(x.count, x.format)
        scales, sent = self._scales(x, rng, threads)
        first.write(sent, into[0])
        if self._is_native(x, scales, sent):
            return self._encode_native(x, rng, scales, into, threads)
        codes = np.empty(x.count, np.int32 if self.coder == "rans" else np.uint16)
        saturated = nonfinite = 0
        for part in blocks.parts(x.count):
            codes[part], beyond, odd = self._codes(x, rng, scales, sent, part)
            saturated, nonfinite = saturated + beyond, nonfinite + odd
        return Written(Tally(saturated, nonfinite), (first.size, second.write(codes, into[1])))

    def decode(self, parts: Parts, out: Vector, *, threads: int = 1) -> Tally:
        format = out.format
        first, second = self.layout(out.count, format)
        scales = self._sent_scales(first.read(parts[0]), format)
        if self._undithers(format):
            second.check(parts[1].size)
            return self._undither(scales, parts[1], out.bits, threads)
        codes = second.read(parts[1])
        if scales.size == 1:
            return self._decode_block(scales, codes, out)
        cut, nonfinite = Block.of(out.count, self.block), 0
        for part in blocks.parts(out.count):
            own = cut.spread(scales, part)
            levels, negative, odd = self._levels(codes[part])
            if ((own == 0) & (levels > 0)).any():
                raise DecodeError(LEVEL_WITHOUT_SCALE)
            out.bits[part] = self._signed(own, levels, negative, odd, format)
            nonfinite += int(odd.sum())
        return Tally(0, nonfinite)

    def accumulate(
        self, parts: Parts, format: Format, totals: npt.NDArray[Any], *, threads: int = 1
    ) -> Tally:
        if not self._undithers(format):
            return Operator.accumulate(self, parts, format, totals, threads=threads)
        first, second = self.layout(totals.size, format)
        scales = self._sent_scales(first.read(parts[0]), format)
        second.check(parts[1].size)
        return self._undither(scales, parts[1], totals, threads, add=True)

    def _undithers(self, format: Format) -> bool:
        """Whether there is a native decoder."""
        few = self.levels <= native.MOST_UNDITHERED
        return format == FLOAT32 and self.coder == "packed" and few

    def _undither(
        self,
        scales: Bits,
        packed: npt.NDArray[np.uint8],
        values: npt.NDArray[Any],
        threads: int,
        *,
        add: bool = False,
    ) -> Tally:
        return native.undither(
            packed,
            scales,
            values,
            levels=self.levels,
            natural=self.natural_levels,
            block=self.block,
            add=add,
            threads=threads,
        )

    def _decode_block(self, scale: Bits, codes: npt.NDArray[Any], out: Vector) -> Tally:
        """All values by one table of what each code stands for."""
        offset = self.levels if self.coder == "rans" else 0
        every = np.arange(2 * self.levels + 2) - offset  # NaN is the last
        if codes.size and codes.min() < every[0]:
            raise DecodeError(SIGN_ON_NAN)
        if not scale[0] and not ((codes == 0) | (codes == every[-1])).all():
            raise DecodeError(LEVEL_WITHOUT_SCALE)
        table = self._signed(np.repeat(scale, every.size), *self._levels(every), out.format)
        for part in blocks.parts(out.count):
            out.bits[part] = table[codes[part] + offset]
        return Tally(0, int(np.count_nonzero(codes == every[-1])))

    def _signed(
        self,
        scale: Bits,
        levels: Integers,
        negative: npt.NDArray[np.bool_],
        odd: npt.NDArray[np.bool_],
        format: Format,
    ) -> Bits:
        bits = self.values(scale, levels, format)
        bits |= negative.astype(format.bits) * format.bits.type(format.sign)
        bits[odd] = format.quiet_nan
        return bits

    def guarantee(self, d: int, format: Format = FLOAT32) -> Guarantee:
        together = min(self.block or d, d)
        rounding = 1 + max(2.0 ** -(format.mantissa + 1), SUMMATION)  # of the scale, upwards
        omega = self.omega(together ** (1 / min(self.p, 2)) * self.step * rounding)
        bits, low = self.most_bits(d, format), 2 * format.smallest_normal
        if self.scale == "natural":
            high = format.largest_power_value
            return Guarantee(omega=9 / 8 * (1 + omega) - 1, bits=bits, low=low, high=high)
        return Guarantee(omega=omega, bits=bits, low=low)

    def _is_native(self, x: Vector, scales: Bits, sent: Bits) -> bool:
        """Whether the native kernel rounds as `_codes` does: no scale was lost or cut."""
        cut = self.scale == "natural" and bool((scales >= x.format.largest_power).any())
        return x.format == FLOAT32 and not cut and not ((sent == 0) & (scales != 0)).any()

    def _encode_native(
        self, x: Vector, rng: Rng, scales: Bits, into: Parts, threads: int
    ) -> Written:
        first, second = self.layout(x.count, x.format)
        bound = 2 * self.levels + 2
        plain = Packed("codes", x.count, width=(bound - 1).bit_length(), bound=bound)
        packed = np.empty(plain.size, np.uint8) if self.coder == "rans" else into[1]
        tally = native.dither(
            x.bits,
            rng,
            scales,
            packed,
            levels=self.levels,
            natural=self.natural_levels,
            block=self.block,
            threads=threads,
        )
        if self.coder == "packed":
            return Written.full(tally, into)
        codes = plain.read(packed).astype(np.int32)
        negative = codes > self.levels
        codes[negative] = self.levels - codes[negative]
        codes[codes == -self.levels - 1] = self.levels + 1
        return Written(tally, (first.size, second.write(codes, into[1])))

    def _scales(self, x: Vector, rng: Rng, threads: int) -> tuple[Bits, Bits]:
        """The scales to round with, and what is sent of them."""
        if x.format == FLOAT32 and self.p in native.NORMS:
            scales = native.dither_scales(x.bits, self.p, self.block, threads=threads)
        else:
            scales = dithering.scales(x.bits, x.format, self.p, self.block)
        if self.scale == "exact":
            return scales, scales
        scales = np.minimum(scales, x.format.bits.type(x.format.largest_power))
        return scales, dithering.natural_scales(scales, x.format, rng)

    def _codes(
        self, x: Vector, rng: Rng, scales: Bits, sent: Bits, part: slice
    ) -> tuple[Integers, int, int]:
        """Codes of a part, how many values exceed their scale and how many are not finite."""
        format, cut = x.format, Block.of(x.count, self.block)
        magnitude, odd = dithering.magnitudes(x.bits[part], format)
        scale = cut.spread(scales, part)
        lower, chance = self.rounded(magnitude, scale, format)
        draws = dithering.draws(rng, part.start, magnitude.size, format)
        levels = np.where(cut.spread(sent, part) == 0, 0, lower + (draws < chance))
        negative = (x.bits[part] & format.bits.type(format.sign)) != 0
        if self.coder == "rans":
            codes = np.where(odd, self.levels + 1, np.where(negative, -levels, levels))
        else:
            signed = levels + self.levels * (negative & (levels > 0))
            codes = np.where(odd, 2 * self.levels + 1, signed)
        return codes, int((magnitude > scale).sum()), int(odd.sum())

    def _sent_scales(self, sent: npt.NDArray[Any], format: Format) -> Bits:
        if self.scale == "natural":
            powers: Bits = sent.astype(format.bits) << format.bits.type(format.mantissa)
            return powers
        if (sent >= format.infinity).any():
            raise DecodeError("a scale is negative or not finite")
        return sent

    def _levels(
        self, codes: npt.NDArray[Any]
    ) -> tuple[Integers, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Levels, signs, and where values are not finite."""
        numbers = codes.astype(np.int64)
        if self.coder == "rans":
            levels, negative = np.abs(numbers), numbers < 0
            odd = levels == self.levels + 1
            if (odd & negative).any():
                raise DecodeError(SIGN_ON_NAN)
        else:
            odd = numbers == 2 * self.levels + 1
            negative = (numbers > self.levels) & ~odd
            levels = numbers - self.levels * negative
        return np.where(odd, 0, levels), negative, odd
