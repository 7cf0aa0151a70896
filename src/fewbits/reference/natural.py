"""Natural compression: rounding to signed powers of two."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.errors import DecodeError
from fewbits.reference.formats import Bits, Format
from fewbits.rng import Rng

NaturalCodes = npt.NDArray[np.uint16]


class Powers(NamedTuple):
    """A vector of signed powers of two: exponent codes, signs and tally."""

    exponents: NaturalCodes
    signs: NaturalCodes
    saturated: int
    nonfinite: int


def draws(rng: Rng, first: int, count: int, format: Format) -> npt.NDArray[np.uint64]:
    """A uniform number of mantissa size for each element: the top bits of one word, or of two."""
    if format.mantissa <= 32:
        return rng.words(first, count).astype(np.uint64) >> np.uint64(32 - format.mantissa)
    pairs = rng.words(2 * first, 2 * count).reshape(count, 2).astype(np.uint64)
    return (pairs[:, 1] << np.uint64(32) | pairs[:, 0]) >> np.uint64(64 - format.mantissa)


def rounded(bits: Bits, format: Format, rng: Rng | None, first: int = 0) -> Powers:
    """Round to signed powers of two, at random or, if `rng` is None, to the nearest.

    Adding a uniform number of mantissa size to the magnitude carries into the exponent with
    probability $M / 2^m$, which is the rounding. To the nearest, ties go to the smaller magnitude.
    """
    magnitude = bits.astype(np.uint64) & np.uint64(format.sign - 1)
    negative = (bits & bits.dtype.type(format.sign)) != 0
    if rng is None:
        addend = np.full(bits.size, (1 << (format.mantissa - 1)) - 1, np.uint64)
    else:
        addend = draws(rng, first, bits.size, format)
    nonfinite = magnitude >= format.infinity
    saturated = (magnitude > format.largest_power) & ~nonfinite
    exponents = (magnitude + addend) >> np.uint64(format.mantissa)
    exponents[saturated] = format.top_code - 1
    exponents[nonfinite] = format.top_code
    signs = negative & (exponents != 0) & ~nonfinite
    counts = int(saturated.sum()), int(nonfinite.sum())
    return Powers(exponents.astype(np.uint16), signs.astype(np.uint16), *counts)


def values(exponents: NaturalCodes, signs: NaturalCodes, format: Format) -> Bits:
    """The vector that exponent codes and signs stand for; the top code is NaN."""
    if (signs.astype(bool) & ((exponents == 0) | (exponents == format.top_code))).any():
        raise DecodeError("a sign is set on a zero or on a value that is not finite")
    bits = exponents.astype(np.uint64) << np.uint64(format.mantissa)
    bits[exponents == format.top_code] = format.quiet_nan
    bits |= signs.astype(np.uint64) * np.uint64(format.sign)
    return bits.astype(format.bits)
