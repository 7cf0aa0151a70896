r"""float16: round every value to IEEE binary16, half of float32's bits.

For magnitudes in the normal range $[2^{-14}, 65504]$, rounding to nearest (ties to even) is off by
at most half a unit in the last of 11 bits:
$$ |C(x)_i - x_i| \le 2^{-11} |x_i|, \qquad \|C(x) - x\|^2 \le 2^{-22} \|x\|^2 . $$
The bound is tight just above a power of two. The operator is deterministic, so it is biased. Below
$2^{-14}$ the grid stops shrinking: the absolute error is at most $2^{-25}$, and magnitudes up to
$2^{-25}$ become 0. Many values of gradients lie there. Finite magnitudes from 65520 on become 65504
and are counted, never infinite. It is a baseline: torch's `fp16_compress_hook` sends the same.
"""

from dataclasses import dataclass
from typing import ClassVar

from fewbits.families.casting import Cast
from fewbits.reference.formats import FLOAT16, Format


@dataclass(frozen=True, slots=True)
class Float16(Cast):
    """Round to IEEE binary16."""

    name: ClassVar[str] = "float16"
    code: ClassVar[int] = 2
    formula: ClassVar[str] = "α = 2⁻²²"
    target: ClassVar[Format] = FLOAT16
