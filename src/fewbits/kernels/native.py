"""The native kernels on flat arrays of bits, split over threads: the bits of `reference`."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits import _native, _native_operators
from fewbits.errors import DecodeError
from fewbits.kernels import parallel, reference, units
from fewbits.kernels.formats import FLOAT32, FLOAT64, Bits, Format
from fewbits.kernels.units import CAST, CODED, NATURAL, NO_KEY, Direction, Table, Tally
from fewbits.rng import Rng

Bytes = _native.Bytes


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
    kernel, key = (NATURAL, int(rng is None)), NO_KEY if rng is None else rng.key
    return _sliced("encode", bits, format, kernel, _planes(planes, format), key, threads)


def natural_decode(
    planes: tuple[Bytes, Bytes], format: Format, out: Bits, *, threads: int = 1
) -> Tally:
    """Read both planes into `out`."""
    return _sliced("decode", out, format, (NATURAL, 0), _planes(planes, format), NO_KEY, threads)


def natural_accumulate(
    planes: tuple[Bytes, Bytes], format: Format, totals: npt.NDArray[Any], *, threads: int = 1
) -> Tally:
    """Add the decoded vector to `totals`: float64 for float64, otherwise float32."""
    _check_totals(format, totals)
    sections = _planes(planes, format)
    return _sliced("accumulate", totals, format, (NATURAL, 0), sections, NO_KEY, threads)


def coded_encode(
    bits: Bits, format: Format, rng: Rng | None, section: Bytes, *, threads: int = 1
) -> tuple[Tally, int]:
    """Round to powers of two and write the entropy-coded section; its size beside the tally.

    Blocks do not depend on each other: every thread writes where the largest blocks before its own
    would end, and then all move together.
    """
    option = CODED | int(rng is None)
    key = NO_KEY if rng is None else rng.key
    bound = format.top_code + 1

    def work(piece: slice) -> tuple[Tally, Bytes]:
        start, end = (_native.coded_size(at, bound, True) for at in (piece.start, piece.stop))
        row = _coded_row(bits[piece], format, option, section[start:end])
        row["first"], row["key"] = piece.start, np.void(key)
        tally = units.run("encode", row)
        return tally, section[start : start + int(row[0]["sizes"][0])]

    written = parallel.run(work, bits.size, threads)
    size = joined(section, [part for _, part in written])
    return units.total([tally for tally, _ in written]), size


def joined(section: Bytes, parts: list[Bytes]) -> int:
    """Move parts of a section, in order and each at or behind its place, together at its front."""
    size = 0
    for part in parts:
        if _native.address(part) != _native.address(section) + size:
            section[size : size + part.size] = part
        size += part.size
    return size


def coded_decode(section: Bytes, format: Format, out: Bits, *, threads: int = 1) -> Tally:
    """Read the entropy-coded section into `out`."""
    return _coded("decode", section, format, out, threads)


def coded_accumulate(
    section: Bytes, format: Format, totals: npt.NDArray[Any], *, threads: int = 1
) -> Tally:
    """Add the decoded vector to `totals`: float64 for float64, otherwise float32."""
    _check_totals(format, totals)
    return _coded("accumulate", section, format, totals, threads)


def cast(bits: Bits, source: Format, target: Format, out: Bits, *, threads: int = 1) -> Tally:
    """Convert between formats; a copy that counts non-finite values where they are equal."""
    if bits.size != out.size or bits.dtype != source.bits or out.dtype != target.bits:
        raise RuntimeError(f"cannot cast {bits.size} {bits.dtype} to {out.size} {out.dtype}")
    sections = ((out.view(np.uint8), 8 * target.itemsize),)
    return _sliced("encode", bits, source, (CAST, target.code), sections, NO_KEY, threads)


def largest(bits: Bits, format: Format | None, k: int) -> tuple[npt.NDArray[np.uint32], int]:
    """The places of the `k` largest magnitudes, ascending, and how many values are not finite.

    Without a format: of the largest unsigned 32-bit numbers.
    """
    if format is None and bits.dtype != np.uint32:
        raise RuntimeError(f"keys are 32-bit numbers, got {bits.dtype}")
    return _native.select(bits, 0 if format is None else format.code, k)


def rotate(
    bits: Bits, format: Format, block: int, signs: Rng, out: Bits, *, inverse: bool = False
) -> Tally:
    """The randomised Walsh-Hadamard rotation of blocks, as `rotation.rotate` specifies it."""
    saturated, nonfinite = _native.rotate(bits, format.code, block, signs.key, out, inverse=inverse)
    return Tally(saturated, nonfinite)


NORMS = {1.0: 1, 2.0: 2, math.inf: 3}  # those that native code knows


def dither_scales(bits: Bits, p: float, block: int, *, threads: int = 1) -> Bits:
    """Each block's norm, as `dithering.scales` has it, for float32 and a norm in `NORMS`."""
    own = bits.view(np.uint32)
    size = block or parallel.GRAIN
    terms = parallel.run(
        lambda piece: _native_operators.norm_terms(own[piece], size, NORMS[p]), bits.size, threads
    )
    sums, largest = (np.concatenate(part) for part in zip(*terms, strict=True))
    if not block and bits.size:
        total = 0.0
        for term in sums.tolist():  # in order, as one thread would
            total += term
        sums, largest = np.array([total]), largest.max(keepdims=True)
    if p == math.inf:
        return largest
    roots = np.sqrt(sums) if p == 2 else sums
    nearest, _, _ = reference.cast(roots.view(np.uint64), FLOAT64, FLOAT32)
    scales: Bits = np.maximum(largest, nearest)
    return scales


def dither(
    bits: Bits,
    rng: Rng,
    scales: Bits,
    packed: Bytes,
    *,
    levels: int,
    natural: bool,
    block: int,
    threads: int = 1,
) -> Tally:
    """Round float32 values to levels of their block's scale and pack the codes."""
    own, width = bits.view(np.uint32), (2 * levels + 1).bit_length()

    def work(piece: slice) -> Tally:
        size, given = _blocks(scales, block, piece)
        how = _native_operators.Dithering(
            levels, natural, size, piece.start, _native.key_words(rng.key)
        )
        part = packed[packed_size(piece.start, width) : packed_size(piece.stop, width)]
        return Tally(*_native_operators.dither(own[piece], how, given, part))

    return units.total(parallel.run(work, bits.size, threads))


MOST_UNDITHERED = 127  # levels whose codes fit into a byte


def undither(
    packed: Bytes,
    scales: Bits,
    values: npt.NDArray[Any],
    *,
    levels: int,
    natural: bool,
    block: int,
    add: bool = False,
    threads: int = 1,
) -> Tally:
    """The reverse for at most `MOST_UNDITHERED` levels: to float32 bits, or added to totals."""
    if add:
        _check_totals(FLOAT32, values)
    own, width = values.view(np.uint32), (2 * levels + 1).bit_length()

    def work(piece: slice) -> tuple[int, int]:
        size, given = _blocks(scales, block, piece)
        how = _native_operators.Dithering(levels, natural, size)
        part = packed[packed_size(piece.start, width) : packed_size(piece.stop, width)]
        return _native_operators.undither(part, how, given, own[piece], add=add)

    found = parallel.run(work, values.size, threads)
    _native_operators.check([status for status, _ in found])
    return Tally(0, sum(nonfinite for _, nonfinite in found))


def _blocks(scales: Bits, block: int, piece: slice) -> tuple[int, npt.NDArray[np.uint32]]:
    """The size of a piece's blocks, and their scales."""
    size = block or max(piece.stop - piece.start, 1)
    first = piece.start // block if block else 0
    given = scales[first : first + -(-(piece.stop - piece.start) // size)]
    return size, given.view(np.uint32)


def _coded(
    direction: Direction, section: Bytes, format: Format, values: npt.NDArray[Any], threads: int
) -> Tally:
    starts = block_starts(section, -(-values.size // parallel.GRAIN))

    def work(piece: slice) -> Tally:
        first, last = piece.start // parallel.GRAIN, -(-piece.stop // parallel.GRAIN)
        part = section[starts[first] : starts[last]]
        return units.run(direction, _coded_row(values[piece], format, CODED, part))

    return units.total(parallel.run(work, values.size, threads))


def _coded_row(values: npt.NDArray[Any], format: Format, option: int, section: Bytes) -> Table:
    table = units.new_table(1)
    units.set_kernel(table[0], (NATURAL, option), format, values.size)
    units.set_sections(table[0], _native.address(section), [section.size])
    table["values"] = _native.address(values)
    return table


def block_starts(section: Bytes, blocks: int) -> list[int]:
    """Where each block of a coded section begins, and where the last one ends.

    Judged first and as a whole, so that an error does not depend on the number of threads.
    """
    starts = [0]
    for _ in range(blocks):
        at = starts[-1] + _native.CODED_LENGTH_SIZE
        starts.append(at + int.from_bytes(section[starts[-1] : at].tobytes(), "little"))
        if at > section.size or starts[-1] > section.size:
            raise DecodeError(_native.UNFILLED)
    if starts[-1] != section.size:
        raise DecodeError(_native.UNFILLED)
    return starts


def _check_totals(format: Format, totals: npt.NDArray[Any]) -> None:
    expected = np.float64 if format.itemsize == 8 else np.float32
    if totals.dtype != expected:
        raise RuntimeError(f"{format.name} is summed in {expected.__name__}, got {totals.dtype}")


def _planes(planes: tuple[Bytes, Bytes], format: Format) -> tuple[tuple[Bytes, int], ...]:
    """The natural operator's sections, each with the bits that an element takes in it."""
    return (planes[0], format.exponent), (planes[1], 1)


def _sliced(
    direction: Direction,
    values: npt.NDArray[Any],
    format: Format,
    kernel: tuple[int, int],
    sections: tuple[tuple[Bytes, int], ...],
    key: bytes,
    threads: int,
) -> Tally:
    """One unit for each thread's slice; slices start where every section is at a whole byte."""

    def work(piece: slice) -> Tally:
        table = units.new_table(1)
        row = table[0]
        units.set_kernel(row, kernel, format, piece.stop - piece.start)
        row["values"], row["first"] = _native.address(values[piece]), piece.start
        row["key"] = np.void(key)
        for number, (section, width) in enumerate(sections):
            own = section[packed_size(piece.start, width) : packed_size(piece.stop, width)]
            row["sections"][number], row["sizes"][number] = _native.address(own), own.size
        return units.run(direction, table)

    return units.total(parallel.run(work, values.size, threads))
