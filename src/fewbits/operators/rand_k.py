r"""Rand-k: keep $k$ places drawn at random and multiply their values, without bias.

A stage, to be put before an operator: `rand-k:fraction=0.1|natural`. With $S$ a uniform set of $k$
of the $d$ places and $C$ the operator that follows,
$$ y_i = C\!\left(\tfrac{d}{k}\, x_S\right)_i \text{ if } i \in S, \text{ else } 0, \qquad
   k = \lfloor d f + \tfrac12 \rfloor \text{ for the fraction } f, \text{ at least } 1 . $$
The stage alone has $\omega_1 = d/k - 1$, with equality for every vector. Before an unbiased
operator with $\omega_2$ the whole is unbiased with
$$ \omega = \tfrac{d}{k} (1 + \omega_2) - 1 , $$
reached where the operator's own bound is (before `natural`: $d/k$ a power of two and all
$|x_i| = \tfrac43 2^a$). Values are multiplied before the operator sees them, so `natural` still
gives powers of two.

What travels is the key of a random stream, 16 bytes, and no places. Place $i$ has word $w_i$ of the
stream, and the $k$ places with the largest words are kept, ties to the lower index. The decoder
draws again.

Ends of the range. The product is rounded once to the vector's format, which counts in the stated
$\omega$ and gives a relative bias of at most half a unit in the last place unless $d/k$ is a power
of two. Products beyond the largest number become it and are counted. If any value is NaN or
infinite, dropped or not, all kept values become NaN: a vector that is not finite never becomes
finite.

Reference: Horváth et al., *Natural Compression for Distributed Deep Learning* (2022), Theorems 5
and 15.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fewbits import _native
from fewbits.core.guarantee import Guarantee, after_unbiased
from fewbits.core.keys import key_section, read_key, write_key
from fewbits.core.operator import Parts
from fewbits.core.stage import Split, Stage, check_fraction, kept, scatter, scatter_add
from fewbits.core.vector import Vector
from fewbits.kernels import native, reference
from fewbits.kernels.formats import FLOAT64, Bits, Format
from fewbits.kernels.units import Tally
from fewbits.rng import Rng
from fewbits.wire.sections import Section


@dataclass(frozen=True, slots=True)
class RandK(Stage):
    """Keep random places, values multiplied by d/k."""

    name: ClassVar[str] = "rand-k"
    code: ClassVar[int] = 11

    fraction: float = 0.1

    def __post_init__(self) -> None:
        check_fraction(self.fraction)

    def reduced(self, d: int) -> int:
        return kept(self.fraction, d)

    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        return (key_section(),)

    def split(self, x: Vector, rng: Rng, into: Parts, *, threads: int = 1) -> Split:
        write_key(rng, into[0])
        count = self.reduced(x.count)
        values, saturated = multiplied(x.bits[places(rng, x.count, count)], x.format, x.count)
        nonfinite = reference.count_nonfinite(x.bits, x.format)
        if nonfinite:
            values[:] = x.format.quiet_nan
        return Split(Vector(values, x.format), Tally(saturated, nonfinite))

    def join(self, parts: Parts, reduced: Vector, out: Vector, *, threads: int = 1) -> Tally:
        return scatter(places(read_key(parts[0]), out.count, reduced.count), reduced, out)

    def accumulate(self, parts: Parts, reduced: Vector, totals: npt.NDArray[Any]) -> Tally:
        chosen = places(read_key(parts[0]), totals.size, reduced.count)
        return scatter_add(chosen, reduced, totals)

    def guarantee(self, d: int, format: Format, inner: Guarantee) -> Guarantee:
        factor = d / self.reduced(d) if d else 1.0
        # A product (1 + u) x d/k has the error (d/k - 1)(1 + 2u) + u^2 d/k, relative to x^2.
        unit = 0.0 if math.frexp(factor)[0] == 0.5 else 2.0 ** -(format.mantissa + 1)
        omega = (factor - 1) * (1 + 2 * unit) + factor * unit**2
        low, high = inner.low / factor, min(inner.high, format.largest_value) / factor
        ends = (low, high) if factor > 1 else (inner.low, inner.high)
        return replace(after_unbiased(omega, inner), low=ends[0], high=ends[1])


def places(rng: Rng, d: int, k: int) -> npt.NDArray[np.uint32]:
    """The `k` of `d` places that a stream chooses."""
    return native.largest(_native.words(rng.key, 0, d), None, k)[0]


def multiplied(bits: Bits, format: Format, d: int) -> tuple[Bits, int]:
    """Values times d/k, in float64 and rounded once; what overflows is clipped and counted."""
    if bits.size in (0, d):
        return bits.copy(), 0
    with np.errstate(over="ignore", invalid="ignore"):
        products: npt.NDArray[Any] = reference.to_float64(bits, format) * (d / bits.size)
    if format == FLOAT64:
        beyond = np.isinf(products) & np.isfinite(bits.view(np.float64))
        products[beyond] = np.copysign(np.finfo(np.float64).max, products[beyond])
        return products.view(np.uint64), int(beyond.sum())
    result = np.empty(bits.size, format.bits)
    tally = native.cast(products.view(np.uint64), FLOAT64, format, result)
    return result, tally.saturated
