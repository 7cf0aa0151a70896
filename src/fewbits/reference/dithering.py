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
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.errors import DecodeError
from fewbits.reference import casts
from fewbits.reference import natural as natural_reference
from fewbits.reference.blocks import LANES, SUMMATION_BLOCK, Blocks, pieces
from fewbits.reference.formats import FLOAT32, FLOAT64, Bits, Format
from fewbits.rng import Rng

_Floats = npt.NDArray[np.float64]
_Integers = npt.NDArray[np.int64]

SCALE_WORDS = 1 << 63  # the random words of scales begin here, far from those of elements
SIGN_ON_NAN = "a sign is set on a zero or on a value that is not finite"
LEVEL_WITHOUT_SCALE = "a block whose scale is 0 holds a level above 0"
BAD_SCALE = "a scale is negative or not finite"


class Rounded(NamedTuple):
    """The level below each magnitude, and the chance of the next one in units of 2^-bits."""

    lower: _Integers
    chance: npt.NDArray[np.uint64]


class Levels(NamedTuple):
    """The levels that dithering rounds to, as numbers."""

    p: float  # of the norm
    levels: int  # above 0
    block: int  # values that share a scale, 0 for all
    natural: bool  # powers of two, not multiples
    natural_scale: bool  # scales are sent as random powers of two
    coded: bool  # codes are entropy coded: signs are apart


class Read(NamedTuple):
    """Levels, signs, and where values are not finite."""

    levels: _Integers
    negative: npt.NDArray[np.bool_]
    nonfinite: npt.NDArray[np.bool_]


def magnitudes(bits: Bits, format: Format) -> tuple[Bits, npt.NDArray[np.bool_]]:
    """The bits without signs, 0 where not finite, and where that is."""
    magnitude = bits & format.bits.type(format.sign - 1)
    nonfinite = magnitude >= format.infinity
    return np.where(nonfinite, format.bits.type(0), magnitude), nonfinite


def chunk_sum(terms: _Floats) -> float:
    """The sum of at most `SUMMATION_BLOCK` terms.

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
    """The p-norm of each block as the nearest value of the format, at least its largest magnitude.

    Finite values only. Sums are in float64. The powers of float64 values, and all powers but
    squares, are of values divided by a power of two, so that nothing overflows. A norm beyond the
    format's range becomes its largest value, which is still no less than any magnitude.
    """
    magnitude, _ = magnitudes(bits, format)
    blocks = Blocks.of(bits.size, size)
    result = np.zeros(blocks.number, format.bits)
    for number in range(blocks.number):
        own = magnitude[number * blocks.size : (number + 1) * blocks.size]
        largest = own.max()
        result[number] = largest
        if p != math.inf and largest:
            norm = np.array([_norm(own, int(largest), format, p)])
            nearest, _, _ = casts.cast(norm.view(np.uint64), FLOAT64, format)
            result[number] = max(largest, nearest[0])
    return result


def means(bits: Bits, format: Format, size: int) -> Bits:
    """The mean magnitude of each block's values that are neither 0 nor not finite, in the format.

    Kept between the smallest and the largest of them, where rounding could leave that range.
    """
    magnitude, _ = magnitudes(bits, format)
    blocks = Blocks.of(bits.size, size)
    result = np.zeros(blocks.number, format.bits)
    for number in range(blocks.number):
        own = magnitude[number * blocks.size : (number + 1) * blocks.size]
        used = own[own != 0]
        if used.size:
            total = _norm(own, int(own.max()), format, 1, used.size)
            nearest, _, _ = casts.cast(np.array([total]).view(np.uint64), FLOAT64, format)
            result[number] = min(max(nearest[0], used.min()), own.max())
    return result


def _norm(magnitude: Bits, largest: int, format: Format, p: float, share: int = 1) -> float:
    """The p-norm divided by `share`."""
    top = float(casts.to_float64(np.array([largest], format.bits), format)[0])
    shift = 0 if format != FLOAT64 and p in (1, 2) else math.frexp(top)[1]
    total = 0.0
    for start in range(0, magnitude.size, SUMMATION_BLOCK):
        values = casts.to_float64(magnitude[start : start + SUMMATION_BLOCK], format)
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
    codes: npt.NDArray[np.uint16] = natural_reference.rounded(
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
    over: npt.NDArray[Any] = casts.to_float64(magnitude, format).astype(work)
    under: npt.NDArray[Any] = casts.to_float64(scale, format).astype(work)
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
    x, n = (casts.to_float64(part, format) for part in (magnitude, scale))
    with np.errstate(invalid="ignore"):
        place = np.where(n == 0, 0.0, np.minimum(x / n, 1.0) * levels)
    lower = np.minimum(np.floor(place), levels - 1).astype(np.int64)
    below, above = (
        casts.to_float64(uniform_values(scale, lower + step, levels, format), format)
        for step in (0, 1)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(above > below, (x - below) / (above - below), 0.0)
    full = share >= 1
    chance = np.where(full, 0.0, np.maximum(share, 0.0))
    return Rounded(lower + full, np.ldexp(chance, chance_bits(format)).astype(np.uint64))


def natural_values(scale: Bits, code: _Integers, levels: int, format: Format) -> Bits:
    """N 2^(code - s), and 0 for code 0."""
    powers = np.ldexp(casts.to_float64(scale, format), (code - levels).astype(np.int32))
    return _nearest(np.where(code == 0, 0.0, powers), format)


def uniform_values(scale: Bits, code: _Integers, levels: int, format: Format) -> Bits:
    """N (code / s), both operations in float64."""
    return _nearest(casts.to_float64(scale, format) * (code / levels), format)


def _nearest(values: _Floats, format: Format) -> Bits:
    return casts.cast(values.view(np.uint64), FLOAT64, format)[0]


# ---- whole vectors ----


def rounded(magnitude: Bits, scale: Bits, how: Levels, format: Format) -> Rounded:
    """The levels around each magnitude."""
    if how.natural:
        return natural_levels(quotients(magnitude, scale, format), how.levels)
    if format.itemsize == 2:
        return uniform_levels_of_values(magnitude, scale, how.levels, format)
    return uniform_levels(quotients(magnitude, scale, format), how.levels)


def values(scale: Bits, code: _Integers, how: Levels, format: Format) -> Bits:
    """The values of levels, without signs."""
    given = natural_values if how.natural else uniform_values
    return given(scale, code, how.levels, format)


def sent_scales(
    scales: Bits, how: Levels, format: Format, rng: Rng
) -> tuple[Bits, npt.NDArray[Any]]:
    """The scales to round with, and their sent form."""
    if not how.natural_scale:
        return scales, scales
    scales = np.minimum(scales, format.bits.type(format.largest_power))
    return scales, natural_scales(scales, format, rng)


def read_scales(sent: npt.NDArray[Any], how: Levels, format: Format) -> Bits:
    """The scales that were sent."""
    if how.natural_scale:
        powers: Bits = sent.astype(format.bits) << format.bits.type(format.mantissa)
        return powers
    if (sent >= format.infinity).any():
        raise DecodeError(BAD_SCALE)
    return sent


class DitheredCodes(NamedTuple):
    """Codes of a vector, how many values exceed their scale and how many are not finite."""

    codes: npt.NDArray[Any]
    saturated: int
    nonfinite: int


def encode(
    bits: Bits, format: Format, how: Levels, rng: Rng, scales: Bits, sent: npt.NDArray[Any]
) -> DitheredCodes:
    """The codes of a vector, given its scales and their sent form."""
    codes = np.empty(bits.size, np.int32 if how.coded else np.uint16)
    cut, saturated, nonfinite = Blocks.of(bits.size, how.block), 0, 0
    for part in pieces(bits.size):
        magnitude, bad = magnitudes(bits[part], format)
        scale = cut.spread(scales, part)
        lower, chance = rounded(magnitude, scale, how, format)
        drawn = draws(rng, part.start, magnitude.size, format)
        levels = np.where(cut.spread(sent, part) == 0, 0, lower + (drawn < chance))
        negative = (bits[part] & format.bits.type(format.sign)) != 0
        codes[part] = written_codes(levels, negative, bad, how)
        saturated += int((magnitude > scale).sum())
        nonfinite += int(bad.sum())
    return DitheredCodes(codes, saturated, nonfinite)


def written_codes(
    levels: _Integers,
    negative: npt.NDArray[np.bool_],
    nonfinite: npt.NDArray[np.bool_],
    how: Levels,
) -> _Integers:
    """Codes of levels and signs: signed where they are entropy coded, else one after the other."""
    if how.coded:
        signed = np.where(negative, -levels, levels)
        return np.where(nonfinite, how.levels + 1, signed)
    both = levels + how.levels * (negative & (levels > 0))
    return np.where(nonfinite, 2 * how.levels + 1, both)


def read_codes(codes: npt.NDArray[Any], how: Levels) -> Read:
    """The reverse of `written_codes`."""
    numbers = codes.astype(np.int64)
    if how.coded:
        levels, negative = np.abs(numbers), numbers < 0
        nonfinite = levels == how.levels + 1
        if (nonfinite & negative).any():
            raise DecodeError(SIGN_ON_NAN)
    else:
        nonfinite = numbers == 2 * how.levels + 1
        negative = (numbers > how.levels) & ~nonfinite
        levels = numbers - how.levels * negative
    return Read(np.where(nonfinite, 0, levels), negative, nonfinite)


def values_of_codes(scales: Bits, how: Levels, format: Format) -> Bits | None:
    """The value that each code stands for, NaN last; None if that depends on the block."""
    if scales.size != 1:
        return None
    every = np.arange(2 * how.levels + 2) - (how.levels if how.coded else 0)
    return _signed(np.repeat(scales, every.size), read_codes(every, how), how, format)


def decode(
    codes: npt.NDArray[Any],
    scales: Bits,
    how: Levels,
    format: Format,
    out: Bits,
    first: int = 0,
    table: Bits | None = None,
) -> int:
    """The values of codes from value `first` on; returns how many are not finite.

    `table` are the values of all codes, where there is one scale.
    """
    if scales.size == 1:
        if table is None:
            table = values_of_codes(scales, how, format)
            assert table is not None
        return _decode_block(codes, scales, how, table, out)
    cut, nonfinite = Blocks.of(out.size, how.block), 0
    for part in pieces(out.size):
        own = cut.spread(scales, slice(first + part.start, first + part.stop))
        read = read_codes(codes[part], how)
        if ((own == 0) & (read.levels > 0)).any():
            raise DecodeError(LEVEL_WITHOUT_SCALE)
        out[part] = _signed(own, read, how, format)
        nonfinite += int(read.nonfinite.sum())
    return nonfinite


def _decode_block(codes: npt.NDArray[Any], scale: Bits, how: Levels, table: Bits, out: Bits) -> int:
    """All values by one table of what each code stands for."""
    offset = how.levels if how.coded else 0
    nan = table.size - 1 - offset
    if codes.size and codes.min() < -offset:
        raise DecodeError(SIGN_ON_NAN)
    if not scale[0] and not ((codes == 0) | (codes == nan)).all():
        raise DecodeError(LEVEL_WITHOUT_SCALE)
    for part in pieces(out.size):
        out[part] = table[codes[part] + offset]
    return int(np.count_nonzero(codes == nan))


def _signed(scale: Bits, read: Read, how: Levels, format: Format) -> Bits:
    bits = values(scale, read.levels, how, format)
    bits |= read.negative.astype(format.bits) * format.bits.type(format.sign)
    bits[read.nonfinite] = format.quiet_nan
    return bits
