r"""Trellis: levels of half the step, of which a path through a trellis offers every other one.

For a vector of $d$ values the step is
$$ \Delta = \tfrac{31}{32} \sqrt{\nu / d}\, \|x\|, $$
half of that of `sparse-dithering`. Every value becomes a whole level $n_i$. Of the levels a state
offers the even or the odd ones, and the next state follows from the state and from bit 1 of $n_i$:
a convolutional code of rate ½ with 4, 8 or 16 states (Ungerboeck, 1982). Viterbi's algorithm finds
the path that is nearest to the vector, exactly in whole numbers, for 32 paths at a time. Levels are
entropy coded with tables that the state chooses.

On a path the spacing is $2 \Delta$, so a value is never farther than $\Delta$ from a level that is
offered. But the path may be chosen, and its mean squared error is $0.26\,\Delta^2$ with 8 states
where rounding to multiples of $2 \Delta$ has $\Delta^2 / 3$: more than half of what any quantiser
may gain, in decibels. More states gain more and take longer.

**`rounding=nearest`** (default): deterministic, biased and contractive:
$$ \|C(x) - x\|^2 \le \nu \|x\|^2 \quad\text{surely,} \qquad \nu < 1. $$
About $0.26\,\nu$ on Gaussian vectors. `scale=least-squares` sends
$\langle x, n \rangle / \langle n, n \rangle$ in place of $\Delta$: same bits, never a larger error.

**`rounding=subtractive`**: the path nearest to $s_i x_i / \Delta + u_i$ is taken and the result is
$s_i \Delta (n_i - u_i)$, with $u_i$ uniform on $[0, 4)$ and random signs $s_i$, drawn again by the
decoder from a key in the frame. It is unbiased, and the law of the error does not depend on $x$:
$$ E\,C(x) = x, \qquad E\|C(x) - x\|^2 \le \tfrac{\nu}{3} \|x\|^2 ; $$
about $0.25\,\nu$ in fact. *Theory* has the proofs.

**When to use it.** If workers' results are averaged: it has less error than `sparse-dithering` at
equal bits, for every rate. Nearest gains above two bits a value. Below that, and on vectors with
many zeros, `sparse-dithering` is as good. Zeros do not stay zeros with `subtractive`.

**Ends of the range.** As in `sparse-dithering`. A vector that holds a NaN or an infinity decodes to
NaN everywhere, with `nonfinite="carry"`.

Reference: Ungerboeck, *Channel coding with multilevel/phase signals* (1982); Marcellin and Fischer,
*Trellis coded quantization* (1990).
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

from fewbits.backend.kernel import Kernel, Kind
from fewbits.coding.paths import POLYNOMIALS
from fewbits.core.guarantee import Guarantee
from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.reference.formats import FLOAT32, Format
from fewbits.reference.grid_scales import LEAST_SQUARES, NORM, scale_format
from fewbits.reference.trellis import Trellis
from fewbits.wire.sections import Coded, Floats, Section, key_section

_LARGEST_BOUND = 1 << 16
_MARGIN = 31 / 32  # of the step: values are taken to sixteenths of it
_SLOP = 2.0**-20  # far above what divisions in float32 move a value, in steps


@dataclass(frozen=True, slots=True)
class TrellisPaths(Operator):
    """Round to levels on the best path through a trellis; unbiased with `rounding=subtractive`."""

    name: ClassVar[str] = "trellis"
    code: ClassVar[int] = 14
    formula: ClassVar[str] = "α = ν; subtractive: ω = ν/3"
    nu: float = 0.1
    rounding: Literal["nearest", "subtractive"] = "nearest"
    scale: Literal["norm", "least-squares"] = "norm"
    states: int = 8

    def __post_init__(self) -> None:
        Operator.__post_init__(self)
        if not self.nu > 0:
            raise SpecError(f"nu must be above 0, got {self.nu}")
        if not self.nu / 3 > 0:
            raise SpecError(f"nu={self.nu} is too small, its third is 0: choose a larger one")
        if self.rounding == "nearest" and not self.nu < 1:
            raise SpecError(
                f"nu must be below 1 for rounding=nearest, got {self.nu}: "
                "use sparse-dithering for fewer bits"
            )
        if self.states not in POLYNOMIALS:
            raise SpecError(f"states must be 4, 8 or 16, got {self.states}")
        if self.scale != "norm" and self.rounding != "nearest":
            raise SpecError(
                f"scale={self.scale} would make rounding={self.rounding} biased: "
                "it goes with rounding=nearest only"
            )

    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        scales = Floats("scales", min(d, 1), scale_format(format))
        codes = Coded("codes", d, self._bound(d, format), signed=True)
        return (scales, codes, key_section()) if self._dithered else (scales, codes)

    @property
    def _dithered(self) -> bool:
        return self.rounding == "subtractive"

    def kernel(self, d: int, format: Format) -> Kernel:
        return _kernel(self, d, format)

    def paths(self, d: int, format: Format) -> Trellis:
        """The numbers of the kernel."""
        return Trellis(
            self.nu,
            self._shrink(format),
            self._high(format),
            self._bound(d, format),
            self.states,
            self._dithered,
            LEAST_SQUARES if self.scale == "least-squares" else NORM,
        )

    def _high(self, format: Format) -> float:
        """Up to where random results stay below the largest number: they are two steps off."""
        return format.largest_value / (1 + 2 * math.sqrt(self.nu)) if self._dithered else math.inf

    def guarantee(self, d: int, format: Format = FLOAT32) -> Guarantee:
        bits, scale = self.max_frame_bits(d, format), scale_format(format)
        least = scale.smallest_normal * max(1.0, math.sqrt(max(d, 1) / self.nu))
        low = max(format.smallest_normal, 2 * least)
        if self._dithered:
            return Guarantee(omega=self.nu / 3, bits=bits, low=low, high=self._high(format))
        return Guarantee(alpha=self.nu, sure=True, bits=bits, low=low)

    def _shrink(self, format: Format) -> float:
        """The factor of the step that makes room for its sixteenths and for rounding results."""
        root = math.sqrt(self.nu / 3 if self._dithered else self.nu)
        unit = 2.0 ** -(format.mantissa + 1)
        return _MARGIN * (1 - unit * (1 + root) / root - _SLOP)

    def _bound(self, d: int, format: Format) -> int:
        """Above all levels: a value of at most root d steps' worth, two steps off, and a dither."""
        shrink = self._shrink(format)
        if shrink < 2 / 3:
            raise SpecError(f"nu={self.nu} is too fine for {format.name}: choose a larger one")
        reach = 1.000001 * math.sqrt(d / self.nu) / shrink
        if reach + 8 > _LARGEST_BOUND:
            raise SpecError(
                f"nu={self.nu} needs levels of more than 16 bits for {d} values: "
                "choose a larger nu, or sparse-dithering with block="
            )
        return int(reach) + 8


@lru_cache(1024)
def _kernel(operator: TrellisPaths, d: int, format: Format) -> Kernel:
    return Kernel(Kind.TRELLIS, 0, operator.paths(d, format))
