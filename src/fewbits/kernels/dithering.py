r"""Rounding to levels of a block's norm, in NumPy: the specification of the dithering operators.

A block of magnitudes $|x_i|$ has a scale $N$, a value of the vector's own format with $\max_i |x_i|
\le N \le (1 + \varepsilon) \|x\|_p$. A magnitude lies between two neighbouring levels, and goes to
the upper one with the probability that makes the mean right. All decisions have the form `draw <
chance`, where a draw is a uniform integer: 31 bits of one random word, or 63 bits of two for
float64. Quotients $|x_i| / N$ are rounded once to float32, or float64 for float64: that is the only
inexactness, relative $2^{-24}$ or $2^{-53}$ of the value. The 16-bit formats have too few bits for
uniform levels, so there the chances are those between the values that decoding gives.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.kernels import reference
from fewbits.kernels.formats import FLOAT32, FLOAT64, Bits, Format
from fewbits.rng import Rng

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

CHUNK = 65_536  # elements whose sum is finished before the next one's begins
LANES = 32  # sums that grow side by side within a chunk
SCALE_WORDS = 1 << 63  # the random words of scales begin here, far from those of elements


class Rounded(NamedTuple):
    """The level below each magnitude, and the chance of the next one in units of 2^-bits."""

    lower: Integers
    chance: npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Block:
    """How a vector is cut: `size` elements share a scale, the last ones may be fewer."""

    count: int
    size: int

    @classmethod
    def of(cls, count: int, size: int) -> "Block":
        """Blocks of `size`, or one block if that is 0."""
        return cls(count, size or max(count, 1))

    @property
    def number(self) -> int:
        """How many blocks there are."""
        return -(-self.count // self.size)

    def spread(self, scales: Bits, part: slice) -> Bits:
        """The scale of each element of a part of the vector."""
        spread: Bits = scales[np.arange(part.start, part.stop) // self.size]
        return spread


def magnitudes(bits: Bits, format: Format) -> tuple[Bits, npt.NDArray[np.bool_]]:
    """The bits without signs, 0 where not finite, and where that is."""
    magnitude = bits & format.bits.type(format.sign - 1)
    nonfinite = magnitude >= format.infinity
    return np.where(nonfinite, format.bits.type(0), magnitude), nonfinite


def chunk_sum(terms: Floats) -> float:
    """The sum of at most `CHUNK` terms.

    Term i is added to lane i mod 32 in order; then the upper half of the lanes is added to the
    lower half until one is left.
    """
    rows = -(-terms.size // LANES)
    padded = np.zeros((rows, LANES))
    padded.reshape(-1)[: terms.size] = terms
    lanes = np.add.accumulate(padded, axis=0)[-1]
    while lanes.size > 1:
        lanes = lanes[: lanes.size // 2] + lanes[lanes.size // 2 :]
    return float(lanes[0])


def scales(bits: Bits, format: Format, p: float, size: int) -> Bits:
    """Each block's p-norm as the nearest value of the format, at least its largest magnitude.

    Finite values only. Sums are in float64. The powers of float64 values, and all powers but
    squares, are of values divided by a power of two, so that nothing overflows. A norm beyond the
    format's range becomes its largest value, which is still no less than any magnitude.
    """
    magnitude, _ = magnitudes(bits, format)
    blocks = Block.of(bits.size, size)
    result = np.zeros(blocks.number, format.bits)
    for number in range(blocks.number):
        own = magnitude[number * blocks.size : (number + 1) * blocks.size]
        largest = own.max()
        result[number] = largest
        if p != math.inf and largest:
            norm = np.array([_norm(own, int(largest), format, p)])
            nearest, _, _ = reference.cast(norm.view(np.uint64), FLOAT64, format)
            result[number] = max(largest, nearest[0])
    return result


def means(bits: Bits, format: Format, size: int) -> Bits:
    """The mean magnitude of each block's values that are neither 0 nor odd, in the format.

    Kept between the smallest and the largest of them, where rounding could leave that range.
    """
    magnitude, _ = magnitudes(bits, format)
    blocks = Block.of(bits.size, size)
    result = np.zeros(blocks.number, format.bits)
    for number in range(blocks.number):
        own = magnitude[number * blocks.size : (number + 1) * blocks.size]
        used = own[own != 0]
        if used.size:
            total = _norm(own, int(own.max()), format, 1, used.size)
            nearest, _, _ = reference.cast(np.array([total]).view(np.uint64), FLOAT64, format)
            result[number] = min(max(nearest[0], used.min()), own.max())
    return result


def _norm(magnitude: Bits, largest: int, format: Format, p: float, share: int = 1) -> float:
    """The p-norm divided by `share`."""
    top = float(reference.to_float64(np.array([largest], format.bits), format)[0])
    shift = 0 if format != FLOAT64 and p in (1, 2) else math.frexp(top)[1]
    total = 0.0
    for start in range(0, magnitude.size, CHUNK):
        values = reference.to_float64(magnitude[start : start + CHUNK], format)
        values = np.ldexp(values, -shift)
        terms = values if p == 1 else values * values if p == 2 else values**p
        total += chunk_sum(terms)
    root = total if p == 1 else math.sqrt(total) if p == 2 else total ** (1 / p)
    with np.errstate(over="ignore"):
        return float(min(np.ldexp(root / share, shift), np.finfo(np.float64).max))


def natural_scales(
    scales: Bits, format: Format, rng: Rng, first: int = 0
) -> npt.NDArray[np.uint16]:
    """Exponent codes of the scales, rounded to powers of two as the natural operator does."""
    codes: npt.NDArray[np.uint16] = reference.natural(
        scales, format, rng, SCALE_WORDS // _words(format) + first
    ).exponents
    return codes


def _words(format: Format) -> int:
    """Random words that an element draws."""
    return 2 if format == FLOAT64 else 1


def draws(rng: Rng, first: int, count: int, format: Format) -> npt.NDArray[np.uint64]:
    """Uniform integers of 31 bits, 63 for float64."""
    if format != FLOAT64:
        return rng.words(first, count).astype(np.uint64) >> np.uint64(1)
    pairs = rng.words(2 * first, 2 * count).reshape(count, 2).astype(np.uint64)
    return (pairs[:, 1] << np.uint64(32) | pairs[:, 0]) >> np.uint64(1)


def chance_bits(format: Format) -> int:
    """The bits of a draw."""
    return 63 if format == FLOAT64 else 31


def quotients(magnitude: Bits, scale: Bits, format: Format) -> npt.NDArray[np.floating]:
    """|x| / N, at most 1, in float32, or float64 for float64; 0 where N is."""
    work = np.float64 if format == FLOAT64 else np.float32
    over: npt.NDArray[Any] = reference.to_float64(magnitude, format).astype(work)
    under: npt.NDArray[Any] = reference.to_float64(scale, format).astype(work)
    with np.errstate(invalid="ignore", divide="ignore", under="ignore"):
        y = np.minimum(over / under, work(1))
    return np.where(under == 0, work(0), y)


def natural_levels(y: npt.NDArray[np.floating], levels: int) -> Rounded:
    """Levels 0, 2^(1-s), …, 1/2, 1, numbered from 0 to s: the mantissa is the chance."""
    wide = FLOAT64 if y.dtype == np.float64 else FLOAT32
    bits, bits_of_chance = y.view(wide.bits).astype(np.uint64), chance_bits(wide)
    lowest = y.dtype.type(2.0 ** (1 - levels))
    exponent = (bits >> np.uint64(wide.mantissa)).astype(np.int64) - wide.bias
    mantissa = bits & np.uint64((1 << wide.mantissa) - 1)
    below = y < lowest
    share = np.where(below, y, y.dtype.type(0)) / lowest  # exact: a power of two
    chance = np.ldexp(share, bits_of_chance).astype(np.uint64)
    return Rounded(
        np.where(below, 0, exponent + levels),
        np.where(below, chance, mantissa << np.uint64(bits_of_chance - wide.mantissa)),
    )


def uniform_levels(y: npt.NDArray[np.floating], levels: int) -> Rounded:
    """Levels j / s, numbered from 0 to s."""
    bits_of_chance = chance_bits(FLOAT64 if y.dtype == np.float64 else FLOAT32)
    place = y * y.dtype.type(levels)
    lower = np.floor(place)
    chance = np.ldexp(place - lower, bits_of_chance).astype(np.uint64)
    return Rounded(lower.astype(np.int64), chance)


def uniform_levels_of_values(magnitude: Bits, scale: Bits, levels: int, format: Format) -> Rounded:
    """Uniform levels between the values that decoding gives, for formats of 16 bits."""
    x, n = (reference.to_float64(part, format) for part in (magnitude, scale))
    with np.errstate(invalid="ignore"):
        place = np.where(n == 0, 0.0, np.minimum(x / n, 1.0) * levels)
    lower = np.minimum(np.floor(place), levels - 1).astype(np.int64)
    below, above = (
        reference.to_float64(uniform_values(scale, lower + step, levels, format), format)
        for step in (0, 1)
    )
    with np.errstate(invalid="ignore"):
        share = np.where(above > below, (x - below) / (above - below), 0.0)
    full = share >= 1
    chance = np.where(full, 0.0, np.maximum(share, 0.0))
    return Rounded(lower + full, np.ldexp(chance, chance_bits(format)).astype(np.uint64))


def natural_values(scale: Bits, code: Integers, levels: int, format: Format) -> Bits:
    """N 2^(code - s), and 0 for code 0."""
    powers = np.ldexp(reference.to_float64(scale, format), (code - levels).astype(np.int32))
    return _nearest(np.where(code == 0, 0.0, powers), format)


def uniform_values(scale: Bits, code: Integers, levels: int, format: Format) -> Bits:
    """N (code / s), both operations in float64."""
    return _nearest(reference.to_float64(scale, format) * (code / levels), format)


def _nearest(values: Floats, format: Format) -> Bits:
    return reference.cast(values.view(np.uint64), FLOAT64, format)[0]
