"""Selection of some places of a vector: the largest magnitudes, or random ones."""

from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits.reference import casts
from fewbits.reference.formats import FLOAT64, Bits, Format

Places = npt.NDArray[np.uint32]


def largest(keys: Bits, k: int) -> Places:
    """The places of the `k` largest keys, ascending; of equal keys the first ones."""
    if k == keys.size:
        return np.arange(k, dtype=np.uint32)
    threshold = np.partition(keys, keys.size - k)[keys.size - k]
    above = np.flatnonzero(keys > threshold)
    ties = np.flatnonzero(keys == threshold)[: k - above.size]
    return np.sort(np.concatenate([above, ties])).astype(np.uint32)


def products(bits: Bits, format: Format, d: int) -> tuple[npt.NDArray[np.float64], int]:
    """The `k` values times d/k in float64, clipped to the largest number, and how many were."""
    with np.errstate(over="ignore", invalid="ignore"):
        result: npt.NDArray[Any] = casts.to_float64(bits, format) * (d / bits.size)
    if format != FLOAT64:
        return result, 0
    beyond = np.isinf(result) & np.isfinite(bits.view(np.float64))
    result[beyond] = np.copysign(np.finfo(np.float64).max, result[beyond])
    return result, int(beyond.sum())
