r"""Top-k: keep the $k$ largest magnitudes and where they are, for another operator to write.

A stage, to be put before an operator: `top-k:fraction=0.01|natural`. With $S$ the places of the $k$
largest $|x_i|$, ties to the lower index, and $C$ the operator that follows,
$$ y_i = C(x_S)_i \text{ if } i \in S, \text{ else } 0, \qquad k = \lfloor d f + \tfrac12 \rfloor
   \text{ for the fraction } f, \text{ at least } 1 . $$
With $\kappa = k/d$: before an operator that loses nothing, $\|y - x\|^2 \le (1 - \kappa) \|x\|^2$
surely, with equality where all magnitudes are equal. Before one with $\omega \le 1$ or with
$\alpha$,
$$ E\|y - x\|^2 \le (1 - \kappa (1 - \omega))\,\|x\|^2 , $$
because what is kept is at least a fraction $\kappa$ of $\|x\|^2$. It is tight where all magnitudes
are equal and the operator's own bound is. Biased: made for error feedback.

The places cost less than $\log_2 \binom{d}{k} + \tfrac12 \log_2 (2 \pi k) + k / 512 + 24$ bits,
whatever they are: 8.1 bits for each value that is kept at $f = 0.01$, 4.7 at $f = 0.1$.

Ends of the range. Magnitudes are compared as bits, so NaN come first, then infinities: a vector
that is not finite never becomes finite. Values that are not kept decode to +0.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy.typing as npt

from fewbits.coding import subsets
from fewbits.core.guarantee import Guarantee
from fewbits.core.operator import Parts
from fewbits.core.stage import Split, Stage, check_fraction, kept, scatter, scatter_add
from fewbits.core.vector import Vector
from fewbits.kernels import native
from fewbits.kernels.formats import Format
from fewbits.kernels.units import Tally
from fewbits.rng import Rng
from fewbits.wire.sections import Packed, Section


@dataclass(frozen=True, slots=True)
class TopK(Stage):
    """Keep the largest magnitudes and their places."""

    name: ClassVar[str] = "top-k"
    code: ClassVar[int] = 10

    fraction: float = 0.1

    def __post_init__(self) -> None:
        check_fraction(self.fraction)

    def reduced(self, d: int) -> int:
        return kept(self.fraction, d)

    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        return (Packed("places", subsets.size(d, self.reduced(d)), width=8, bound=256),)

    def split(self, x: Vector, rng: Rng, into: Parts, *, threads: int = 1) -> Split:
        (places,) = into
        chosen, nonfinite = native.largest(x.bits, x.format, self.reduced(x.count))
        places[:] = subsets.encode(chosen, x.count)
        return Split(Vector(x.bits[chosen], x.format), Tally(0, nonfinite))

    def join(self, parts: Parts, reduced: Vector, out: Vector, *, threads: int = 1) -> Tally:
        return scatter(subsets.decode(parts[0], out.count, reduced.count), reduced, out)

    def accumulate(self, parts: Parts, reduced: Vector, totals: npt.NDArray[Any]) -> Tally:
        return scatter_add(subsets.decode(parts[0], totals.size, reduced.count), reduced, totals)

    @property
    def keeps_largest(self) -> bool:
        return True

    def guarantee(self, d: int, format: Format, inner: Guarantee) -> Guarantee:
        share = self.reduced(d) / d if d else 1.0
        if share == 1:
            return inner
        # An error above 1 is worst where all of the vector is kept.
        alpha = max(1 - share * (1 - inner.error), inner.error)
        return replace(inner, omega=None, alpha=alpha, sure=inner.sure or inner.error == 0)
