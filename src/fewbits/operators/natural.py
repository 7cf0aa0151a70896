r"""Natural compression: every value becomes a signed power of two, chosen at random without bias.

$C(0) = 0$; for $2^a \le |t| < 2^{a+1}$,
$$ C(t) = \begin{cases} \operatorname{sign}(t)\,2^{a+1} & \text{with probability } |t|/2^a - 1, \\
                        \operatorname{sign}(t)\,2^{a}   & \text{otherwise,} \end{cases} $$
$$ E\,C(x) = x, \qquad E\|C(x) - x\|^2 \le \tfrac18 \|x\|^2 . $$
The bound is tight at $|t| = \tfrac43 2^a$. The error is zero at powers of two and about 0.082 on
Gaussian vectors. The variance of one value is exactly $(|t| - 2^a)(2^{a+1} - |t|)$. On the bits of
a float with an $m$-bit mantissa $M$ the probability is $M / 2^m$, drawn exactly: $m$ random bits
are added to the magnitude, and the carry into the exponent is the rounding.

The sign and the exponent travel: 9 bits for float32 and bfloat16, 12 for float64, 6 for float16.
(The paper counts 5.82× for float64; that drops the sign bit, 64/12 = 5.33×.) Exponents of real
gradients are far from uniform. `coder=rans` writes them near their entropy, with more work. It pays
on slow links; the page on entropy coding has the figures. Zeros have no sign and cost little. The
values are those of `coder=packed`.

`rounding=nearest` takes the nearer power of two (ties to the smaller). It is deterministic, biased
and contractive:
$$ \|C(x) - x\|^2 \le \tfrac19 \|x\|^2 \quad\text{surely, tight at } |t| = \tfrac32 2^a . $$

Why powers of two and not integers: rounding at random to one of the two nearest integers (C_int) is
unbiased too, but has no $\omega$. For $0 < t < 1$ it gives 1 with probability $t$, so
$E\,C(t)^2 / t^2 = 1/t$, which no constant bounds. The distance between powers of two shrinks with
the value (Theorem 4 of the reference).

Ends of the range. Subnormal magnitudes $f\,2^{-126}$ round to 0 or $2^{-126}$, up with probability
$f$. That is unbiased, but the relative variance is $1/f - 1$, so $\omega$ holds from $2^{-126}$ up.
Finite magnitudes above $2^{127}$ become $2^{127}$, a bias, and are counted. −0 becomes 0. With
`nonfinite="carry"`, NaN and the infinities decode to NaN: nine bits cannot tell them apart. (Bounds
for float32; other formats have their own exponents.)

Reference: Horváth et al., *Natural Compression for Distributed Deep Learning* (2022), Theorem 3.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from fewbits.backend.kernel import CODED, PACKED, Kernel, Kind
from fewbits.core.guarantee import Guarantee
from fewbits.core.operator import Operator
from fewbits.reference.formats import FLOAT32, Format
from fewbits.wire.sections import Coded, Packed, Section


@dataclass(frozen=True, slots=True)
class Natural(Operator):
    """Round to a power of two at random, or to the nearer one with `rounding=nearest`."""

    name: ClassVar[str] = "natural"
    code: ClassVar[int] = 4
    formula: ClassVar[str] = "ω = 1/8; nearest: α = 1/9"

    rounding: Literal["stochastic", "nearest"] = "stochastic"
    coder: Literal["packed", "rans"] = "packed"

    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        if self.coder == "rans":
            return (Coded("codes", d, bound=format.top_code + 1, signed=True),)
        exponents = Packed("exponents", d, width=format.exponent, bound=format.top_code + 1)
        return exponents, Packed("signs", d, width=1, bound=2)

    def kernel(self, d: int, format: Format) -> Kernel:
        coder = CODED if self.coder == "rans" else PACKED
        return Kernel(Kind.NATURAL, int(self.rounding == "nearest") | coder)

    def guarantee(self, d: int, format: Format = FLOAT32) -> Guarantee:
        bits, low, high = (
            self.max_frame_bits(d, format),
            format.smallest_normal,
            format.largest_power_value,
        )
        if self.rounding == "nearest":
            return Guarantee(alpha=1 / 9, sure=True, bits=bits, low=low, high=high)
        return Guarantee(omega=1 / 8, bits=bits, low=low, high=high)
