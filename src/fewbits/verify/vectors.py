"""Vectors that bring faults of kernels to light, as bits of a format."""

import numpy as np

from fewbits.backend.kernel import Kernel, Kind
from fewbits.reference import dithering, natural
from fewbits.reference.formats import FLOAT32, Bits, Format
from fewbits.rng import Rng

VECTOR_KINDS = ("normal", "bits", "subnormal", "huge", "edges", "brink")


def vector(kind: str, kernel: Kernel, format: Format, count: int, rng: Rng) -> Bits:
    """A vector of a kind; `brink` depends on the kernel and on the stream that it will draw from.

    Ordinary values, any bits, subnormal ones, those near the largest, a list of edges. On all of
    them a fault in a draw's low bits changes one rounding in thousands. Values on the brink are
    rounded up or just not by the very draw that they meet, so every bit of it matters.
    """
    random = np.random.default_rng(np.frombuffer(rng.key, np.uint32))
    if kind == "brink":
        return _brink(kernel, format, count, rng)
    signs = random.integers(0, 2, count, np.uint64) * np.uint64(format.sign)
    top, least = format.infinity, 1 << format.mantissa
    if kind == "normal":
        spread = 1 << (format.mantissa + 3)
        middle = (format.bias - 4) << format.mantissa
        found = middle + random.integers(-spread, spread, count)
    elif kind == "bits":
        return random.integers(0, 2 * format.sign, count, np.uint64).astype(format.bits)
    elif kind == "subnormal":
        found = random.integers(0, least + 8, count)
    elif kind == "huge":
        found = random.integers(format.largest_power - 8, top, count)
    else:
        found = _edges(format)[(np.arange(count) * 7 + int(random.integers(count + 1))) % 18]
    return (found.astype(np.uint64) | signs).astype(format.bits)


def _edges(format: Format) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Magnitudes at which something begins or ends."""
    one, half = format.bias << format.mantissa, 1 << (format.mantissa - 1)
    power, least, top = format.largest_power, 1 << format.mantissa, format.infinity
    return np.array([
        0, 1, half, least - 1, least, least + 1, one, one + half, one + half - 1, one + half + 1,
        power - 1, power, power + 1, top - 1, top, top + 1, format.quiet_nan, format.sign - 1,
    ])  # fmt: skip


def _brink(kernel: Kernel, format: Format, count: int, rng: Rng) -> Bits:
    place = np.arange(count, dtype=np.uint64)
    signs = (place >> np.uint64(1) & np.uint64(1)) * np.uint64(format.sign)
    if kernel.kind is Kind.DITHERING and format == FLOAT32:
        return (_dithered(kernel.numbers, count, rng) | signs).astype(format.bits)
    drawn = natural.draws(rng, 0, count, format)
    most = np.uint64((1 << format.mantissa) - 1)
    mantissa = np.minimum(most + np.uint64(1) - drawn - (place & np.uint64(1)), most)
    middle = np.uint64((format.bias - 7) << format.mantissa)
    return (middle | mantissa | signs).astype(format.bits)


def _dithered(levels: dithering.Levels, count: int, rng: Rng) -> Bits:
    """Shares of a scale of 1, which the first value of every block has."""
    drawn = dithering.draws(rng, 0, count, FLOAT32)
    place = np.arange(count)
    if levels.natural:
        step = (place % levels.levels).astype(np.uint64)
        mantissa = (drawn >> np.uint64(8)) + (place & 1).astype(np.uint64)
        most = np.uint64((1 << FLOAT32.mantissa) - 1)
        bits = (np.uint64(126) - step) << np.uint64(23) | np.minimum(mantissa, most)
        # Below the lowest level, which is 2^(1 - levels), the share itself is the chance.
        low = (drawn / 2.0**31 * 2.0 ** (1 - levels.levels)).astype(np.float32).view(np.uint32)
        bits = np.where(step == levels.levels - 1, low + (place & 1).astype(np.uint32), bits)
    else:
        share = (place % levels.levels + drawn / 2.0**31) / levels.levels
        bits = share.astype(np.float32).view(np.uint32).astype(np.uint64)
        bits += (place % 3).astype(np.uint64)
        bits = np.minimum(bits, np.uint64(0x3F800000))
    bits[:: levels.block or max(count, 1)] = 0x3F800000
    return np.asarray(bits)
