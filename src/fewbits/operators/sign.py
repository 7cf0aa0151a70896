r"""Sign: every value becomes plus or minus the mean magnitude of its block.

$$ C(x)_i = a \operatorname{sign}(x_i), \qquad a = \frac{\|x\|_1}{k}, \qquad
   k = \#\{i : x_i \ne 0\}, \qquad \|C(x) - x\|^2 = \|x\|^2 - \frac{\|x\|_1^2}{k}
   \le \Bigl(1 - \frac1k\Bigr) \|x\|^2 $$
surely, with $k \le d$ for a block of $d$ values (`block`, 0 for the whole vector). $a$ is the best
factor for these signs: the projection of $x$ on them. Tight where one value is far larger than all
others, which are not 0. Deterministic, so biased: to be used with error feedback. On Gaussian
vectors the error is $1 - 2/\pi = 0.363$ at one bit, without feedback.

The signs are one entropy-coded section of the codes 0, 1 and NaN. Where nothing is 0 or NaN, a
block of 65,536 costs 6 bytes beside one bit a value. Zeros stay 0, cost the entropy of their places
and take no sign. $a$ travels as the nearest value of the vector's format, which costs at most
$4^{-m-1}$ of $\|x\|_1^2 / k$ for an $m$-bit mantissa, and is kept within the smallest and the
largest magnitude. With `nonfinite="carry"`, NaN and the infinities decode to NaN, and $a$ is that
of the others.

References: Bernstein et al., *signSGD* (2018); Karimireddy et al., *Error Feedback Fixes SignSGD*
(2019), who have $1 - \|x\|_1^2 / (d \|x\|^2)$.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fewbits._native import LEVEL_WITHOUT_SCALE
from fewbits.core import blocks
from fewbits.core.dithering import SIGN_ON_NAN
from fewbits.core.guarantee import Guarantee
from fewbits.core.operator import Operator, Parts, Written
from fewbits.core.vector import Vector
from fewbits.errors import DecodeError
from fewbits.kernels import dithering
from fewbits.kernels.dithering import Block
from fewbits.kernels.formats import FLOAT32, Format
from fewbits.kernels.units import Tally
from fewbits.rng import Rng
from fewbits.wire.sections import Coded, Floats, Section

NAN = 2


@dataclass(frozen=True, slots=True)
class Sign(Operator):
    """Signs, times the mean magnitude."""

    name: ClassVar[str] = "sign"
    code: ClassVar[int] = 9

    block: int = 0

    def __post_init__(self) -> None:
        Operator.__post_init__(self)
        blocks.check(self.block)

    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        number = Block.of(d, self.block).number
        return Floats("scales", number, format), Coded("codes", d, bound=3, signed=True)

    def encode(self, x: Vector, rng: Rng, into: Parts, *, threads: int = 1) -> Written:
        scales, codes = self.layout(x.count, x.format)
        magnitude, odd = dithering.magnitudes(x.bits, x.format)
        means = dithering.means(x.bits, x.format, self.block)
        negative = (x.bits & x.format.bits.type(x.format.sign)) != 0
        signs = (magnitude != 0) * np.where(negative, np.int32(-1), np.int32(1))
        sizes = (
            scales.write(means, into[0]),
            codes.write(np.where(odd, np.int32(NAN), signs), into[1]),
        )
        return Written(Tally(0, int(odd.sum())), sizes)

    def decode(self, parts: Parts, out: Vector, *, threads: int = 1) -> Tally:
        format = out.format
        first, second = self.layout(out.count, format)
        scales, codes = first.read(parts[0]), second.read(parts[1])
        if (scales >= format.infinity).any():
            raise DecodeError("a scale is negative or not finite")
        if (codes == -NAN).any():
            raise DecodeError(SIGN_ON_NAN)
        scale = Block.of(out.count, self.block).spread(scales, slice(0, out.count))
        given, odd = np.abs(codes) == 1, codes == NAN
        if ((scale == 0) & given).any():
            raise DecodeError(LEVEL_WITHOUT_SCALE)
        out.bits[:] = np.where(given, scale, 0)
        out.bits[codes == -1] |= format.bits.type(format.sign)
        out.bits[odd] = format.quiet_nan
        return Tally(0, int(odd.sum()))

    def guarantee(self, d: int, format: Format = FLOAT32) -> Guarantee:
        together = max(min(self.block or d, d), 1)
        rounding = max(2.0 ** -(format.mantissa + 1), 2.0**-40) ** 2
        alpha = 1 - (1 - rounding) / together
        bits, low = self.most_bits(d, format), format.smallest_normal
        return Guarantee(alpha=alpha, sure=True, bits=bits, low=low)
