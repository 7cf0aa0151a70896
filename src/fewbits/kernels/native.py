"""The native kernels on flat arrays of bits, split over threads: the bits of `reference`."""

from ctypes import Array
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits import _native
from fewbits.kernels import parallel
from fewbits.kernels.formats import Bits, Format
from fewbits.rng import Rng

Bytes = _native.Bytes
NATURAL, CAST = _native.NATURAL, _native.CAST
_NO_KEY = bytes(16)


class Tally(NamedTuple):
    """What a pass over the values met."""

    saturated: int = 0
    nonfinite: int = 0


def packed_size(count: int, width: int) -> int:
    """Bytes that `count` codes of `width` bits take."""
    return (count * width + 7) // 8


def as_bits(section: Bytes, format: Format) -> Bits:
    """A section's bytes as elements of a format, wherever the section starts."""
    return section.view(format.bits)


def crc32c(data: Bytes, threads: int = 1) -> int:
    """CRC-32C of a buffer."""
    parts = parallel.run(
        lambda piece: (_native.crc32c(data[piece]), data[piece].size), data.size, threads
    )
    total = 0
    for crc, size in parts:
        total = _native.crc32c_combine(total, crc, size)
    return total


def natural_encode(
    bits: Bits, format: Format, rng: Rng | None, planes: tuple[Bytes, Bytes], *, threads: int = 1
) -> Tally:
    """Round to powers of two and write both planes; to the nearest if `rng` is None."""
    key = _NO_KEY if rng is None else rng.key

    def work(piece: slice) -> Tally:
        units = _units(bits, format, planes, piece, key)
        _native.natural_encode(format.code, int(rng is None), units)
        return Tally(units[0].tally.saturated, units[0].tally.nonfinite)

    return _total(parallel.run(work, bits.size, threads))


def natural_decode(
    planes: tuple[Bytes, Bytes], format: Format, out: Bits, *, threads: int = 1
) -> Tally:
    """Read both planes into `out`."""

    def work(piece: slice) -> Tally:
        units = _units(out, format, planes, piece, _NO_KEY)
        _native.natural_decode(format.code, units)
        return Tally(0, units[0].tally.nonfinite)

    return _total(parallel.run(work, out.size, threads))


def natural_accumulate(
    planes: tuple[Bytes, Bytes], format: Format, totals: npt.NDArray[Any], *, threads: int = 1
) -> Tally:
    """Add the decoded vector to `totals`: float64 for float64, otherwise float32."""
    expected = np.float64 if format.itemsize == 8 else np.float32
    if totals.dtype != expected:
        raise RuntimeError(f"{format.name} is summed in {expected.__name__}, got {totals.dtype}")

    def work(piece: slice) -> Tally:
        units = _units(totals, format, planes, piece, _NO_KEY)
        _native.natural_accumulate(format.code, units)
        return Tally(0, units[0].tally.nonfinite)

    return _total(parallel.run(work, totals.size, threads))


def cast(bits: Bits, source: Format, target: Format, out: Bits, *, threads: int = 1) -> Tally:
    """Convert between formats; a copy that counts non-finite values where they are equal."""
    if bits.size != out.size or bits.dtype != source.bits or out.dtype != target.bits:
        raise RuntimeError(f"cannot cast {bits.size} {bits.dtype} to {out.size} {out.dtype}")

    def work(piece: slice) -> Tally:
        tally = _native.cast(source.code, bits[piece], target.code, out[piece])
        return Tally(tally.saturated, tally.nonfinite)

    return _total(parallel.run(work, bits.size, threads))


def _units(
    values: npt.NDArray[Any], format: Format, planes: tuple[Bytes, Bytes], piece: slice, key: bytes
) -> "Array[_native.NaturalUnit]":
    """The one-unit table of a slice, with the parts of the planes that belong to it."""
    start, stop = piece.start, piece.stop
    exponents = planes[0][packed_size(start, format.exponent) : packed_size(stop, format.exponent)]
    signs = planes[1][packed_size(start, 1) : packed_size(stop, 1)]
    unit = _native.NaturalUnit(
        _native.address(values[piece]), stop - start, start, _native.key_words(key),
        _native.address(exponents), exponents.nbytes, _native.address(signs), signs.nbytes,
    )  # fmt: skip
    return (_native.NaturalUnit * 1)(unit)


def _total(tallies: list[Tally]) -> Tally:
    return Tally(sum(t.saturated for t in tallies), sum(t.nonfinite for t in tallies))
