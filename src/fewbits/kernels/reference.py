"""The kernels in NumPy: slow, short, and the specification. Native code must give the same bits.

Vectors come as arrays of bit patterns (see `formats`), so that formats which NumPy does not have
are no special case. Counts of saturated and non-finite values are returned as plain integers.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.errors import DecodeError
from fewbits.kernels.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, Bits, Format
from fewbits.rng import Rng

Codes = npt.NDArray[np.uint16]
Bytes = npt.NDArray[np.uint8]


class Natural(NamedTuple):
    """A vector of signed powers of two: exponent codes, signs, and what was met on the way."""

    exponents: Codes
    signs: Codes
    saturated: int
    nonfinite: int


def crc32c(data: bytes, crc: int = 0) -> int:
    """CRC-32C bit by bit: reflected polynomial 82F63B78, complemented at both ends."""
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def pack(codes: Codes, width: int) -> Bytes:
    """Codes of `width` bits, least significant bit first, padded with zeros to a byte."""
    bits = (codes[:, None] >> np.arange(width, dtype=np.uint16)) & np.uint16(1)
    return np.packbits(bits.astype(np.uint8).ravel(), bitorder="little")


def unpack(packed: Bytes, width: int, bound: int, count: int) -> Codes:
    """The `count` codes that `pack` wrote; refuses any other bytes."""
    bits = np.unpackbits(packed, bitorder="little")
    if bits[count * width :].any():
        raise DecodeError("unused bits at the end of a section are not zero")
    fields = bits[: count * width].reshape(count, width).astype(np.uint32)
    codes: Codes = (fields << np.arange(width, dtype=np.uint32)).sum(axis=1).astype(np.uint16)
    if (codes >= bound).any():
        raise DecodeError("a code is not below its bound")
    return codes


def draws(rng: Rng, first: int, count: int, format: Format) -> npt.NDArray[np.uint64]:
    """A uniform number of mantissa size for each element: the top bits of one word, or of two."""
    if format.mantissa <= 32:
        return rng.words(first, count).astype(np.uint64) >> np.uint64(32 - format.mantissa)
    pairs = rng.words(2 * first, 2 * count).reshape(count, 2).astype(np.uint64)
    return (pairs[:, 1] << np.uint64(32) | pairs[:, 0]) >> np.uint64(64 - format.mantissa)


def natural(bits: Bits, format: Format, rng: Rng | None, first: int = 0) -> Natural:
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
    return Natural(exponents.astype(np.uint16), signs.astype(np.uint16), *counts)


def natural_bits(exponents: Codes, signs: Codes, format: Format) -> Bits:
    """The vector that exponent codes and signs stand for; the top code is NaN."""
    if (signs.astype(bool) & ((exponents == 0) | (exponents == format.top_code))).any():
        raise DecodeError("a sign is set on a zero or on a value that is not finite")
    bits = exponents.astype(np.uint64) << np.uint64(format.mantissa)
    bits[exponents == format.top_code] = format.quiet_nan
    bits |= signs.astype(np.uint64) * np.uint64(format.sign)
    return bits.astype(format.bits)


def to_float64(bits: Bits, format: Format) -> npt.NDArray[np.float64]:
    """The exact values of a vector of any format."""
    if format == BFLOAT16:
        return to_float64(bits.astype(np.uint32) << np.uint32(16), FLOAT32)
    float_dtype = {FLOAT16: np.float16, FLOAT32: np.float32, FLOAT64: np.float64}[format]
    with np.errstate(invalid="ignore"):  # signalling NaNs are welcome
        return bits.view(float_dtype).astype(np.float64)


def cast(bits: Bits, source: Format, target: Format) -> tuple[Bits, int, int]:
    """Convert, rounding to nearest even once: the bits, and how many saturated or are not finite.

    Finite values stay finite. A copy where the formats are equal, NaN payloads included; otherwise
    every NaN becomes the quiet one.
    """
    values = to_float64(bits, source)
    finite = np.isfinite(values)
    if source == target:
        return bits.copy(), 0, int((~finite).sum())
    if target == FLOAT64:
        result = values.view(np.uint64).copy()
    else:
        result = _rounded(np.where(finite, values, 0.0), target)
    largest = target.infinity - 1
    magnitude_mask = np.uint64(target.sign - 1)
    saturated = (
        (result & magnitude_mask) > largest if target != FLOAT64 else np.zeros(bits.size, bool)
    )
    sign = np.signbit(values).astype(np.uint64) * np.uint64(target.sign)
    result = np.where(saturated & finite, sign | np.uint64(largest), result)
    result = np.where(np.isinf(values), sign | np.uint64(target.infinity), result)
    result = np.where(np.isnan(values), np.uint64(target.quiet_nan), result)
    return result.astype(target.bits), int((saturated & finite).sum()), int((~finite).sum())


def _rounded(values: npt.NDArray[np.float64], target: Format) -> npt.NDArray[np.uint64]:
    """Bits of the nearest value of a narrower format, ties to even; overflow shows as infinity.

    On the target's grid, whose spacing is $2^{e - m}$ down to the smallest normal exponent, NumPy's
    `rint` rounds ties to even; scaling by a power of two is exact.
    """
    magnitude = np.abs(values)
    _, exponent = np.frexp(magnitude)
    exponent = np.maximum(exponent - 1, 1 - target.bias)
    steps = np.rint(np.ldexp(magnitude, target.mantissa - exponent)).astype(np.uint64)
    base = (exponent + target.bias - 1).astype(np.uint64) << np.uint64(target.mantissa)
    sign = np.signbit(values).astype(np.uint64) * np.uint64(target.sign)
    finite_bits = np.where(steps == 0, np.uint64(0), base + steps)
    bits: npt.NDArray[np.uint64] = np.minimum(finite_bits, np.uint64(target.infinity)) | sign
    return bits


def count_nonfinite(bits: Bits, format: Format) -> int:
    """How many values are NaN or infinite."""
    return int(np.count_nonzero((bits & bits.dtype.type(format.infinity)) == format.infinity))


def largest(keys: Bits, k: int) -> npt.NDArray[np.uint32]:
    """The places of the `k` largest keys, ascending; of equal keys the first ones."""
    if k == keys.size:
        return np.arange(k, dtype=np.uint32)
    threshold = np.partition(keys, keys.size - k)[keys.size - k]
    above = np.flatnonzero(keys > threshold)
    ties = np.flatnonzero(keys == threshold)[: k - above.size]
    return np.sort(np.concatenate([above, ties])).astype(np.uint32)
