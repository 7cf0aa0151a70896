r"""bfloat16: round every value to bfloat16, float32's range with an 8-bit significand.

For magnitudes from $2^{-126}$ up, rounding to nearest (ties to even) is off by at most half a unit
in the last of 8 bits:
$$ |C(x)_i - x_i| \le 2^{-8} |x_i|, \qquad \|C(x) - x\|^2 \le 2^{-16} \|x\|^2 . $$
The bound is tight just above a power of two. The operator is deterministic, so it is biased. Finite
values that would round to infinity become the largest finite one, about $3.39 \cdot 10^{38}$, and
are counted. It is the baseline at 16 bits: gradients rarely leave its range.
"""

from dataclasses import dataclass
from typing import ClassVar

from fewbits.families.casting import Cast
from fewbits.reference.formats import BFLOAT16, Format


@dataclass(frozen=True, slots=True)
class Bfloat16(Cast):
    """Round to bfloat16."""

    name: ClassVar[str] = "bfloat16"
    code: ClassVar[int] = 3
    formula: ClassVar[str] = "α = 2⁻¹⁶"
    target: ClassVar[Format] = BFLOAT16
