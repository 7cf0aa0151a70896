r"""The randomised Walsh-Hadamard rotation in NumPy: the specification. Native code has its bits.

A vector is cut into blocks of a power of two; what is left at the end is cut into the powers of two
of its length, the largest first. On a block of $B = 2^e$ values, in the arithmetic of float64 for
float64 and of float32 for the other formats, every operation rounded to nearest:

1. values are multiplied by their signs (forward only);
2. for $h = 1, 2, 4, \dots, B/2$ every pair of places $i, i + h$ with $i \bmod 2h < h$ becomes
   $(a + b, a - b)$;
3. results are multiplied by $2^{-e/2}$ if $e$ is even, else by $c\,2^{-(e-1)/2}$ with $c$ the
   number nearest to $\sqrt{1/2}$: one product, the scale itself is exact;
4. they are rounded to the vector's format and, backward, multiplied by their signs.

No operation depends on the order in which others are done, so any schedule has these bits.

A block whose largest magnitude is $2^{b - 16}$ or more, $b$ the bias of the arithmetic's format, is
multiplied by $2^{-16}$ before step 2 and by $2^{16}$ after step 3, so that no sum overflows; what
then exceeds the largest number becomes it. A block with a value that is not finite becomes quiet
NaN throughout.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits.reference import casts
from fewbits.reference.formats import FLOAT32, FLOAT64, Bits, Format
from fewbits.reference.tally import Tally
from fewbits.rng import Rng

LARGEST_BLOCK = 1 << 16
COMMON = Rng(b"fewbits hadamard").fork("common")  # the signs that need not be sent
HEADROOM = 16  # bits by which the sum of a block's magnitudes may exceed the largest one


def arithmetic(format: Format) -> Format:
    """The format in which a vector is rotated."""
    return FLOAT64 if format == FLOAT64 else FLOAT32


def pieces(d: int, block: int) -> list[tuple[int, int, int]]:
    """Start, block size and number of blocks for every run of equal blocks."""
    whole = d // block
    runs = [(0, block, whole)] if whole else []
    start, size = whole * block, block // 2
    while start < d:
        if d - start >= size:
            runs.append((start, size, 1))
            start += size
        size //= 2
    return runs


def scale(size: int, work: Format) -> Any:
    r"""$1 / \sqrt{B}$ as the arithmetic has it."""
    number = np.dtype(work.name).type
    exponent = size.bit_length() - 1
    odd = number(math.sqrt(0.5)) if exponent % 2 else number(1)
    return odd * number(2.0 ** -(exponent // 2))


def rotate(
    bits: Bits, format: Format, block: int, signs: Rng, *, inverse: bool = False
) -> tuple[Bits, Tally]:
    """The rotated vector, and how many values saturated or are not finite in the result."""
    work = arithmetic(format)
    flip = np.where(signs.words(0, bits.size) >> np.uint32(31), -1.0, 1.0).astype(work.name)
    with np.errstate(invalid="ignore"):  # signalling NaNs are welcome
        values = casts.to_float64(bits, format).astype(work.name)
        turned = values if inverse else values * flip
    result, saturated = np.empty_like(values), 0
    broken = np.zeros(bits.size, bool)
    for start, size, count in pieces(bits.size, block):
        place = slice(start, start + size * count)
        rows = turned[place].reshape(count, size)
        result[place], own, bad = _blocks(rows, work)
        saturated += own
        broken[place] = np.repeat(bad, size)
    rounded, clipped, _ = casts.cast(result.view(work.bits), work, format)
    if inverse:
        rounded ^= np.where(flip < 0, format.bits.type(format.sign), format.bits.type(0))
    rounded[broken] = format.quiet_nan
    # What exceeds the arithmetic's largest number exceeds a 16-bit format's too: count it once.
    return rounded, Tally(saturated if work == format else clipped, int(broken.sum()))


def _blocks(
    rows: npt.NDArray[Any], work: Format
) -> tuple[npt.NDArray[Any], int, npt.NDArray[np.bool_]]:
    """Rotated blocks without signs, how many values saturated, and which blocks are not finite."""
    number = rows.dtype.type
    size = rows.shape[1]
    bad = ~np.isfinite(rows).all(axis=1)
    values = np.where(bad[:, None], number(0), rows)
    huge = np.abs(values).max(axis=1, keepdims=True) >= number(2.0 ** (work.bias - HEADROOM))
    values = np.where(huge, values * number(2.0**-HEADROOM), values)
    h = 1
    while h < size:
        pairs = values.reshape(-1, size // (2 * h), 2, h)
        first, second = pairs[:, :, :1], pairs[:, :, 1:]
        values = np.concatenate([first + second, first - second], axis=2).reshape(-1, size)
        h *= 2
    values = values * scale(size, work)
    most = np.finfo(rows.dtype).max
    with np.errstate(over="ignore"):
        values = np.where(huge, values * number(2.0**HEADROOM), values)
    saturated = int(np.isinf(values).sum())
    return np.clip(values, -most, most).reshape(-1), saturated, bad
