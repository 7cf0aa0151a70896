r"""Natural compression on an aggregator that can only add integers: the specification.

A code is a byte: 0 for zero, else $c$ or $128 + c$ for plus or minus $2^{c-1}$ times $2^b$, where
$b$ is the bottom of the span. $n$ workers' codes are summed as 64-bit integers
$\pm 2^{c-1}$. With the largest code $m = 64 - \beta(n)$, where $\beta(n)$ is the number of binary
digits of $n$, no sum can overflow: $n \le 2^{\beta(n)} - 1$, so
$$ n\,2^{m-1} \le (2^{\beta(n)} - 1)\,2^{63-\beta(n)} \le 2^{63} - 1 , $$
and no larger code is safe: $n \ge 2^{\beta(n)-1}$, so $n\,2^{m} \ge 2^{63}$.

**A worker's value** $t$ with $2^b \le |t| \le 2^{b+m-1}$ becomes $C_\mathrm{nat}(t)$. Below the
span it becomes $\pm 2^b$ with probability $|t|/2^b$, else 0: unbiased, with an absolute variance of
at most $4^b/4$, but in no $B(\omega)$. Above it it becomes the largest power: biased, and counted.

**A sum** $S \ne 0$ with $k = \lfloor\log_2|S|\rfloor$ becomes $\operatorname{sign}(S)\,2^k$ or
$\operatorname{sign}(S)\,2^{k+1}$: a number of $k$ random bits is added to $|S|$, and the carry is
the rounding. The probability of the upper one is exactly $(|S| - 2^k)/2^k$. $k + 1 \le 63$, so
every sum has a code of at most 64, and nothing is clipped on the way back.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fewbits.errors import DecodeError, SpecError
from fewbits.reference import natural as natural_reference
from fewbits.reference.formats import FLOAT32
from fewbits.rng import Rng

_Bytes = npt.NDArray[np.uint8]
Sums = npt.NDArray[np.int64]
_Bits = npt.NDArray[np.uint32]

SIGN, MAGNITUDE = 128, 127
DEFAULT_TOP = 10  # the highest exponent that the paper's system has
MOST_WORKERS = 64
MOST_SUM = 64  # a sum's largest code
LOWEST_TOP, HIGHEST_TOP = -64, 48  # so that 128 random bits decide exactly at the low end
_DEEP = 1 << 63  # the word from which on the stream decides about values below the span


@dataclass(frozen=True, slots=True)
class ExponentSpan:
    """The exponents that workers can send: as many below `top` as cannot overflow a sum."""

    workers: int
    top: int = DEFAULT_TOP

    def __post_init__(self) -> None:
        if not 1 <= self.workers <= MOST_WORKERS:
            raise SpecError(f"a switch serves 1 to {MOST_WORKERS} workers, not {self.workers}")
        if not LOWEST_TOP <= self.top <= HIGHEST_TOP:
            raise SpecError(f"top must be from {LOWEST_TOP} to {HIGHEST_TOP}, got {self.top}")

    @property
    def most(self) -> int:
        """The largest code of a worker."""
        return 64 - self.workers.bit_length()

    @property
    def bottom(self) -> int:
        """The lowest exponent."""
        return self.top - self.most + 1


@dataclass(frozen=True, slots=True)
class CodeTally:
    """The tally of encoding: values above the span, below it, and not finite."""

    saturated: int = 0
    below: int = 0
    nonfinite: int = 0

    def __add__(self, other: "CodeTally") -> "CodeTally":
        return CodeTally(
            self.saturated + other.saturated,
            self.below + other.below,
            self.nonfinite + other.nonfinite,
        )


def encode(bits: _Bits, span: ExponentSpan, rng: Rng, first: int = 0) -> tuple[_Bytes, CodeTally]:
    """A worker's codes of float32 values; those that are not finite have the code 0."""
    magnitude = bits & np.uint32(FLOAT32.sign - 1)
    rounded = natural_reference.rounded(bits, FLOAT32, rng, first)
    finite = magnitude < FLOAT32.infinity
    # Natural compression saturates above every span's top; here that is counted once.
    exponents = np.where(finite, rounded.exponents.astype(np.int64), 0)
    lowest = 127 + span.bottom
    below = finite & (magnitude > 0) & (magnitude < np.uint32(lowest << FLOAT32.mantissa))
    deep = np.flatnonzero((exponents > 0) & (exponents < lowest))
    kept = _survive(lowest - exponents[deep], rng, first + deep.astype(np.uint64))
    exponents[deep] = np.where(kept, lowest, 0)
    codes = np.where(exponents > 0, exponents - lowest + 1, 0)
    saturated = codes > span.most
    codes = np.minimum(codes, span.most)
    codes[(codes > 0) & (bits >> np.uint32(31) > 0)] += SIGN
    tally = CodeTally(int(saturated.sum()), int(below.sum()), int((~finite).sum()))
    return codes.astype(np.uint8), tally


def add(codes: _Bytes, span: ExponentSpan, sums: Sums) -> None:
    """Add a worker's codes."""
    magnitude = codes & MAGNITUDE
    if ((magnitude > span.most) | (codes == SIGN)).any():
        raise DecodeError("a code is not below its bound")
    powers = np.where(magnitude > 0, 1 << np.maximum(magnitude.astype(np.int64) - 1, 0), 0)
    sums += np.where(codes & SIGN, -powers, powers)


def round_sums(sums: Sums, rng: Rng, first: int = 0) -> _Bytes:
    words = rng.words(2 * first, 2 * sums.size).reshape(-1, 2).astype(np.uint64)
    return round_with(sums, words[:, 1] << np.uint64(32) | words[:, 0])


def round_with(sums: Sums, draws: npt.NDArray[np.uint64]) -> _Bytes:
    """The codes of sums with 64 random bits for each, of which those below the top bit count."""
    magnitude = np.abs(sums).astype(np.uint64)
    width = _bit_width(magnitude)
    below = (np.uint64(1) << np.maximum(width, np.uint64(1)) - np.uint64(1)) - np.uint64(1)
    codes = _bit_width(magnitude + (draws & below))
    return (codes + np.where(sums < 0, np.uint64(SIGN), np.uint64(0))).astype(np.uint8)


def values_table(span: ExponentSpan) -> _Bits:
    """For each code of a sum, the bits of its mean over the workers in float32."""
    exponents = np.arange(MOST_SUM) + span.bottom
    means = np.ldexp(np.float32(1), exponents).astype(np.float32) / np.float32(span.workers)
    table = np.zeros(256, np.float32)
    table[1 : MOST_SUM + 1], table[SIGN + 1 : SIGN + MOST_SUM + 1] = means, -means
    return table.view(np.uint32)


def _survive(
    depth: npt.NDArray[np.int64], rng: Rng, elements: npt.NDArray[np.uint64]
) -> npt.NDArray[np.bool_]:
    """True with probability $2^{-depth}$: the lowest bits of an element's four words are zero."""
    kept = np.ones(depth.size, bool)
    for j in range(4):
        bits = np.clip(depth - 32 * j, 0, 32).astype(np.uint64)
        mask = (np.uint64(1) << bits) - np.uint64(1)
        index = np.uint64(_DEEP + j) + np.uint64(4) * elements
        words = rng.at((index >> np.uint64(32)).astype(np.uint32), index.astype(np.uint32))
        kept &= (words.astype(np.uint64) & mask) == 0
    return kept


def _bit_width(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The number of binary digits."""
    width = np.zeros(x.size, np.uint64)
    for step in (32, 16, 8, 4, 2, 1):
        large = x >= np.uint64(1) << np.uint64(step)
        width[large] += np.uint64(step)
        x = np.where(large, x >> np.uint64(step), x)
    return width + (x > 0).astype(np.uint64)
