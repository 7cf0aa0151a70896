r"""Hadamard: rotate blocks so that every value is about as large as any other.

A stage, to be put before an operator: `hadamard|natural`. On every block of $B$ values, with $H$
the Walsh-Hadamard matrix of entries $\pm 1$ and random signs $s_i \in \{-1, 1\}$,
$$ z = \tfrac{1}{\sqrt B} H (s \circ x), \qquad y = s \circ \tfrac{1}{\sqrt B} H\, C(z) . $$
The rotation keeps norms and inner products, so $y$ has the error and the bias of the operator $C$
on $z$, and the guarantee of $C$ is kept: $\omega$, or $\alpha$, surely where it was. What changes
is where $z$ lies. Its values are nearly Gaussian for any $x$, so an operator whose error depends on
the largest value, or on how the values are spread, never meets its worst case; one that is relative
to each value, like `natural`, gains nothing on gradients and loses their zeros. It costs
$O(d \log B)$.

`signs=common` (the default) takes the same signs for every vector and sends nothing, so that
rotated vectors of several ranks can be added. `signs=private` draws them from the vector's own
stream and sends its key, 16 bytes: errors that depend on the rotation then average out over steps
and ranks. `block` is a power of two. What is left behind the last whole block is cut into powers of
two, so no value is added.

Ends of the range. The rotation is computed in float32, in float64 for float64, and rounded to the
vector's format. The two roundings add about $2 u$ to the root of the stated constant,
$u = 2^{-(m+1)} (1 + \log_2 B)$, or $2^{-(m+1)} + 2^{-24} (1 + \log_2 B)$ for 16-bit formats, and a
bias of the same size. Rotated values can be small where no value of $x$ is: the guarantee holds for
vectors whose values are large enough for that not to matter. Rotated values beyond the largest
number become it and are counted. A block with a value that is NaN or infinite becomes NaN
throughout.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from fewbits.core import parameters
from fewbits.core.guarantee import Guarantee
from fewbits.core.keys import key_section, read_key, write_key
from fewbits.core.operator import Parts
from fewbits.core.stage import Split, Stage
from fewbits.core.vector import Vector
from fewbits.errors import SpecError
from fewbits.kernels import native, reference, rotation
from fewbits.kernels.formats import Format
from fewbits.kernels.units import Tally
from fewbits.rng import Rng
from fewbits.wire.sections import Section

COMMON = Rng(b"fewbits hadamard").fork("common")


@dataclass(frozen=True, slots=True)
class Hadamard(Stage):
    """Rotate blocks by random signs and the Walsh-Hadamard matrix."""

    name: ClassVar[str] = "hadamard"
    code: ClassVar[int] = 12

    block: int = 4096
    signs: Literal["common", "private"] = "common"

    def __post_init__(self) -> None:
        parameters.check_choices(self)
        whole = isinstance(self.block, int) and not isinstance(self.block, bool)
        if not whole or not 2 <= self.block <= rotation.LARGEST_BLOCK or self.block.bit_count() > 1:
            raise SpecError(
                f"block must be a power of two from 2 to {rotation.LARGEST_BLOCK}, got {self.block}"
            )

    def reduced(self, d: int) -> int:
        return d

    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        return (key_section(),) if self.signs == "private" else ()

    def split(self, x: Vector, rng: Rng, into: Parts, *, threads: int = 1) -> Split:
        if self.signs == "private":
            write_key(rng, into[0])
        else:
            rng = COMMON
        rotated = Vector(np.empty_like(x.bits), x.format)
        tally = native.rotate(x.bits, x.format, self.block, rng, rotated.bits)
        if tally.nonfinite:  # all of a block that holds one: say how many there were
            tally = tally._replace(nonfinite=reference.count_nonfinite(x.bits, x.format))
        return Split(rotated, tally)

    def join(self, parts: Parts, reduced: Vector, out: Vector, *, threads: int = 1) -> Tally:
        rng = read_key(parts[0]) if self.signs == "private" else COMMON
        return native.rotate(reduced.bits, out.format, self.block, rng, out.bits, inverse=True)

    def guarantee(self, d: int, format: Format, inner: Guarantee) -> Guarantee:
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
