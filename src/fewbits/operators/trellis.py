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
$\langle x, n \rangle / \langle n, n \rangle$ in place of $\Delta$: same bits, no larger error.
The error is then what the levels do not keep, so that $\nu$ may be 1 and more, for rates down to a
quarter of a bit: where levels keep less than a sixteenth of $\|x\|^2$, they are found again with
$\nu = 15/16$. So
$$ \|C(x) - x\|^2 \le \min(\nu, \tfrac{15}{16}) \|x\|^2 \quad\text{surely.} $$

**`rounding=subtractive`**: the path nearest to $s_i x_i / \Delta + u_i$ is taken and the result is
$s_i \Delta (n_i - u_i)$, with $u_i$ uniform on $[0, 4)$ and random signs $s_i$, drawn again by the
decoder from a key in the frame. It is unbiased, and the law of the error does not depend on $x$:
$$ E\,C(x) = x, \qquad E\|C(x) - x\|^2 \le \tfrac{\nu}{3} \|x\|^2 ; $$
about $0.25\,\nu$ in fact. *Theory* has the proofs.

**`bits=`** in place of `nu=` is a rate, in bits for each value. 8192 values of the vector are tried
and the finest step is taken that is within the rate. They are tried with a dither of their own, so
that the step says nothing of the dither of the vector and results stay unbiased. A header comes on
top, short vectors pay for their tables too, and vectors with heavy tails or neighbours that are
alike may take a tenth of a bit more or less. $\nu$ then depends on the vector, but it is never
above $8 / 4^b$, or $6 / (4^b - 1)$ with `subtractive`: there a long Gaussian vector is within $b$
bits. So $\omega \le 2 / (4^b - 1)$, twice the limit of all unbiased operators, and $\alpha \le 8 /
4^b$, or $15/16$ where that is less. Of more than about $6 \cdot 4^{16 - b}$ values levels would
need more than 16 bits, and both may be larger.

**When to use it.** If workers' results are averaged: it has less error than `sparse-dithering` at
equal bits. Nearest gains above two. Below that, and on vectors with many zeros, `sparse-dithering`
is as good, and better for fine steps on long vectors, whose levels would need more than 16 bits.
Zeros do not stay zeros with `subtractive`.

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
from fewbits.core.guarantee import Guarantee
from fewbits.core.operator import Operator
from fewbits.core.parameters import once_whole
from fewbits.errors import SpecError
from fewbits.reference.formats import FLOAT32, Format
from fewbits.reference.grid_scales import LEAST_SQUARES, NORM, scale_format
from fewbits.reference.trellis import LARGEST_LEVEL, SURE_NU, Trellis
from fewbits.reference.trellis_rate import number_at, place_of
from fewbits.wire.sections import Coded, Floats, Section, key_section

_MARGIN = 31 / 32  # of the step: values are taken to sixteenths of it
_LEAST_BITS = {"norm": 1.5, "least-squares": 0.25}
_LEAST_DITHERED_BITS, _MOST_BITS = 0.5, 7
_LEAST_PLACE = -64 * 32  # of a nu that 16 bits allow for one value alone
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
    states: Literal[4, 8, 16] = once_whole(8)
    bits: float = 0.0

    def __post_init__(self) -> None:
        Operator.__post_init__(self)
        fitted = self.scale == "least-squares"
        if fitted and self._dithered:
            raise SpecError(
                f"scale={self.scale} would make rounding={self.rounding} biased: "
                "it goes with rounding=nearest only"
            )
        if self.bits:
            self._check_bits()
        if not self.nu > 0:
            raise SpecError(f"nu must be above 0, got {self.nu}")
        if not self.nu / 3 > 0:
            raise SpecError(f"nu={self.nu} is too small, its third is 0: choose a larger one")
        if not (self.nu < 1 or self._dithered or fitted):
            raise SpecError(
                f"nu must be below 1 for rounding=nearest, got {self.nu}: "
                "add scale=least-squares for fewer bits"
            )

    def _check_bits(self) -> None:
        least = _LEAST_DITHERED_BITS if self._dithered else _LEAST_BITS[self.scale]
        if not least <= self.bits <= _MOST_BITS:
            hint = ""
            if not self._dithered and _LEAST_BITS["least-squares"] <= self.bits < least:
                hint = ": add scale=least-squares"
            elif self.bits > _MOST_BITS:
                hint = ": take sparse-dithering for finer steps"
            raise SpecError(
                f"bits must be from {least} to {_MOST_BITS} for "
                f"rounding={self.rounding},scale={self.scale}, got {self.bits}{hint}"
            )
        if self.nu != type(self)().nu:
            raise SpecError(f"give nu={self.nu} or bits={self.bits}, not both: bits finds nu")

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
            self._largest_nu(d, format),
            self._shrink(format),
            self._high(d, format),
            self._bound(d, format),
            self.states,
            self._dithered,
            LEAST_SQUARES if self.scale == "least-squares" else NORM,
            self.bits,
            *((_LEAST_PLACE, self._most_place(d, format)) if self.bits else (0, 0)),
        )

    @property
    def _nu(self) -> float:
        """The nu of the step, or one that is coarse enough for `bits` of a long Gaussian vector."""
        if not self.bits:
            return self.nu
        most = 6 / (4**self.bits - 1) if self._dithered else 8 * 4**-self.bits
        if self.scale == "norm" and not self._dithered:
            most = min(most, SURE_NU)
        return number_at(place_of(most))

    def _most_place(self, d: int, format: Format) -> int:
        """Where the largest nu is that `bits` may lead to: one whose levels are in 16 bits."""
        least = max(d, 1) * (1.000001 / self._shrink(format) / (LARGEST_LEVEL - 16)) ** 2
        most = max(place_of(self._nu), place_of(least) + 1)
        if self.scale == "norm" and not self._dithered and not number_at(most) < 1:
            raise SpecError(f"{d} values are too many for levels of 16 bits: cut the vector")
        return most

    def _largest_nu(self, d: int, format: Format) -> float:
        return number_at(self._most_place(d, format)) if self.bits else self.nu

    def _high(self, d: int, format: Format) -> float:
        """Up to where random results stay below the largest number: they are two steps off."""
        if not self._dithered:
            return math.inf
        return format.largest_value / (1 + 2 * math.sqrt(self._largest_nu(d, format)))

    def guarantee(self, d: int, format: Format = FLOAT32) -> Guarantee:
        bits, scale = self.max_frame_bits(d, format), scale_format(format)
        nu = self._largest_nu(d, format)
        least = scale.smallest_normal * max(1.0, math.sqrt(max(d, 1) / nu))
        if self.bits:
            least = scale.smallest_normal * LARGEST_LEVEL
        low = max(format.smallest_normal, 2 * least)
        if self._dithered:
            return Guarantee(omega=nu / 3, bits=bits, low=low, high=self._high(d, format))
        alpha = nu if self.scale == "norm" else min(nu, SURE_NU)
        return Guarantee(alpha=alpha, sure=True, bits=bits, low=low)

    def _shrink(self, format: Format) -> float:
        """The factor of the step that makes room for its sixteenths and for rounding results."""
        nu = self._nu if self.scale == "norm" else min(self._nu, SURE_NU)
        root = math.sqrt(nu / 3 if self._dithered else nu)
        unit = 2.0 ** -(format.mantissa + 1)
        return _MARGIN * (1 - unit * (1 + root) / root - _SLOP)

    def _bound(self, d: int, format: Format) -> int:
        """Above all levels: a value of at most root d steps' worth, two steps off, and a dither."""
        shrink = self._shrink(format)
        if shrink < 2 / 3:
            chosen = f"bits={self.bits}" if self.bits else f"nu={self.nu}"
            raise SpecError(f"{chosen} is too fine for {format.name}: choose a coarser one")
        if self.bits:
            return LARGEST_LEVEL
        finest = self.nu if self.scale == "norm" else min(self.nu, SURE_NU)
        reach = 1.000001 * math.sqrt(d / finest) / shrink
        if reach + 8 > LARGEST_LEVEL:
            raise SpecError(
                f"nu={self.nu} needs levels of more than 16 bits for {d} values: "
                "choose a larger nu, or sparse-dithering with block="
            )
        return int(reach) + 8


@lru_cache(1024)
def _kernel(operator: TrellisPaths, d: int, format: Format) -> Kernel:
    return Kernel(Kind.TRELLIS, 0, operator.paths(d, format))
