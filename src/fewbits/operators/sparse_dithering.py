r"""Sparse dithering: whole multiples of one step, which adapts to the norm, most of them zero.

For a vector of $d$ values (or a block of them, with `block=`) the step is
$$ \Delta = 2 \sqrt{\nu / d}\, \|x\| = 2 \sqrt\nu \cdot \mathrm{rms}(x), $$
every value becomes $\Delta q_i$ with a whole number $q_i$, and what travels is $\Delta$ and the
numbers. `rounding` says which numbers.

**`rounding=nearest`** (default): $q_i$ is the integer nearest to $x_i / \Delta$. Deterministic,
biased, contractive:
$$ \|C(x) - x\|^2 \le \min(\nu, 1) \|x\|^2 \quad\text{surely.} $$
Tight at $\nu = 1/(2k+1)^2$ on vectors whose values have one magnitude: all lie half-way. About
$\nu / 3$ on Gaussian vectors while $\nu \le 0.5$. Values below $\Delta / 2$ become 0, so a large
$\nu$ makes a sparsifier; above 1 all values could, and then the largest alone is sent.
`scale=least-squares` sends $\langle x, q \rangle / \langle q, q \rangle$ in place of $\Delta$:
same bits, never a larger error, a quarter less at $\nu = 1$, and $\alpha \le 1 - 3/(4d)$ for every
$\nu$. `scale=matched` sends $\|x\|^2 / \langle x, q \rangle$, which leaves
$\langle C(x), x \rangle = \|x\|^2$: no part of the error lies along $x$.
Its error is $e / (1 - e)$ for the error $e$ of least squares, so surely at most
$\nu / (1 - \nu)$, and that is attained. After `hadamard:signs=private`, where values look Gaussian
whatever they were, it is nearly unbiased: *Choosing* has its measured bias. It states no $\omega$.

**`rounding=stochastic`**: $q_i$ is one of the two integers next to $x_i / \Delta$, at random:
$$ E\,C(x) = x, \qquad E\|C(x) - x\|^2 \le \omega \|x\|^2, \qquad
   \omega = \begin{cases} \nu & \nu \le 1, \\ 2 \sqrt\nu - 1 & \nu > 1. \end{cases} $$
Tight on vectors of one magnitude, at $\nu = 1/(2k+1)^2$ and for every $\nu \ge 1$. The second case
is sharper than the paper's $\omega = \nu$. At $\nu = 1/4$ it is QSGD with $\sqrt d$ levels.

**`rounding=subtractive`** (not in the paper): $q_i$ is the integer nearest to $x_i / \Delta + u_i$
and the result is $\Delta (q_i - u_i)$, with $u_i$ uniform on $[-\frac12, \frac12)$ drawn again by
the decoder from a key of 16 bytes in the frame. Unbiased, and the error of every value is uniform
on $[-\frac\Delta2, \frac\Delta2]$ whatever the value is:
$$ E\,C(x) = x, \qquad E\|C(x) - x\|^2 = \tfrac{\nu}{3} \|x\|^2 . $$
The error of nearest rounding without its bias, and half of what stochastic rounding has on
Gaussian vectors. The price: zeros do not stay zeros, so it is not for sparse vectors.

**Which coder.** `coder=rans` (default) writes the numbers near their entropy, for every $d$.
`coder=paper` writes the paper's five fields (scale, number of zeros, their places, signs, unary
magnitudes) for blocks of at most 4096 values. The paper's bounds are about that stream: for
$d \ge 3$, and if no field were rounded up to whole bits,
$$ 30 + \log_2 d + 3.35\,d \text{ bits surely at } \nu = \tfrac1{10}, \qquad
   30 + \log_2 d + \bigl(\log_2 3 + \tfrac{1}{2 \sqrt\nu}\bigr)\,d \text{ on average} $$
with nearest and with stochastic rounding. What is written is at most 3 bits longer. (The poster
prints $\sqrt\nu$ for $2\sqrt\nu$ in the general form of the first bound: a misprint.) Entropy
coding is shorter on Gaussian vectors, and near the entropy of the numbers, also where nearly all
of them are 0.

**When to use it.** Nearest with `least-squares` has the least error for its bits, near
$\frac12 \log_2 (1 / \text{error})$ on Gaussian vectors: use it with error feedback, or on one
worker. Where workers' results are averaged, take `subtractive` for dense vectors and `stochastic`
for sparse ones.

**Ends of the range.** Scales are float32, or float64 for float64 vectors. The step is made a little
smaller than above, by the rounding of the vector's format, so that the promise holds for the
decoded numbers; where $\nu$ is too fine for that, or for codes of 16 bits, a `SpecError` says so.
Results beyond the largest number of the format become it; the unbiased roundings promise nothing
for values from which that can happen, and count them. With `nonfinite="carry"` a block that
holds a NaN or an infinity decodes to NaN everywhere.

Reference: Albasyoni, Safaryan, Condat, Richtárik, *Optimal Gradient Compression for Distributed and
Federated Learning* (2020).
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from fewbits.coding import enumerative
from fewbits.core.guarantee import Guarantee
from fewbits.core.keys import key_section, read_key
from fewbits.core.operator import Operator, Parts, Written
from fewbits.core.vector import Vector, count_above
from fewbits.errors import DecodeError, SpecError
from fewbits.kernels import native_steps, steps
from fewbits.kernels.formats import FLOAT32, FLOAT64, Bits, Format
from fewbits.kernels.reference import to_float64
from fewbits.kernels.steps import Blocks
from fewbits.kernels.units import Tally
from fewbits.rng import Rng
from fewbits.wire.sections import Coded, Enumerated, Floats, Section

LARGEST_BOUND = 1 << 16
LARGEST_BLOCK = 1 << 63  # what a parameter can hold
_SLOP = 2.0**-32  # far above the rounding errors of a norm, far below those of float32


@dataclass(frozen=True, slots=True)
class SparseDithering(Operator):
    """Round to multiples of a step in proportion to the norm."""

    name: ClassVar[str] = "sparse-dithering"
    code: ClassVar[int] = 7

    nu: float = 0.1
    rounding: Literal["nearest", "stochastic", "subtractive"] = "nearest"
    coder: Literal["rans", "paper"] = "rans"
    scale: Literal["norm", "least-squares", "matched"] = "norm"
    block: int = 0

    def __post_init__(self) -> None:
        Operator.__post_init__(self)
        object.__setattr__(self, "nu", float(self.nu))
        if not 0 < self.nu < math.inf:
            raise SpecError(f"nu must be above 0, got {self.nu}")
        if not 0 <= self.block < LARGEST_BLOCK:
            raise SpecError(f"block must be 0 (the whole vector) or below 2^63, got {self.block}")
        if self.scale != "norm" and self.rounding != "nearest":
            raise SpecError(
                f"scale={self.scale} would make rounding={self.rounding} biased: "
                "it goes with rounding=nearest only"
            )
        if self.coder == "paper" and self.rounding == "subtractive":
            raise SpecError("rounding=subtractive is not in the paper's stream: use coder=rans")

    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        blocks, scale = Blocks.of(d, self.block), _scale_format(format)
        widest = min(blocks.size, d)
        spread = self._spread(format)
        bound = self._bound(widest, spread)
        if self.coder == "paper":
            if widest > enumerative.LARGEST_BLOCK:
                raise SpecError(
                    f"coder=paper is for at most {enumerative.LARGEST_BLOCK} values, got {widest}: "
                    f"use coder=rans, or block={enumerative.LARGEST_BLOCK}"
                )
            slack = 0.5 if self.rounding == "nearest" else 1.0
            return (Enumerated("stream", d, max(widest, 1), scale, bound, spread, slack),)
        scales = Floats("scales", blocks.number, scale)
        codes = Coded("codes", d, bound, signed=True)
        if self.rounding != "subtractive":
            return scales, codes
        return scales, codes, key_section()

    def encode(self, x: Vector, rng: Rng, into: Parts, *, threads: int = 1) -> Written:
        dither = rng.fork("dither") if self.rounding == "subtractive" else rng
        layout = self.layout(x.count, x.format)
        if self.coder == "rans" and native_steps.suits(x.format, Blocks.of(x.count, self.block)):
            written = self._encode_natively(x, dither, layout, into, threads)
            if written is not None:
                return written
        scales, codes, tally = self.quantised(x, dither, threads=threads)
        values: tuple[npt.NDArray[np.generic], ...] = scales, codes
        if self.coder == "paper":
            values = (np.concatenate([scales.astype(np.int64), codes.astype(np.int64)]),)
        elif self.rounding == "subtractive":
            key = np.frombuffer(dither.key, np.uint8).astype(np.uint16)
            values = scales, codes, key
        sizes = tuple(
            section.write(own, part)
            for section, own, part in zip(layout, values, into, strict=True)
        )
        return Written(tally, sizes)

    def _encode_natively(
        self, x: Vector, rng: Rng, layout: tuple[Section, ...], into: Parts, threads: int
    ) -> Written | None:
        """The same bytes by the native core; None for the rare vectors that it does not settle.

        Those have a value that is not finite, or a block of codes that are all zero where the
        largest value must be sent.
        """
        blocks = Blocks.of(x.count, self.block)
        squares = native_steps.squared_norms(x.bits, blocks, threads)
        scanned = steps.Scanned(np.zeros(blocks.number, np.int32), squares, 0)
        sent = self._step_bits(scanned, blocks, x.format)
        step = to_float64(sent, FLOAT32)
        codes = layout[1]
        assert isinstance(codes, Coded)
        found = native_steps.encode(
            x.bits,
            blocks,
            sent,
            rng,
            into[1],
            bound=codes.bound,
            rounding=self.rounding,
            fit=self.scale != "norm",
            threads=threads,
        )
        bare = (step > 0) & (found.squares == 0)
        if found.nonfinite or (self.rounding == "nearest" and bare.any()):
            return None
        with np.errstate(invalid="ignore", divide="ignore"):
            if self.scale == "least-squares":
                self._fit(sent, step, found.products / found.squares, FLOAT32)
            elif self.scale == "matched":
                self._fit(sent, step, squares / found.products, FLOAT32)
        if self.rounding == "stochastic":
            sent[bare] = 0
        sizes: tuple[int, ...] = layout[0].write(sent, into[0]), found.size
        if self.rounding == "subtractive":
            key = np.frombuffer(rng.key, np.uint8).astype(np.uint16)
            sizes = (*sizes, layout[2].write(key, into[2]))
        return Written(Tally(saturated=self._saturated(x, scanned)), sizes)

    def _step_bits(self, scanned: steps.Scanned, blocks: Blocks, format: Format) -> Bits:
        """The steps of the blocks; 0 where all values are, NaN where one is not finite."""
        scale = _scale_format(format)
        with np.errstate(over="ignore", invalid="ignore"):
            wanted = np.ldexp(
                2 * np.sqrt(self.nu / blocks.sizes) * scanned.norms * self._shrink(format),
                scanned.exponents,
            )
        finite = np.isfinite(scanned.squares)
        usable = finite & (scanned.squares > 0)
        positive = np.where(usable, wanted, 1.0)
        sent = steps.rounded_scales(positive, scale, np.zeros(blocks.number, np.bool_))
        sent = np.where(finite, np.where(usable, sent, 0), scale.quiet_nan)
        return sent.astype(scale.bits)

    def quantised(
        self, x: Vector, rng: Rng, *, threads: int = 1
    ) -> tuple[Bits, npt.NDArray[np.int32], Tally]:
        """The bits of the blocks' scales, and the codes."""
        blocks = Blocks.of(x.count, self.block)
        scanned = steps.scan(x.bits, x.format, blocks, threads)
        sent = self._step_bits(scanned, blocks, x.format)
        step = to_float64(sent, _scale_format(x.format))
        rounded = {
            "nearest": steps.nearest,
            "stochastic": steps.stochastic(rng),
            "subtractive": steps.subtractive(rng),
        }[self.rounding]
        codes = steps.quantise(x.bits, x.format, blocks, step, rounded, threads)
        if self.rounding != "subtractive":
            self._settle(x, blocks, scanned, codes, sent, threads)
        return sent, codes, Tally(self._saturated(x, scanned), scanned.nonfinite)

    def _high(self, format: Format) -> float:
        """Up to where random results stay below the largest number: a step is 2 sqrt(nu) rms."""
        reach = {"nearest": 0.0, "stochastic": 2.0, "subtractive": 1.0}[self.rounding]
        return format.largest_value / (1 + reach * math.sqrt(self.nu)) if reach else math.inf

    def _saturated(self, x: Vector, scanned: steps.Scanned) -> int:
        """How many values are so large that their results may be cut to the largest number."""
        high = self._high(x.format)
        with np.errstate(over="ignore", invalid="ignore"):
            within = np.ldexp(scanned.norms, scanned.exponents) <= high
        return 0 if within.all() else count_above(x, high)

    def _settle(
        self,
        x: Vector,
        blocks: Blocks,
        scanned: steps.Scanned,
        codes: npt.NDArray[np.int32],
        sent: Bits,
        threads: int,
    ) -> None:
        """The scales that are sent, given the codes; a block of zeros has the scale 0."""
        scale = _scale_format(x.format)
        step = to_float64(sent, scale)
        if self.scale != "norm":
            sums = steps.fit(x.bits, x.format, blocks, scanned, codes, threads)
            self._fit(
                sent, step, sums.best if self.scale == "least-squares" else sums.matched, scale
            )
        some = _nonzero_blocks(codes, blocks)
        for block in np.flatnonzero((step > 0) & ~some).tolist():
            sent[block] = 0
            if self.rounding == "nearest":
                at, value = steps.largest(x.bits, x.format, blocks, block)
                codes[at] = -1 if value < 0 else 1
                own = np.array([abs(value)])
                if self.scale == "matched":
                    own = np.array([scanned.matched(block, abs(value))])
                sent[block] = steps.rounded_scales(own, scale, np.zeros(1, np.bool_))[0]

    @staticmethod
    def _fit(sent: Bits, step: steps.Numbers, fitting: steps.Numbers, scale: Format) -> None:
        """Replace the steps by scales that fit the codes better."""
        usable = (step > 0) & np.isfinite(fitting)
        # Towards the step: from the best scale on the error grows, so it stays below nu.
        numbers = np.where(usable, fitting, 1.0)
        rounded = steps.rounded_scales(numbers, scale, numbers < step)
        sent[usable] = rounded[usable]

    def decode(self, parts: Parts, out: Vector, *, threads: int = 1) -> Tally:
        layout = self.layout(out.count, out.format)
        blocks, scale = Blocks.of(out.count, self.block), _scale_format(out.format)
        dither = read_key(parts[2]) if self.rounding == "subtractive" else None
        if self.coder == "rans" and native_steps.suits(out.format, blocks):
            scales, codes_of = layout[0].read(parts[0]), layout[1]
            assert isinstance(codes_of, Coded)
            codes_of.check(parts[1].size)
            some = native_steps.decode(
                parts[1],
                blocks,
                scales,
                out.bits,
                bound=codes_of.bound,
                dither=dither,
                threads=threads,
            )
            nan = self._check(scales, some, scale)
            return Tally(nonfinite=int(blocks.sizes[nan].sum()))
        if self.coder == "paper":
            values = layout[0].read(parts[0])
            scales = values[: blocks.number].astype(scale.bits)
            codes = values[blocks.number :].astype(np.int32)
        else:
            scales, codes = layout[0].read(parts[0]), layout[1].read(parts[1])
        nan = self._check(scales, _nonzero_blocks(codes, blocks), scale)
        steps.dequantise(
            codes, to_float64(scales, scale), blocks, out.format, out.bits, dither, threads
        )
        return Tally(nonfinite=int(blocks.sizes[nan].sum()))

    def _check(
        self, scales: Bits, some: npt.NDArray[np.bool_], scale: Format
    ) -> npt.NDArray[np.bool_]:
        """Refuse scales that encoding cannot have sent; which of them are NaN."""
        nan = scales == scale.quiet_nan
        if (~nan & (scales >= scale.infinity)).any():
            raise DecodeError("a scale is negative or infinite, or another NaN than the quiet one")
        bare = nan | (scales == 0)
        if (some & bare).any():
            raise DecodeError("a block without a scale has codes that are not zero")
        if self.rounding != "subtractive" and (~some & ~bare).any():
            raise DecodeError("a block has a scale and only zeros")
        return np.asarray(nan, np.bool_)

    def guarantee(self, d: int, format: Format = FLOAT32) -> Guarantee:
        bits, scale = self.most_bits(d, format), _scale_format(format)
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


def _scale_format(format: Format) -> Format:
    """The format of the scales of a vector."""
    return FLOAT64 if format == FLOAT64 else FLOAT32


def _unit(format: Format) -> float:
    """The largest relative error of rounding to the format."""
    return float(2.0 ** -(format.mantissa + 1))


def _nonzero_blocks(codes: npt.NDArray[np.int32], blocks: Blocks) -> npt.NDArray[np.bool_]:
    """Which blocks have a code that is not 0."""
    if not blocks.count:
        return np.zeros(0, np.bool_)
    starts = np.arange(0, blocks.count, blocks.size)
    return np.asarray(np.logical_or.reduceat(codes, starts), np.bool_)
