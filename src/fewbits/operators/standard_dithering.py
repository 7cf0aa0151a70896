r"""Standard dithering: every value becomes a multiple of a fraction of the norm, without bias.

With the norm $\|x\|_p$ of the vector, or of its block of `block` elements, the levels are $0,
\tfrac1s, \tfrac2s, \ldots, 1$ with $s$ = `levels`. $|x_i| / \|x\|_p$ goes to one of the two levels
around it, to the upper one with the probability that keeps the mean. With $w = d^{1/\min(p,2)} / s$
for a block of $d$ values,
$$ E\,C(x) = x, \qquad E\|C(x) - x\|^2 \le \omega \|x\|^2, \qquad
   \omega = \begin{cases} \tfrac14 w^2 & w \le 2, \\ w - 1 & w \ge 2 . \end{cases} $$
The papers have $w \min(1, w)$, for $p = 2$ the familiar $\min(d / s^2, \sqrt d / s)$: up to 4 times
as much. Ours takes the variance $(y - a)(b - y)$ between levels $a$ and $b$, at most $1 / 4s^2$,
where they take the second moment; while the mean of $y^2$ is below $1 / 4s^2$, the concave $\sqrt q
/ s - q$ of $q = y^2$ bounds the mean. For $p \le 2$ both are attained by flat vectors, the first
where all values lie half-way between two levels.

| alias | stands for | known as |
| --- | --- | --- |
| `qsgd` | `standard-dithering:p=2` | QSGD |
| `terngrad` | `standard-dithering:p=inf,levels=1` | TernGrad |
| `ternary` | `standard-dithering:p=2,levels=1` | QSGD with one level |

Aliases take the same parameters, `qsgd:levels=15,block=512`, which override these; frames and
canonical specs name the operator itself.

**Choosing.** At equal bits natural dithering has levels where small values are, and wins by far
while $w$ is large; for many levels this operator's error goes to 0, and that one's does not fall
below that of natural compression. A sign and a level have $2s + 1$ symbols, so $s = 2^k - 1$ wastes
nothing: 1, 3, 7, 15 take 2, 3, 4, 5 bits, and one more symbol, NaN, is free. `coder=rans` writes
them near their entropy.

**The scale and the ends of the range** are those of `natural-dithering`: the norm travels as the
nearest value of the vector's format, at least the largest magnitude; `scale=natural` sends a random
power of two and turns $\omega$ into $\tfrac98 (1 + \omega) - 1$. Level $j$ decodes to the value of
the format nearest to $N j / s$. In float32 and float64 that rounding and the quotient's leave a
relative bias of at most $2^{-22}$ ($2^{-51}$). In the formats of 16 bits it would be far from
small, so there the chances are those between the decoded values themselves, and the bias is below
$2^{-31}$ of a level.

References: Alistarh et al., *QSGD* (2017); Wen et al., *TernGrad* (2017); Horváth et al., *Natural
Compression for Distributed Deep Learning* (2022), Table 1.
"""

from dataclasses import dataclass
from typing import ClassVar

from fewbits.core.dithering import Dithering
from fewbits.kernels import dithering
from fewbits.kernels.dithering import Integers, Rounded
from fewbits.kernels.formats import Bits, Format


@dataclass(frozen=True, slots=True)
class StandardDithering(Dithering):
    """Round to multiples of a fraction of the norm."""

    name: ClassVar[str] = "standard-dithering"
    code: ClassVar[int] = 6
    aliases: ClassVar[dict[str, str]] = {
        "qsgd": "p=2",
        "terngrad": "p=inf,levels=1",
        "ternary": "p=2,levels=1",
    }
    natural_levels: ClassVar[bool] = False
    most_levels: ClassVar[int] = 32_767  # a code has at most 16 bits

    @property
    def step(self) -> float:
        return 1 / self.levels

    def omega(self, z: float) -> float:
        return z * z / 4 if z <= 2 else z - 1

    def rounded(self, magnitude: Bits, scale: Bits, format: Format) -> Rounded:
        if format.itemsize == 2:
            return dithering.uniform_levels_of_values(magnitude, scale, self.levels, format)
        return dithering.uniform_levels(dithering.quotients(magnitude, scale, format), self.levels)

    def values(self, scale: Bits, code: Integers, format: Format) -> Bits:
        return dithering.uniform_values(scale, code, self.levels, format)
