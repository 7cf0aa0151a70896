r"""Natural compression: every value becomes a signed power of two, chosen at random without bias.

$C(0) = 0$; for $2^a \le |t| < 2^{a+1}$,
$$ C(t) = \begin{cases} \operatorname{sign}(t)\,2^{a+1} & \text{with probability } |t|/2^a - 1, \\
                        \operatorname{sign}(t)\,2^{a}   & \text{otherwise,} \end{cases} $$
$$ E\,C(x) = x, \qquad E\|C(x) - x\|^2 \le \tfrac18 \|x\|^2 . $$
Tight at $|t| = \tfrac43 2^a$; zero at powers of two; about 0.082 on Gaussian vectors. The variance
of one value is exactly $(|t| - 2^a)(2^{a+1} - |t|)$. On the bits of a float with an $m$-bit
mantissa $M$ the probability is $M / 2^m$, drawn exactly: $m$ random bits are added to the magnitude
and the carry into the exponent is the rounding.

What travels is the sign and the exponent: 9 bits for float32 and bfloat16, 12 for float64, 6 for
float16. (The paper counts 5.82× for float64; that drops the sign bit, 64/12 = 5.33×.) Exponents of
real gradients are far from uniform. `coder=rans` writes them near their entropy, for more work: it
pays on slow links, and the page on entropy coding has the figures. Zeros have no sign and cost
little. The values are those of `coder=packed`.

`rounding=nearest` takes the nearer power of two (ties to the smaller): deterministic, biased,
contractive,
$$ \|C(x) - x\|^2 \le \tfrac19 \|x\|^2 \quad\text{surely, tight at } |t| = \tfrac32 2^a . $$

Why powers of two, not integers. Rounding to one of the two nearest integers at random (C_int) is
unbiased too, but has no $\omega$: for $0 < t < 1$ it gives 1 with probability $t$, so
$E\,C(t)^2 / t^2 = 1/t$, which no constant bounds. Here the distance between neighbours shrinks with
the value (Theorem 4 of the reference).

Ends of the range. Subnormal magnitudes $f\,2^{-126}$ round to 0 or $2^{-126}$, up with probability
$f$: still unbiased, but their relative variance is $1/f - 1$, so $\omega$ holds from $2^{-126}$ up.
Finite magnitudes above $2^{127}$ become $2^{127}$, a bias, and are counted. −0 becomes 0. With
`nonfinite="carry"`, NaN and the infinities decode to NaN: nine bits cannot tell them apart. (Bounds
for float32; other formats have their own exponents.)

Reference: Horváth et al., *Natural Compression for Distributed Deep Learning* (2022), Theorem 3.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy.typing as npt

from fewbits.core.guarantee import Guarantee
from fewbits.core.operator import Operator, Parts, Written
from fewbits.core.vector import Vector
from fewbits.kernels import native, units
from fewbits.kernels.formats import FLOAT32, Format
from fewbits.kernels.units import Tally
from fewbits.rng import Rng
from fewbits.wire.sections import Coded, Packed, Section


@dataclass(frozen=True, slots=True)
class Natural(Operator):
    """Round to signed powers of two."""

    name: ClassVar[str] = "natural"
    code: ClassVar[int] = 4

    rounding: Literal["stochastic", "nearest"] = "stochastic"
    coder: Literal["packed", "rans"] = "packed"

    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        if self.coder == "rans":
            return (Coded("codes", d, bound=format.top_code + 1, signed=True),)
        exponents = Packed("exponents", d, width=format.exponent, bound=format.top_code + 1)
        return exponents, Packed("signs", d, width=1, bound=2)

    def encode(self, x: Vector, rng: Rng, into: Parts, *, threads: int = 1) -> Written:
        source = None if self.rounding == "nearest" else rng
        if self.coder == "rans":
            (codes,) = into
            tally, size = native.coded_encode(x.bits, x.format, source, codes, threads=threads)
            return Written(tally, (size,))
        exponents, signs = into
        planes = exponents, signs
        tally = native.natural_encode(x.bits, x.format, source, planes, threads=threads)
        return Written.full(tally, into)

    def decode(self, parts: Parts, out: Vector, *, threads: int = 1) -> Tally:
        if self.coder == "rans":
            return native.coded_decode(parts[0], out.format, out.bits, threads=threads)
        exponents, signs = parts
        return native.natural_decode((exponents, signs), out.format, out.bits, threads=threads)

    def accumulate(
        self, parts: Parts, format: Format, totals: npt.NDArray[Any], *, threads: int = 1
    ) -> Tally:
        if self.coder == "rans":
            return native.coded_accumulate(parts[0], format, totals, threads=threads)
        exponents, signs = parts
        return native.natural_accumulate((exponents, signs), format, totals, threads=threads)

    def native(self, format: Format) -> tuple[int, int]:
        coded = units.CODED if self.coder == "rans" else 0
        return units.NATURAL, int(self.rounding == "nearest") | coded

    def guarantee(self, d: int, format: Format = FLOAT32) -> Guarantee:
        bits, low, high = (
            self.most_bits(d, format),
            format.smallest_normal,
            format.largest_power_value,
        )
        if self.rounding == "nearest":
            return Guarantee(alpha=1 / 9, sure=True, bits=bits, low=low, high=high)
        return Guarantee(omega=1 / 8, bits=bits, low=low, high=high)
