r"""Spherical compression: blocks become the first random direction that is near enough.

Encoder and decoder share a stream of directions $v_1, v_2, \dots$, uniform on the sphere. For a
block $x$ of $n$ values the frame carries its radius $\|x\|$ and the number
$$ T = \min \{ t : \langle v_t, x \rangle \ge \sqrt{1 - \alpha}\, \|x\| \}, \qquad
   C(x) = \rho\, \|x\|\, v_T , $$
and the decoder makes $v_T$ anew in $O(n)$. The share of the sphere in that cap is
$P(\alpha, n) = \frac12 I_\alpha(\frac{n-1}2, \frac12)$ and no code with this error can take fewer
than $-\log_2 P$ bits on average. $T$ is geometric, so its Golomb-Rice code takes
$r + 1 / (1 - (1-P)^{2^r})$ bits; with the best $r$ that is at most $1.57$ above $-\log_2 P$. It is
the yardstick among the operators: nearly optimal, and exponentially slow in $n$, since the encoder
looks at $1 / P \approx \alpha^{-n/2}$ directions for each block. `block=` is $n$. At
$\alpha = \frac12$, blocks of 16 take about 1330 directions and 12 bits.

`scale` chooses $\rho$. With $m(\alpha, n)$ the mean cosine over the cap:

- `strict`: $\rho = \sqrt{1 - \alpha}$, for which $\|C(x) - x\|^2 \le \alpha \|x\|^2$ surely, in
  every block. 0.447 on average at $\alpha = 0.5$, $n = 16$.
- `mmse`: $\rho = m$, for which $E\|C(x) - x\|^2 \le (1 - m^2 (1 - \delta^2)) \|x\|^2$, 0.447 there:
  the least mean error. Single blocks may exceed $\alpha$ a little.
- `unbiased`: $\rho = 1 / m$, for which $E\,C(x) = x$ and $E\|C(x) - x\|^2 \le \omega \|x\|^2$ with
  $\omega = (1 + \delta') / m^2 - 1$, 0.807 there.

**Radii** are sent with $b$ bits after the leading one, entropy coded; $b$ is from 2 to 4, the
least with $4^b \ge \frac32 (n-1)(1-\alpha)/\alpha$. So $\delta = 2^{-b-1}$ bounds their relative
error. With `strict` the encoder accepts a direction for the radius that the decoder will have, with
room for the rounding of results to the vector's format, so the promise holds for the decoded
numbers. That makes the index a little longer, most with `bfloat16`. With `unbiased` radii are
rounded at random without bias, and $\delta' = 4^{-b} / (4 (1 + 2^{-b}))$ bounds their relative
variance.

**The end of a search.** After $32 \cdot 2^r$ directions, which happens to one block in five million
or fewer, a block is sent as $w$ bits for each value instead, on a grid of step
$2 (1 + 2^{-b}) \hat r / (2^w - 1)$ that is fine enough for the promise; values are rounded to the
nearest, or with `unbiased` at random. Such blocks are counted as `escaped`.

**Randomness.** Directions come from a key of 16 bytes in the frame, which is drawn for the message
and tells nothing about the seed. They are whole numbers from a table of 65,536 normal
quantiles, whose variance is that of the normal law up to $2 \cdot 10^{-5}$ and whose kurtosis is
2.9992. Judging by these, directions are uniform, and `unbiased` is unbiased, up to about $10^{-4}$;
`strict` does not depend on it. Groups of 1024 blocks share their directions, after a random sign
for each value. Every block by itself has the law above, and blocks of different groups are
independent. Blocks of one group are not: the smaller $1 / P$ is, and the more alike the blocks are,
the more often two of them get the same direction. That changes no expectation of a vector's error.
It does change how fast a mean over equal blocks of one message settles.

**When to use it.** Use it as a yardstick, or if you need the sure bound in every block. On Gaussian
vectors entropy-coded rounding is as good at practical block sizes, and on vectors with large
differences within blocks it is better.

**Ends of the range.** A block of zeros decodes to zeros. With `nonfinite="carry"` a block that
holds a NaN or an infinity decodes to NaN everywhere. Results beyond the largest number of the
format become it, which is nearer to the input. `unbiased` promises nothing for values that can give
such results, and counts them.

Reference: Albasyoni, Safaryan, Condat, Richtárik, *Optimal Gradient Compression for Distributed and
Federated Learning* (2020). Blocks, quantised radii and the scales `mmse` and `unbiased` are ours.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from fewbits.backend.kernel import Kernel, Kind
from fewbits.core.guarantee import Guarantee
from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.families import caps
from fewbits.reference import directions
from fewbits.reference.formats import FLOAT32, Format
from fewbits.reference.spherical import MMSE, ROUNDING, STRICT, UNBIASED, Sphere, least_exponent
from fewbits.rng import KEY_BYTES
from fewbits.wire.sections import Coded, Packed, Rice, Section

LEAST_ALPHA, LARGEST_ALPHA = 0.01, 0.99
LARGEST_PARAMETER = 22  # of the Rice code: four million directions for a block
QUOTIENTS = 32  # the search ends after this many times 2^r directions
_SCALES = {"strict": STRICT, "mmse": MMSE, "unbiased": UNBIASED}


@dataclass(frozen=True, slots=True)
class Spherical(Operator):
    """Replace blocks of 16, or of `block`, by the first random direction that is near enough."""

    name: ClassVar[str] = "spherical"
    code: ClassVar[int] = 8
    formula: ClassVar[str] = "α = 1/2 in every block; unbiased: ω = 0.81"
    alpha: float = 0.5
    block: int = 16
    scale: Literal["strict", "mmse", "unbiased"] = "strict"

    def __post_init__(self) -> None:
        Operator.__post_init__(self)
        if not LEAST_ALPHA <= self.alpha <= LARGEST_ALPHA:
            raise SpecError(
                f"alpha must be from {LEAST_ALPHA} to {LARGEST_ALPHA}, got {self.alpha}"
            )
        if not 2 <= self.block <= directions.LARGEST_SPHERE_BLOCK:
            raise SpecError(
                f"block must be from 2 to {directions.LARGEST_SPHERE_BLOCK}, got {self.block}"
            )
        chance = caps.probability(self.alpha, self.block)
        parameter = caps.rice_parameter(chance, LARGEST_PARAMETER)
        words = (self.block + 1) // 2  # of a direction; a group has 2^32
        if parameter is None or QUOTIENTS * words << parameter > 1 << 32:
            raise SpecError(
                f"alpha={self.alpha} with block={self.block} needs "
                f"{1 / chance if chance else math.inf:.2g} directions for every block, "
                f"at most about {2**LARGEST_PARAMETER:,} are allowed: "
                "choose smaller blocks or a larger alpha"
            )

    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        blocks = -(-d // self.block)
        return (
            Coded("radii", blocks, bound=self._nan_code(d, format) + 1, signed=False),
            Rice("indices", blocks, self._parameter(d), bound=self._limit(d) + 1),
            Coded("escapes", d, bound=self._grid(d) + 2, signed=False),
            Packed("key", KEY_BYTES if d else 0, width=8, bound=256),
        )

    def kernel(self, d: int, format: Format) -> Kernel:
        return Kernel(Kind.SPHERICAL, 0, self.sphere(d, format))

    def sphere(self, d: int, format: Format) -> Sphere:
        """The numbers of the kernel."""
        return Sphere(
            self.alpha,
            self.block,
            _SCALES[self.scale],
            self._parameter(d),
            self._limit(d),
            self._radius_bits(d),
            self._nan_code(d, format),
            self._grid(d),
            self._rho(self.block),
            self._rho(d % self.block or self.block),
            self._high(d, format),
        )

    def guarantee(self, d: int, format: Format = FLOAT32) -> Guarantee:
        bits, size = self.max_frame_bits(d, format), max(min(self.block, d), 1)
        low = format.smallest_normal * math.sqrt(size)
        if self.scale == "strict":
            return Guarantee(alpha=self.alpha, sure=True, bits=bits, low=low)
        mean, step = caps.mean_cosine(self.alpha, size), 2.0 ** -self._radius_bits(d)
        unit = 2.0 ** -(format.mantissa + 1)
        if self.scale == "mmse":
            error = 1 - mean**2 * (1 - step**2 / 4)
            return Guarantee(alpha=(math.sqrt(error) + ROUNDING * unit) ** 2, bits=bits, low=low)
        error = (1 + step**2 / (4 * (1 + step))) / mean**2 - 1
        most = (math.sqrt(error) + (1 + math.sqrt(1 + error)) * unit) ** 2
        return Guarantee(omega=most, bits=bits, low=low, high=self._high(d, format))

    def _high(self, d: int, format: Format) -> float:
        """Up to where unbiased results, which may be as long as their block, stay in the format."""
        if self.scale != "unbiased":
            return math.inf  # results are at most as long as what they are near, or cut towards it
        size = max(min(self.block, d), 1)
        longest = math.sqrt(size) * (1 + 2.0 ** -self._radius_bits(d)) * self._rho(size)
        return format.largest_value / longest

    def _rho(self, size: int) -> float:
        """The length of the results for a block of length 1."""
        if self.scale == "strict":
            return math.sqrt(1 - self.alpha)
        mean = caps.mean_cosine(self.alpha, size)
        return mean if self.scale == "mmse" else 1 / mean

    def _parameter(self, d: int) -> int:
        """The best parameter of the Rice code for the largest block, which is nearly all blocks."""
        chance = caps.probability(self.alpha, max(min(self.block, d), 1))
        return caps.rice_parameter(chance, LARGEST_PARAMETER) or 0

    def _limit(self, d: int) -> int:
        """How many directions the encoder looks at."""
        return QUOTIENTS << self._parameter(d)

    def _radius_bits(self, d: int) -> int:
        """How many bits of a radius follow its leading one."""
        size = max(min(self.block, d), 1)
        wanted = 1.5 * (size - 1) * (1 - self.alpha) / self.alpha
        return 2 if wanted <= 16 else 3 if wanted <= 64 else 4

    def _nan_code(self, d: int, format: Format) -> int:
        """The code of a block that is not finite, above those of all radii."""
        size = max(min(self.block, d), 1)
        largest = format.bias + 2 + (size.bit_length() + 1) // 2  # radii are below this power
        return ((largest - least_exponent(format)) << self._radius_bits(d)) + 1

    def _grid(self, d: int) -> int:
        """Steps of the grid for escaped blocks, one less than a power of two."""
        size, steps = max(min(self.block, d), 1), 1
        while steps * steps * self.alpha < 10 * size:
            steps = 2 * steps + 1
        return steps
