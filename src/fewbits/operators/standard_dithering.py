r"""Standard dithering: every value becomes a multiple of a fraction of the norm, without bias.

With the norm $\|x\|_p$ of the vector, or of its block of `block` elements, the levels are $0,
\tfrac1s, \tfrac2s, \ldots, 1$ with $s$ = `levels`. $|x_i| / \|x\|_p$ goes to one of the two levels
around it, to the upper one with the probability that keeps the mean. With $w = d^{1/\min(p,2)} / s$
for a block of $d$ values,
$$ E\,C(x) = x, \qquad E\|C(x) - x\|^2 \le \omega \|x\|^2, \qquad
   \omega = \begin{cases} \tfrac14 w^2 & w \le 2, \\ w - 1 & w \ge 2 . \end{cases} $$
The papers have $w \min(1, w)$, for $p = 2$ the familiar $\min(d / s^2, \sqrt d / s)$: up to 4 times
as much. Ours takes the variance $(y - a)(b - y)$ between levels $a$ and $b$, at most $1 / 4s^2$,
where they take the second moment. While the mean of $y^2$ is below $1 / 4s^2$, the concave $\sqrt q
/ s - q$ of $q = y^2$ bounds the mean. For $p \le 2$ flat vectors attain both bounds, the first if
all values lie half-way between two levels.

| alias | stands for | known as |
| --- | --- | --- |
| `qsgd` | `standard-dithering:p=2` | QSGD |
| `terngrad` | `standard-dithering:p=inf,levels=1` | TernGrad |
| `ternary` | `standard-dithering:p=2,levels=1` | QSGD with one level |

Aliases take the same parameters, as in `qsgd:levels=15,block=512`, which override these. Frames and
canonical specs name the operator itself.

**Choosing.** At equal bits natural dithering has more levels at small values, and wins by far while
$w$ is large. With many levels the error of standard dithering goes to 0, while that of natural
dithering stays above that of natural compression. A sign and a level have $2s + 1$ symbols, so
$s = 2^k - 1$ wastes nothing: 1, 3, 7, 15 take 2, 3, 4, 5 bits, and the one symbol that is left,
NaN, is free. `coder=rans` writes them near their entropy.

**Then natural.** Rounding the *levels* of standard dithering to powers of two gives natural
dithering: with $s = 2^{k-1}$ levels it has the law of $k$ natural ones. So the spec
`standard-dithering:levels=8|natural` is `natural-dithering:levels=4`, with the same `p`, `block`
and `scale`, and the coder that `natural` names. Other numbers of levels have no such equal. (This
is the paper's identity. Rounding the decoded values themselves would round the norm as well; take
`scale=natural` for that.)

**The scale and the ends of the range** are those of `natural-dithering`: the norm travels as the
nearest value of the vector's format, at least the largest magnitude; `scale=natural` sends a random
power of two and turns $\omega$ into $\tfrac98 (1 + \omega) - 1$. Level $j$ decodes to the value of
the format nearest to $N j / s$. In float32 and float64 that rounding and the quotient's leave a
relative bias of at most $2^{-22}$ ($2^{-51}$). In the formats of 16 bits it would be far from
small, so there the chances are those between the decoded values themselves, and the bias is below
$2^{-31}$ of a level.

References: Alistarh et al., *QSGD* (2017); Wen et al., *TernGrad* (2017); Horváth et al., *Natural
Compression for Distributed Deep Learning* (2022), Table 1 and Theorem 8.
"""

from dataclasses import dataclass
from typing import ClassVar

from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.families.dithering import Dithering


@dataclass(frozen=True, slots=True)
class StandardDithering(Dithering):
    """Round to multiples of a seventh of the largest magnitude.

    `qsgd`, `terngrad` and `ternary` are presets.
    """

    name: ClassVar[str] = "standard-dithering"
    code: ClassVar[int] = 6
    formula: ClassVar[str] = "ω = w²/4 up to w = 2, then w − 1; w = √d / levels"
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

    def joined(self, last: Operator) -> str | None:
        if last.spec not in ("natural", "natural:coder=rans"):
            return None
        if self.levels.bit_count() > 1:
            lower, upper = (1 << self.levels.bit_length() - 1 + more for more in (0, 1))
            raise SpecError(
                f"natural after standard-dithering needs a power of two levels, got {self.levels}: "
                f"take levels={lower} or levels={upper}"
            )
        coder = "rans" if "rans" in (self.coder, last.spec.rpartition("=")[2]) else "packed"
        return (
            f"natural-dithering:p={self.p!r},levels={self.levels.bit_length()},block={self.block},"
            f"scale={self.scale},coder={coder}"
        )
