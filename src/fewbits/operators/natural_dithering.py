r"""Natural dithering: every value becomes 0 or the norm times a power of two, without bias.

With the norm $\|x\|_p$ of the vector, or of its block of `block` elements, there are $s$ = `levels`
levels above 0:
$$ 0, \; 2^{1-s}, \; \ldots, \; \tfrac14, \; \tfrac12, \; 1 . $$
$|x_i| / \|x\|_p$ lies between two of them and goes to one of the two, to the upper one with the
probability that keeps the mean. This is natural compression of the normalised vector, with a last
interval that reaches down to 0. It has exactly the law of natural compression after standard
dithering with $2^{s-1}$ levels. With $z = d^{1/\min(p,2)}\, 2^{1-s}$ for a block of $d$ values,
$$ E\,C(x) = x, \qquad E\|C(x) - x\|^2 \le \omega \|x\|^2, \qquad
   \omega = \begin{cases} \tfrac18 + \tfrac29 z^2 & z \le \tfrac94, \\
                          z - 1 & z \ge \tfrac94 . \end{cases} $$
The paper has $\tfrac18 + z \min(1, z)$, up to 3.2 times as much. Ours takes the variance of the
last interval, $y(\ell - y)$ with $\ell = 2^{1-s}$, where the paper takes the second moment. For
every $y$ the variance is at most $\tfrac18 y^2 + \tfrac29 \ell^2$, with equality at $y = \tfrac49
\ell$ and at $y = \tfrac43 2^{-k}$. While the mean of $y^2$ is below $(\tfrac49 \ell)^2$, the
concave $\sqrt q\,\ell - q$ of $q = y^2$ bounds the mean, with equality for flat vectors. So for $p
\le 2$ both bounds are attained: $z - 1$ by any flat vector, the other one by values $\tfrac49 \ell$
together with a few large ones at $\tfrac43 2^{-k}$.

**Choosing.** With `p=inf`, the default, the norm is the largest magnitude: at equal bits the levels
reach lower than with any other norm. A sign and a level have $2s + 1$ symbols, so $s = 2^k - 1$
wastes nothing: 1, 3, 7, 15 take 2, 3, 4, 5 bits. (The paper's $2 + \log_2 s$ is no code length.)
The one symbol that is left, NaN, is free. `block=` bounds the $d$ in $z$ and costs one norm a
block. `coder=rans` writes the levels near their entropy.

**The scale.** The norm is summed in float64, in an order that does not depend on threads, and
travels as the nearest value of the vector's own format, or the largest magnitude if that is larger.
The same number is used for rounding, so a rounded scale costs no bias; it enters $z$ as a factor of
at most $1 + 2^{-m-1}$ for an $m$-bit mantissa. A norm beyond the format becomes its largest finite
value, which costs no bias either. `scale=natural` sends the norm as a random power of two, drawn
apart from the elements: 8 bits instead of 32 for float32. All outputs are then powers of two, and
$\omega$ becomes $\tfrac98 (1 + \omega) - 1$. Magnitudes above the largest power then saturate and
are counted. Norms with $p$ other than 1, 2 and inf use the machine's `pow`: their last bit, and
with it a frame, may differ between machines.

**Ends of the range.** Chances are exact on the quotient $|x_i| / N$, which is rounded once:
relative $2^{-24}$ of the value, $2^{-53}$ for float64. Below the last level a chance has 31 bits
(63). Levels below the smallest normal number are rounded to the format's grid, so $\omega$ is
stated from twice that number up. With `nonfinite="carry"`, NaN and the infinities decode to NaN,
and the norm is that of the others.

Reference: Horváth et al., *Natural Compression for Distributed Deep Learning* (2022), Theorems 7
and 8.
"""

from dataclasses import dataclass
from typing import ClassVar

from fewbits.families.dithering import Dithering


@dataclass(frozen=True, slots=True)
class NaturalDithering(Dithering):
    """Round to the largest magnitude times one of 7 powers of two, or to 0.

    `p`, `levels` and `block` choose others.
    """

    name: ClassVar[str] = "natural-dithering"
    code: ClassVar[int] = 5
    formula: ClassVar[str] = "ω = 1/8 + 2z²/9 up to z = 9/4, then z − 1; z = √d · 2^(1−levels)"
    natural_levels: ClassVar[bool] = True
    most_levels: ClassVar[int] = 127  # float32 has no normal number below 2^-126

    @property
    def step(self) -> float:
        return 2.0 ** (1 - self.levels)

    def omega(self, z: float) -> float:
        return 1 / 8 + 2 / 9 * z * z if z <= 9 / 4 else z - 1
