r"""Top-k: keep the $k$ largest magnitudes and their places; another operator writes the values.

This is a stage and stands before an operator: `top-k:fraction=0.01|natural`. With $S$ the places of
the $k$ largest $|x_i|$, ties to the lower index, and $C$ the operator that follows,
$$ y_i = C(x_S)_i \text{ if } i \in S, \text{ else } 0, \qquad k = \lfloor d f + \tfrac12 \rfloor
   \text{ for the fraction } f, \text{ at least } 1 . $$
With $\kappa = k/d$: before an operator that loses nothing, $\|y - x\|^2 \le (1 - \kappa) \|x\|^2$
surely, with equality where all magnitudes are equal. Before one with $\omega \le 1$ or with
$\alpha$,
$$ E\|y - x\|^2 \le (1 - \kappa (1 - \omega))\,\|x\|^2 , $$
because the kept part has at least a fraction $\kappa$ of $\|x\|^2$. It is tight if all magnitudes
are equal and the operator's own bound is tight. Top-k is biased: use it with error feedback.

Any $k$ places cost less than $\log_2 \binom{d}{k} + 0.56 \min(k, d - k) + 24$ bits. They cost
8.5 bits for each value that is kept at $f = 0.01$, 5.1 at $f = 0.1$.

Ends of the range. Magnitudes are compared as bits, so NaN come first, then infinities. A vector
that is not finite never becomes finite. Values that are not kept decode to +0.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from fewbits.backend.kernel import RANGED, Kernel, Kind
from fewbits.coding import subsets
from fewbits.core.guarantee import Guarantee
from fewbits.families.selection import Selection
from fewbits.reference.formats import Format
from fewbits.wire.sections import Packed, PlaceSet, Section


@dataclass(frozen=True, slots=True)
class TopK(Selection):
    """Keep the largest magnitudes and their places."""

    name: ClassVar[str] = "top-k"
    code: ClassVar[int] = 10
    formula: ClassVar[str] = "α = 1 − (k/d)(1 − ω)"
    kind: ClassVar[Kind] = Kind.TOP_K

    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        return (PlaceSet("places", self.reduced(d), within=d),)

    def earlier(self) -> "TopK":
        return _RangedTopK(self.fraction)

    def guarantee(self, d: int, format: Format, inner: Guarantee) -> Guarantee:
        kept = self.reduced(d)
        share = kept / d if d else 1.0
        if share == 1:
            return inner
        # An error above 1 is worst where all of the vector is kept.
        alpha = max(1 - share * (1 - inner.error), inner.error)
        return replace(inner, omega=None, alpha=alpha, sure=inner.sure or inner.error == 0)


@dataclass(frozen=True, slots=True)
class _RangedTopK(TopK):
    """Top-k in frames of wire version 1, which are only read."""

    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        return (Packed("places", subsets.size(d, self.reduced(d)), width=8, bound=256),)

    def kernel(self, d: int) -> Kernel:
        kept = self.reduced(d)
        return Kernel(self.kind, RANGED if kept < d else 0, (kept,))  # all: there are no places
