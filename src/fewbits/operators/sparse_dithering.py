r"""Sparse dithering: whole multiples of one step, which adapts to the norm, most of them zero.

For a vector of $d$ values (or a block of them, with `block=`) the step is
$$ \Delta = 2 \sqrt{\nu / d}\, \|x\| = 2 \sqrt\nu \cdot \mathrm{rms}(x), $$
every value becomes $\Delta q_i$ with a whole number $q_i$, and $\Delta$ and the numbers travel.
`rounding` chooses the numbers.

**`rounding=nearest`** (default): $q_i$ is the integer nearest to $x_i / \Delta$. This rounding is
deterministic, biased and contractive:
$$ \|C(x) - x\|^2 \le \min(\nu, 1) \|x\|^2 \quad\text{surely.} $$
It is tight at $\nu = 1/(2k+1)^2$ on vectors whose values have one magnitude: all lie half-way. The
error is about $\nu / 3$ on Gaussian vectors while $\nu \le 0.5$. Values below $\Delta / 2$ become
0, so a large $\nu$ sparsifies. Above 1 all values may become 0; then only the largest is sent.
`scale=least-squares` sends $\langle x, q \rangle / \langle q, q \rangle$ in place of $\Delta$: same
bits, never a larger error, a quarter less at $\nu = 1$, and $\alpha \le 1 - 3/(4d)$ for every
$\nu$. `scale=matched` sends $\|x\|^2 / \langle x, q \rangle$, which leaves
$\langle C(x), x \rangle = \|x\|^2$: no part of the error lies along $x$.
Its error is $e / (1 - e)$ for the error $e$ of least squares, so surely at most
$\nu / (1 - \nu)$, and that is attained. After `hadamard:signs=private`, which makes values look
Gaussian, it is nearly unbiased: *Choosing* has its measured bias. It states no $\omega$.

**`rounding=stochastic`**: $q_i$ is one of the two integers next to $x_i / \Delta$, at random:
$$ E\,C(x) = x, \qquad E\|C(x) - x\|^2 \le \omega \|x\|^2, \qquad
   \omega = \begin{cases} \nu & \nu \le 1, \\ 2 \sqrt\nu - 1 & \nu > 1. \end{cases} $$
It is tight on vectors of one magnitude, at $\nu = 1/(2k+1)^2$ and for every $\nu \ge 1$. The second
case is sharper than the paper's $\omega = \nu$. At $\nu = 1/4$ it is QSGD with $\sqrt d$ levels.

**`rounding=subtractive`** (not in the paper): $q_i$ is the integer nearest to $x_i / \Delta + u_i$
and the result is $\Delta (q_i - u_i)$, with $u_i$ uniform on $[-\frac12, \frac12)$ drawn again by
the decoder from a key of 16 bytes in the frame. It is unbiased, and the error of every value is
uniform on $[-\frac\Delta2, \frac\Delta2]$ whatever the value is:
$$ E\,C(x) = x, \qquad E\|C(x) - x\|^2 = \tfrac{\nu}{3} \|x\|^2 . $$
That is the error of nearest rounding without its bias, and half that of stochastic rounding on
Gaussian vectors. The coder has a table for each phase of the dither, so that what the decoder knows
of $u_i$ is not paid for; *Theory* says why that matters where $\nu$ is large. Zeros do not stay
zeros, so it is not for sparse vectors.

**Which coder.** `coder=rans` (default) writes the numbers near their entropy, for every $d$, and
surely in at most 3.25 bits each at $\nu = \tfrac1{10}$ and $d \ge 65\,536$; *Theory* has the proof.
`coder=paper` writes the paper's five fields (scale, number of zeros, their places, signs, unary
magnitudes) for blocks of at most 4096 values. The paper's bounds are about that stream: for
$d \ge 3$, and if no field were rounded up to whole bits,
$$ 30 + \log_2 d + 3.35\,d \text{ bits surely at } \nu = \tfrac1{10}, \qquad
   30 + \log_2 d + \bigl(\log_2 3 + \tfrac{1}{2 \sqrt\nu}\bigr)\,d \text{ on average} $$
with nearest and with stochastic rounding. The written stream is at most 3 bits longer. (The poster
prints $\sqrt\nu$ for $2\sqrt\nu$ in the general form of the first bound: a misprint.) Entropy
coding is shorter on Gaussian vectors, and near the entropy of the numbers even if nearly all of
them are 0.

**When to use it.** Nearest with `least-squares` has the least error for its bits, near
$\frac12 \log_2 (1 / \text{error})$ on Gaussian vectors: use it with error feedback, or on one
worker. If workers' results are averaged, take `subtractive` for dense vectors and `stochastic` for
sparse ones.

**Ends of the range.** Scales are float32, or float64 for float64 vectors. The step is made a little
smaller than above, by the rounding of the vector's format, so that the promise holds for the
decoded numbers. If $\nu$ is too fine for that, or for codes of 16 bits, a `SpecError` says so.
Results beyond the largest number of the format become it. The unbiased roundings promise nothing
for values that can give such results, and count them. With `nonfinite="carry"` a block that holds a
NaN or an infinity decodes to NaN everywhere.

Reference: Albasyoni, Safaryan, Condat, Richtárik, *Optimal Gradient Compression for Distributed and
Federated Learning* (2020).
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

from fewbits.backend.kernel import Kernel, Kind
from fewbits.coding.enumerative import LARGEST_STREAM_BLOCK
from fewbits.coding.worst import largest_coded
from fewbits.core.guarantee import Guarantee
from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.reference.blocks import Blocks
from fewbits.reference.formats import FLOAT32, Format
from fewbits.reference.grid_scales import (
    LEAST_SQUARES,
    MATCHED,
    NEAREST,
    NORM,
    STOCHASTIC,
    SUBTRACTIVE,
    Grid,
    scale_format,
)
from fewbits.wire.sections import Coded, Enumerated, Floats, Section, key_section

_ROUNDINGS = {"nearest": NEAREST, "stochastic": STOCHASTIC, "subtractive": SUBTRACTIVE}
_SCALES = {"norm": NORM, "least-squares": LEAST_SQUARES, "matched": MATCHED}
LARGEST_BOUND = 1 << 16
_LARGEST_BLOCK = 1 << 63  # what a parameter can hold
_SLOP = 2.0**-32  # far above the rounding errors of a norm, far below those of float32


@dataclass(frozen=True, slots=True)
class SparseDithering(Operator):
    """Round to multiples of a step in proportion to the norm, which `nu` sets."""

    name: ClassVar[str] = "sparse-dithering"
    code: ClassVar[int] = 7
    formula: ClassVar[str] = "α = ν; stochastic: ω = ν; subtractive: ω = ν/3"
    nu: float = 0.1
    rounding: Literal["nearest", "stochastic", "subtractive"] = "nearest"
    coder: Literal["rans", "paper"] = "rans"
    scale: Literal["norm", "least-squares", "matched"] = "norm"
    block: int = 0

    def __post_init__(self) -> None:
        Operator.__post_init__(self)
        if not self.nu > 0:
            raise SpecError(f"nu must be above 0, got {self.nu}")
        if not self._error > 0:
            raise SpecError(f"nu={self.nu} is too small, its third is 0: choose a larger one")
        if not 0 <= self.block < _LARGEST_BLOCK:
            raise SpecError(f"block must be 0 (the whole vector) or below 2^63, got {self.block}")
        if self.scale != "norm" and self.rounding != "nearest":
            raise SpecError(
                f"scale={self.scale} would make rounding={self.rounding} biased: "
                "it goes with rounding=nearest only"
            )
        if self.coder == "paper" and self.rounding == "subtractive":
            raise SpecError("rounding=subtractive is not in the paper's stream: use coder=rans")

    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        blocks, scale = Blocks.of(d, self.block), scale_format(format)
        widest = min(blocks.size, d)
        spread = self._spread(format)
        bound = self._bound(widest, spread)
        if self.coder == "paper":
            if widest > LARGEST_STREAM_BLOCK:
                raise SpecError(
                    f"coder=paper is for at most {LARGEST_STREAM_BLOCK} values, got {widest}: "
                    f"use coder=rans, or block={LARGEST_STREAM_BLOCK}"
                )
            reach, slack = self._reach(spread), self._slack
            return (Enumerated("stream", d, max(widest, 1), scale, bound, reach, slack),)
        scales = Floats("scales", blocks.number, scale)
        codes = Coded("codes", d, bound, signed=True, promised=self._promised(blocks, spread))
        if self.rounding != "subtractive":
            return scales, codes
        return scales, codes, key_section()

    @property
    def _slack(self) -> float:
        """How far a code is above |x| / step at most."""
        return 0.5 if self.rounding == "nearest" else 1.0

    def _promised(self, blocks: Blocks, spread: float) -> int:
        """Bytes of codes q: those above 0 have q - slack <= |x| / step, whose squares add up.

        The largest value of a block adds to them where it is sent though all round to 0.
        """
        squares = self._reach(spread) ** 2 * blocks.count + 0.25 * blocks.number
        return largest_coded(blocks.count, squares, self._slack)

    def _reach(self, spread: float) -> float:
        """The spread where a step may be cut to the largest float: then codes are 1 at most."""
        return max(spread, self._slack) if self.rounding == "nearest" else spread

    def kernel(self, d: int, format: Format) -> Kernel:
        return _kernel(self, d, format)

    def grid(self, d: int, format: Format) -> Grid:
        """The numbers of the kernel."""
        return Grid(
            self.nu,
            self._shrink(format),
            self._high(format),
            self._bound(min(self.block or d, d), self._spread(format)),
            self.block,
            _ROUNDINGS[self.rounding],
            _SCALES[self.scale],
            self.coder == "paper",
        )

    def _high(self, format: Format) -> float:
        """Up to where random results stay below the largest number: a step is 2 sqrt(nu) rms."""
        reach = {"nearest": 0.0, "stochastic": 2.0, "subtractive": 1.0}[self.rounding]
        return format.largest_value / (1 + reach * math.sqrt(self.nu)) if reach else math.inf

    def guarantee(self, d: int, format: Format = FLOAT32) -> Guarantee:
        bits, scale = self.max_frame_bits(d, format), scale_format(format)
        block = max(min(self.block or d, d), 1)
        low = max(
            format.smallest_normal, scale.smallest_normal * max(1.0, math.sqrt(block / self.nu))
        )
        if self.rounding != "nearest":
            return Guarantee(omega=self._error, bits=bits, low=low, high=self._high(format))
        unit = _unit(format)
        # Codes are off by factors of 2/3 to 2, hence the angle between x and q.
        sine = 1 - 0.75 / block
        if self.scale == "matched":
            sine = min(self.nu, sine)
            tangent = math.sqrt(sine / (1 - sine))
            alpha = (tangent + (unit + _SLOP + 2.0**-23) * (1 + tangent)) ** 2
        elif self.scale == "least-squares":
            alpha = min(self.nu, (math.sqrt(sine) + unit) ** 2)
        else:
            alpha = min(self.nu, (1 + 2 * unit) ** 2)
        return Guarantee(alpha=alpha, sure=True, bits=bits, low=low)

    @property
    def _error(self) -> float:
        """The promised relative squared error of a step that is not shrunk."""
        if self.rounding == "subtractive":
            return self.nu / 3
        if self.rounding == "stochastic" and self.nu > 1:
            return 2 * math.sqrt(self.nu) - 1
        return self.nu

    def _shrink(self, format: Format) -> float:
        r"""The factor of the step that makes room for the rounding of results to the format.

        With unit $\rho$ that rounding moves the result by at most $\rho (1 + \sqrt e) \|x\|$, where
        $e$ is the promised error. $\sqrt e$ shrinks like the step, or half as fast where it grows
        like the fourth root of $\nu$.
        """
        root = math.sqrt(self._error)
        slope = 2 if self.rounding == "stochastic" and self.nu > 1 else 1
        return 1 - slope * _unit(format) * (1 + root) / root - _SLOP

    def _spread(self, format: Format) -> float:
        """A bound on a block's largest |x| / step, divided by the root of the block's size."""
        shrink = self._shrink(format)
        if shrink < 2 / 3:
            raise SpecError(f"nu={self.nu} is too fine for {format.name}: choose a larger one")
        return 1.000001 / (2 * math.sqrt(self.nu) * shrink)

    def _bound(self, size: int, spread: float) -> int:
        """A bound on the codes that is easy to compute: the spread is below 3/4 of a root."""
        if math.sqrt(size) * spread + 1 >= LARGEST_BOUND - 1:
            fits = int(((LARGEST_BOUND - 2) / spread) ** 2 * 0.99)
            raise SpecError(
                f"nu={self.nu} needs codes of more than 16 bits for {size} values: "
                f"choose a larger nu, or block={1 << (max(fits, 1).bit_length() - 1)}"
            )
        return min(int(0.751 * math.sqrt(size / self.nu)) + 2, LARGEST_BOUND)


def _unit(format: Format) -> float:
    """The largest relative error of rounding to the format."""
    return float(2.0 ** -(format.mantissa + 1))


@lru_cache(1024)
def _kernel(operator: SparseDithering, d: int, format: Format) -> Kernel:
    return Kernel(Kind.GRID, 0, operator.grid(d, format))
