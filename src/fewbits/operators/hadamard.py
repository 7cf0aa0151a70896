r"""Hadamard: rotate blocks so that every value is about as large as any other.

This is a stage and stands before an operator: `hadamard|natural`. On every block of $B$ values,
with $H$ the Walsh-Hadamard matrix of entries $\pm 1$ and random signs $s_i \in \{-1, 1\}$,
$$ z = \tfrac{1}{\sqrt B} H (s \circ x), \qquad y = s \circ \tfrac{1}{\sqrt B} H\, C(z) . $$
The rotation keeps norms and inner products, so $y$ has the error and the bias of the operator $C$
on $z$, and the guarantee of $C$ holds: $\omega$, or $\alpha$, surely if it was sure. The values of
$z$ are nearly Gaussian for any $x$. So an operator whose error depends on the largest value, or on
how the values are spread, never meets its worst case. An operator whose error is relative to each
value, like `natural`, gains nothing on gradients and loses their zeros. The rotation takes
$O(d \log B)$ operations.

`signs=common` (the default) takes the same signs for every vector and sends nothing, so that
rotated vectors of several ranks can be added. `signs=private` draws them from the vector's own
stream and sends its key, 16 bytes: errors that depend on the rotation then average out over steps
and ranks. `block` is a power of two. The rest behind the last whole block is cut into powers of
two, so no value is added.

Ends of the range. The rotation is computed in float32, in float64 for float64, and rounded to the
vector's format. The two roundings add about $2 u$ to the root of the stated constant,
$u = 2^{-(m+1)} (1 + \log_2 B)$, or $2^{-(m+1)} + 2^{-24} (1 + \log_2 B)$ for 16-bit formats, and a
bias of the same size. Rotated values can be small even if no value of $x$ is. The guarantee holds
for vectors whose values are large enough for that not to matter. Rotated values beyond the largest
number become it and are counted. A block with a value that is NaN or infinite becomes NaN
throughout.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from fewbits.backend.kernel import Kernel, Kind
from fewbits.core import parameters
from fewbits.core.guarantee import Guarantee
from fewbits.core.stage import Stage
from fewbits.errors import SpecError
from fewbits.reference import rotation
from fewbits.reference.formats import Format
from fewbits.wire.sections import Section, key_section


@dataclass(frozen=True, slots=True)
class Hadamard(Stage):
    """Rotate blocks at random, so that all values are about as large."""

    name: ClassVar[str] = "hadamard"
    code: ClassVar[int] = 12
    formula: ClassVar[str] = "the operator's"

    block: int = 4096
    signs: Literal["common", "private"] = "common"

    def __post_init__(self) -> None:
        Stage.__post_init__(self)
        if not 2 <= self.block <= rotation.LARGEST_BLOCK or self.block.bit_count() > 1:
            raise SpecError(
                f"block must be a power of two from 2 to {rotation.LARGEST_BLOCK}, got {self.block}"
            )

    def reduced(self, d: int) -> int:
        return d

    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        return (key_section(),) if self.signs == "private" else ()

    def kernel(self, d: int) -> Kernel:
        return Kernel(Kind.HADAMARD, int(self.signs == "private"), (self.block,))

    def guarantee(self, d: int, format: Format, inner: Guarantee) -> Guarantee:
        parameters.check_count(d)
        block = min(self.block, 1 << max(d.bit_length() - 1, 0))
        unit, steps = 2.0 ** -(format.mantissa + 1), block.bit_length()  # 1 + log2 of the block
        work = rotation.arithmetic(format)
        own = steps * unit if work == format else unit + steps * 2.0 ** -(work.mantissa + 1)
        error = (math.sqrt(inner.error) * (1 + own) ** 2 + 2 * own * (1 + own) + unit) ** 2
        # A rotated value is at most the root of the block times the largest one. It may be as small
        # as it likes: from this `low` on, what is lost below the operator's own is one `unit`.
        root = math.sqrt(block)
        ends = inner.low * root / unit, min(inner.high, format.largest_value) / root
        known = {"omega" if inner.unbiased else "alpha": error}
        return replace(inner, **known, low=ends[0], high=ends[1])  # type: ignore[arg-type]
