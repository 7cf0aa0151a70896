"""Conversions between float formats, on arrays of bit patterns.

Vectors come as bit patterns (see `formats`), so that formats which NumPy does not have are no
special case. Counts of saturated and non-finite values are returned as plain integers.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits.reference.blocks import pieces
from fewbits.reference.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, Bits, Format


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
    top = bits.dtype.type(format.infinity)
    return sum(int(np.count_nonzero((bits[part] & top) == top)) for part in pieces(bits.size))


def count_above(bits: Bits, format: Format, limit: float) -> int:
    """How many finite values have a magnitude above `limit`; none if that is infinite."""
    if limit == math.inf:
        return 0
    magnitudes = np.abs(to_float64(bits, format))
    return int(np.count_nonzero(np.isfinite(magnitudes) & (magnitudes > limit)))


def wide(bits: Bits, format: Format) -> npt.NDArray[Any]:
    """The numbers in the format in which they are summed: float64 for float64, else float32."""
    if format.itemsize >= 4:
        return bits.view(format.name)
    return to_float64(bits, format).astype(np.float32)
