r"""Spherical compression: blocks become the first random direction that is near enough.

Encoder and decoder share a stream of directions $v_1, v_2, \dots$, uniform on the sphere. Of a
block $x$ of $n$ values travel its radius $\|x\|$ and the number
$$ T = \min \{ t : \langle v_t, x \rangle \ge \sqrt{1 - \alpha}\, \|x\| \}, \qquad
   C(x) = \rho\, \|x\|\, v_T , $$
and the decoder makes $v_T$ anew in $O(n)$. The share of the sphere in that cap is
$P(\alpha, n) = \frac12 I_\alpha(\frac{n-1}2, \frac12)$ and no code with this error can take fewer
than $-\log_2 P$ bits on average. $T$ is geometric, so its Golomb-Rice code takes
$r + 1 / (1 - (1-P)^{2^r})$ bits; with the best $r$ that is at most $1.57$ above $-\log_2 P$. It is
the yardstick among the operators: nearly optimal, and exponentially slow in $n$, since the encoder
looks at $1 / P \approx \alpha^{-n/2}$ directions for each block. `block=` is $n$. At
$\alpha = \frac12$, blocks of 16 take about 1330 directions and 12 bits.

`scale` says what $\rho$ is. With $m(\alpha, n)$ the mean cosine over the cap:

- `strict`: $\rho = \sqrt{1 - \alpha}$, for which $\|C(x) - x\|^2 \le \alpha \|x\|^2$ surely, in
  every block. 0.447 on average at $\alpha = 0.5$, $n = 16$.
- `mmse`: $\rho = m$, for which $E\|C(x) - x\|^2 \le (1 - m^2 (1 - \delta^2)) \|x\|^2$, 0.447 there:
  the least mean error. Single blocks may exceed $\alpha$ a little.
- `unbiased`: $\rho = 1 / m$, for which $E\,C(x) = x$ and $E\|C(x) - x\|^2 \le \omega \|x\|^2$ with
  $\omega = (1 + \delta') / m^2 - 1$, 0.807 there.

**Radii** are sent with $b$ bits after the leading one, entropy coded; $b$ is from 2 to 4, the
least with $4^b \ge \frac32 (n-1)(1-\alpha)/\alpha$. So $\delta = 2^{-b-1}$ bounds their relative
error. With `strict` the direction is accepted for the radius that the decoder will have, and with
room for the rounding of results to the vector's format: the promise is about the numbers that come
out. That costs a little of the index, most with `bfloat16`. With `unbiased` radii are
rounded at random without bias, and $\delta' = 4^{-b} / (4 (1 + 2^{-b}))$ bounds their relative
variance.

**The end of a search.** After $32 \cdot 2^r$ directions, which happens to one block in five million
or fewer, a block is sent as $w$ bits for each value instead, on a grid of step
$2 (1 + 2^{-b}) \hat r / (2^w - 1)$ that is fine enough for the promise; values are rounded to the
nearest, or with `unbiased` at random. Such blocks are counted as `escaped`.

**What is random.** Directions come from a key of 16 bytes in the frame, which is drawn for the
message and tells nothing about the seed. They are whole numbers from a table of 65,536 normal
quantiles, whose variance is that of the normal law up to $2 \cdot 10^{-5}$ and whose kurtosis is
2.9992. Judging by these, directions are uniform, and `unbiased` is unbiased, up to about $10^{-4}$;
`strict` does not depend on it. Groups of 1024 blocks share their directions, after a random sign
for each value. Every block by itself has the law above, and blocks of different groups are
independent. Blocks of one group are not: the smaller $1 / P$ is, and the more alike the blocks are,
the more often two of them get the same direction. That changes no expectation of a vector's error.
It does change how fast a mean over equal blocks of one message settles.

**When to use it.** As a yardstick, or where the sure bound counts in every block. On Gaussian
vectors entropy-coded rounding is as good at practical block sizes, and on vectors with large
differences within blocks it is better.

**Ends of the range.** A block of zeros decodes to zeros. With `nonfinite="carry"` a block that
holds a NaN or an infinity decodes to NaN everywhere. Results beyond the largest number of the
format become it, which is nearer to the input; `unbiased` promises nothing for values from which
that can happen, and counts them.

Reference: Albasyoni, Safaryan, Condat, Richtárik, *Optimal Gradient Compression for Distributed and
Federated Learning* (2020). Blocks, quantised radii and the scales `mmse` and `unbiased` are ours.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.core import caps
from fewbits.core.guarantee import Guarantee
from fewbits.core.operator import Operator, Parts, Written
from fewbits.core.vector import Vector, count_above
from fewbits.errors import DecodeError, SpecError
from fewbits.kernels import native, parallel, spherical
from fewbits.kernels.formats import FLOAT32, FLOAT64, Format
from fewbits.kernels.spherical import Blocks, Floats, Integers
from fewbits.kernels.units import Tally
from fewbits.rng import KEY_BYTES, Rng
from fewbits.wire.sections import Coded, Packed, Rice, Section

LEAST_ALPHA, LARGEST_ALPHA = 0.01, 0.99
LARGEST_PARAMETER = 22  # of the Rice code: four million directions for a block
QUOTIENTS = 32  # the search ends after this many times 2^r directions
_CHUNK = 8  # groups that are handled together
_SLOP = 2.0**-40  # far above the rounding errors of float64
# Rounding to a format with unit u moves a result y of a block x in the promised range by at most
# u (|y| + |x|): the second term is for subnormal results. |y| is below 9/8 |x| unless unbiased.
_ROUNDING = 2.25


class Sent(NamedTuple):
    """Blocks as they travel: codes of radii, indices, and codes of values in escaped blocks."""

    radii: Integers
    indices: Integers  # of blocks with a direction: the limit if escaped
    escapes: npt.NDArray[np.int32]  # one for each value, 0 in blocks that did not escape
    nonfinite: int


class Run(NamedTuple):
    """Neighbouring blocks of one size: the first element, the first group and the number."""

    start: int
    group: int
    blocks: int
    size: int

    @property
    def elements(self) -> slice:
        """Where their values are."""
        return slice(self.start, self.start + self.blocks * self.size)


@dataclass(frozen=True, slots=True)
class Spherical(Operator):
    """Replace blocks by the first random direction that is near enough."""

    name: ClassVar[str] = "spherical"
    code: ClassVar[int] = 8

    alpha: float = 0.5
    block: int = 16
    scale: Literal["strict", "mmse", "unbiased"] = "strict"

    def __post_init__(self) -> None:
        Operator.__post_init__(self)
        object.__setattr__(self, "alpha", float(self.alpha))
        if not LEAST_ALPHA <= self.alpha <= LARGEST_ALPHA:
            raise SpecError(
                f"alpha must be from {LEAST_ALPHA} to {LARGEST_ALPHA}, got {self.alpha}"
            )
        if not 2 <= self.block <= spherical.LARGEST_BLOCK:
            raise SpecError(f"block must be from 2 to {spherical.LARGEST_BLOCK}, got {self.block}")
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

    def encode(self, x: Vector, rng: Rng, into: Parts, *, threads: int = 1) -> Written:
        stream = rng.fork("sphere")
        sent = self.searched(x, rng, stream, native=True, threads=threads)
        layout = self.layout(x.count, x.format)
        key = np.frombuffer(stream.key, np.uint8).astype(np.uint16)[: layout[3].count]
        radii = sent.radii.astype(np.int32)
        own: list[npt.NDArray[Any]] = [radii, sent.indices, sent.escapes, key]
        sizes = tuple(
            section.write(values, part)
            for section, values, part in zip(layout, own, into, strict=True)
        )
        escaped = int(np.count_nonzero(sent.indices == self._limit(x.count)))
        saturated = count_above(x, self._high(x.count, x.format))
        return Written(Tally(saturated, sent.nonfinite, escaped), sizes)

    def searched(self, x: Vector, rng: Rng, stream: Rng, *, native: bool, threads: int = 1) -> Sent:
        """What travels, found by native code or by the reference, which gives the same."""
        runs = self._runs(x.count)
        workers = max(1, min(threads, len(runs)))
        cuts = [len(runs) * worker // workers for worker in range(workers + 1)]

        def work(worker: int) -> list[Sent]:
            mine = runs[cuts[worker] : cuts[worker + 1]]
            return [self._searched_run(x, run, rng, stream, native=native) for run in mine]

        parts = [part for own in parallel.each(work, workers) for part in own]
        if not parts:
            nothing = np.zeros(0, np.int64)
            return Sent(nothing, nothing, np.zeros(0, np.int32), 0)
        radii, indices, escapes, nonfinite = zip(*parts, strict=True)
        joined = np.concatenate(radii), np.concatenate(indices), np.concatenate(escapes)
        return Sent(*joined, sum(nonfinite))

    def _searched_run(self, x: Vector, run: Run, rng: Rng, stream: Rng, *, native: bool) -> Sent:
        d, format = x.count, x.format
        blocks = spherical.split(x.bits[run.elements], format, run.size)
        live = blocks.norms > 0
        codes, factors = self._radii(blocks, run, rng, d, format)
        codes = np.where(live, codes, 0)
        codes[blocks.nonfinite > 0] = self._nan_code(d, format)
        own = spherical.signs(stream, run.start, blocks.values.size).reshape(blocks.values.shape)
        values = blocks.values * own
        need = self._needed(factors, blocks.norms, live, format)
        limit, least = self._limit(d), math.sqrt(1 - self.alpha)
        if native:
            found = spherical.search(stream, run.group, values, need, least, limit)
        else:
            found = spherical.first_in_cap(stream, run.group, values, need, limit)
        escaped = live & (found == spherical.NONE)
        found[escaped] = limit
        escapes = np.zeros(values.shape, np.int32)
        if escaped.any():
            escapes[escaped] = self._gridded(blocks.values, factors, escaped, run, rng, d)
        return Sent(codes, found[live], escapes.ravel(), int(blocks.nonfinite.sum()))

    def _radii(
        self, blocks: Blocks, run: Run, rng: Rng, d: int, format: Format
    ) -> tuple[Integers, Floats]:
        """Codes of the radii, and the sent radii divided like the values; both void for zeros."""
        bits = self._radius_bits(d)
        drop = 52 - bits
        pattern = np.where(blocks.norms > 0, blocks.norms, 1.0).view(np.uint64)
        if self.scale == "unbiased":
            first = 2 * (run.start // self.block)
            pairs = rng.fork("radii").words(first, 2 * run.blocks).astype(np.uint64)
            addend = (pairs[1::2] << np.uint64(32) | pairs[::2]) >> np.uint64(64 - drop)
        else:
            addend = np.full(run.blocks, 1 << (drop - 1), np.uint64)
        level = (pattern + addend) >> np.uint64(drop)
        offset = blocks.exponents - _least_exponent(format) - 1023
        codes = level.astype(np.int64) + (offset << bits) + 1
        return codes, (level << np.uint64(drop)).view(np.float64)

    def _needed(
        self, factors: Floats, norms: Floats, live: npt.NDArray[np.bool_], format: Format
    ) -> Floats:
        r"""The least product with a direction of length 1; infinite where there is none.

        With a radius of $g \|x\|$ and cosine $c$ the error of `strict` is
        $g^2 \rho^2 - 2 g \rho c + 1$, and the rounding of the result takes some room.
        """
        cosine = np.full(norms.size, math.sqrt(1 - self.alpha))
        if self.scale == "strict":
            unit = 2.0 ** -(format.mantissa + 1)
            room = math.sqrt(self.alpha) - _ROUNDING * unit - _SLOP
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = factors / norms * cosine
                cosine = (1 - room * room + ratio * ratio) / (2 * ratio)
        possible = live & (cosine < 1)
        return np.where(possible, cosine * norms, np.inf)

    def _gridded(
        self,
        values: Floats,
        factors: Floats,
        escaped: npt.NDArray[np.bool_],
        run: Run,
        rng: Rng,
        d: int,
    ) -> npt.NDArray[np.int32]:
        """Codes from 1 of the values in escaped blocks."""
        last, step = self._grid(d), 1 + 2.0 ** -self._radius_bits(d)
        position = (values[escaped] / (factors[escaped, None] * step) + 1) / 2 * last
        if self.scale == "unbiased":
            words = rng.fork("escapes").words(run.start, values.size).reshape(values.shape)
            codes = np.floor(position + (words[escaped] + 0.5) / 2**32)
        else:
            codes = np.rint(position)
        return 1 + np.clip(codes, 0, last).astype(np.int32)

    def decode(self, parts: Parts, out: Vector, *, threads: int = 1) -> Tally:
        d = out.count
        layout = self.layout(d, out.format)
        radii = layout[0].read(parts[0]).astype(np.int64)
        nan = radii == self._nan_code(d, out.format)
        live = (radii > 0) & ~nan
        indices = np.zeros(radii.size, np.int64)
        indices[live] = replace(layout[1], count=int(live.sum())).read(parts[1])
        escapes = layout[2].read(parts[2])
        stream = Rng(layout[3].read(parts[3]).astype(np.uint8).tobytes() or bytes(KEY_BYTES))
        escaped = indices == self._limit(d)
        runs = self._runs(d)
        starts = np.cumsum([0, *(run.blocks for run in runs)])

        def work(number: int) -> None:
            run, own = runs[number], slice(starts[number], starts[number + 1])
            codes = escapes[run.elements].reshape(-1, run.size)
            if ((codes != 0) != escaped[own, None]).any():
                raise DecodeError("values of an escaped block are missing, or others are there")
            y = self._decoded_run(run, radii[own], indices[own], codes, stream, out)
            y[~live[own]] = 0.0
            y[nan[own]] = np.nan
            native.cast(y.reshape(-1).view(np.uint64), FLOAT64, out.format, out.bits[run.elements])

        workers = max(1, min(threads, len(runs)))
        parallel.each(lambda worker: _all(work, range(worker, len(runs), workers)), workers)
        sizes = np.minimum(self.block, d - self.block * np.arange(radii.size))
        return Tally(nonfinite=int(sizes[nan].sum()), escaped=int(np.count_nonzero(escaped)))

    def _decoded_run(
        self,
        run: Run,
        radii: Integers,
        indices: Integers,
        codes: npt.NDArray[np.int32],
        stream: Rng,
        out: Vector,
    ) -> Floats:
        """The values of blocks with a radius; anything for the others."""
        bits, d = self._radius_bits(out.count), out.count
        level = np.maximum(radii - 1, 0)
        exponents = (level >> bits) + _least_exponent(out.format)
        factors = 1 + (level & ((1 << bits) - 1)) / 2**bits
        groups = run.group + np.arange(run.blocks) // spherical.GROUP
        escaped = indices == self._limit(d)
        vectors = spherical.directions(stream, groups, np.where(escaped, 0, indices), run.size)
        scaled = factors * self._rho(run.size) / spherical.lengths(vectors)
        vectors = vectors * spherical.signs(stream, run.start, vectors.size).reshape(vectors.shape)
        y = vectors * scaled[:, None]
        if escaped.any():
            last, step = self._grid(d), 1 + 2.0**-bits
            y[escaped] = (2 * (codes[escaped] - 1) - last) / last * (factors[escaped, None] * step)
        with np.errstate(over="ignore", under="ignore"):
            y = np.ldexp(y, exponents[:, None])
        largest = np.finfo(np.float64).max
        clipped: Floats = np.clip(y, -largest, largest)
        return clipped

    def guarantee(self, d: int, format: Format = FLOAT32) -> Guarantee:
        bits, size = self.most_bits(d, format), max(min(self.block, d), 1)
        low = format.smallest_normal * math.sqrt(size)
        if self.scale == "strict":
            return Guarantee(alpha=self.alpha, sure=True, bits=bits, low=low)
        mean, step = caps.mean_cosine(self.alpha, size), 2.0 ** -self._radius_bits(d)
        unit = 2.0 ** -(format.mantissa + 1)
        if self.scale == "mmse":
            error = 1 - mean**2 * (1 - step**2 / 4)
            return Guarantee(alpha=(math.sqrt(error) + _ROUNDING * unit) ** 2, bits=bits, low=low)
        error = (1 + step**2 / (4 * (1 + step))) / mean**2 - 1
        most = (math.sqrt(error) + (1 + math.sqrt(1 + error)) * unit) ** 2
        return Guarantee(omega=most, bits=bits, low=low, high=self._high(d, format))

    def _high(self, d: int, format: Format) -> float:
        """Up to where unbiased results, which may be as long as their block, stay in the format."""
        if self.scale != "unbiased":
            return (
                math.inf
            )  # results are at most as long as what they are near to, or cut towards it
        size = max(min(self.block, d), 1)
        longest = math.sqrt(size) * (1 + 2.0 ** -self._radius_bits(d)) * self._rho(size)
        return format.largest_value / longest

    def _rho(self, size: int) -> float:
        """The length of the results for a block of length 1."""
        if self.scale == "strict":
            return math.sqrt(1 - self.alpha)
        mean = caps.mean_cosine(self.alpha, size)
        return mean if self.scale == "mmse" else 1 / mean

    def _runs(self, d: int) -> list[Run]:
        """All blocks in order; a last short block has directions of its own."""
        full, rest = divmod(d, self.block)
        most = _CHUNK * spherical.GROUP
        runs = [
            Run(first * self.block, first // spherical.GROUP, min(most, full - first), self.block)
            for first in range(0, full, most)
        ]
        if rest:
            runs.append(Run(full * self.block, -(-full // spherical.GROUP), 1, rest))
        return runs

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
        return ((largest - _least_exponent(format)) << self._radius_bits(d)) + 1

    def _grid(self, d: int) -> int:
        """Steps of the grid for escaped blocks, one less than a power of two."""
        size, steps = max(min(self.block, d), 1), 1
        while steps * steps * self.alpha < 10 * size:
            steps = 2 * steps + 1
        return steps


def _least_exponent(format: Format) -> int:
    """The exponent of the smallest number of a format."""
    return 1 - format.bias - format.mantissa


def _all(work: Callable[[int], None], numbers: range) -> None:
    for number in numbers:
        work(number)
