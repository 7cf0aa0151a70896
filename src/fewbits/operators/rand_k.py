r"""Rand-k: keep $k$ places drawn at random and multiply their values, without bias.

This is a stage and stands before an operator: `rand-k:fraction=0.1|natural`. With $S$ a uniform set
of $k$ of the $d$ places and $C$ the operator that follows,
$$ y_i = C\!\left(\tfrac{d}{k}\, x_S\right)_i \text{ if } i \in S, \text{ else } 0, \qquad
   k = \lfloor d f + \tfrac12 \rfloor \text{ for the fraction } f, \text{ at least } 1 . $$
The stage alone has $\omega_1 = d/k - 1$, with equality for every vector. Before an unbiased
operator with $\omega_2$ the whole is unbiased with
$$ \omega = \tfrac{d}{k} (1 + \omega_2) - 1 , $$
reached where the operator's own bound is (before `natural`: $d/k$ a power of two and all
$|x_i| = \tfrac43 2^a$). Values are multiplied before the operator sees them, so `natural` still
gives powers of two.

The frame carries the key of a random stream, 16 bytes, and no places. Place $i$ has word $w_i$ of
the stream, and the $k$ places with the largest words are kept, ties to the lower index. The decoder
draws again.

Ends of the range. The product is rounded once to the vector's format, which counts in the stated
$\omega$ and gives a relative bias of at most half a unit in the last place unless $d/k$ is a power
of two. Products beyond the largest number become it and are counted. If any value is NaN or
infinite, dropped or not, all kept values become NaN, so a vector that is not finite never becomes
finite.

Reference: Horváth et al., *Natural Compression for Distributed Deep Learning* (2022), Theorems 5
and 15.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from fewbits.backend.kernel import Kind
from fewbits.core.guarantee import Guarantee, after_unbiased
from fewbits.families.selection import Selection
from fewbits.reference.formats import Format
from fewbits.wire.sections import Section, key_section


@dataclass(frozen=True, slots=True)
class RandK(Selection):
    """Keep random values, times d/k, and send a key instead of their places."""

    name: ClassVar[str] = "rand-k"
    code: ClassVar[int] = 11
    formula: ClassVar[str] = "ω = (d/k)(1 + ω₂) − 1"
    kind: ClassVar[Kind] = Kind.RAND_K

    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        return (key_section(),)

    def guarantee(self, d: int, format: Format, inner: Guarantee) -> Guarantee:
        kept = self.reduced(d)
        factor = d / kept if d else 1.0
        # A product (1 + u) x d/k has the error (d/k - 1)(1 + 2u) + u^2 d/k, relative to x^2.
        unit = 0.0 if math.frexp(factor)[0] == 0.5 else 2.0 ** -(format.mantissa + 1)
        omega = (factor - 1) * (1 + 2 * unit) + factor * unit**2
        low, high = inner.low / factor, min(inner.high, format.largest_value) / factor
        ends = (low, high) if factor > 1 else (inner.low, inner.high)
        return replace(after_unbiased(omega, inner), low=ends[0], high=ends[1])
