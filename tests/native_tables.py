"""Native tables row by row, and single kernels on arrays, for tests that look below the seam."""

import ctypes
from collections.abc import Iterator
from ctypes import c_double, c_uint32
from typing import Any

import numpy as np

from fewbits import Operator, Rng
from fewbits.backend import cpu, library, native_rows, places
from fewbits.backend.buffers import Buffer
from fewbits.backend.kernel import CODED, Kernel, Kind, Row, RowDirection, Written
from fewbits.backend.kinds import composed, draws, plain, spherical
from fewbits.backend.kinds import largest as kind_largest
from fewbits.backend.kinds.rotated import rotate
from fewbits.backend.table import native_kept
from fewbits.coding import places as places_code
from fewbits.coding.bitpack import packed_size
from fewbits.core.vector import Vector
from fewbits.reference import directions
from fewbits.reference.formats import FLOAT16, Format
from fewbits.reference.spherical import Sphere, SphericalCodes, together
from fewbits.reference.tally import Tally, total

__all__ = [
    "CODED",
    "RowDirection",
    "Tally",
    "packed_size",
    "rotate",
    "total",
]

Table = np.ndarray
NATURAL, CAST, CLEAR, DIVIDE, COMBINE = (
    Kind.NATURAL,
    Kind.CAST,
    Kind.CLEAR,
    Kind.DIVIDE,
    Kind.COMBINE,
)


def each_table() -> Iterator[str]:
    """Use every table of kernels that runs here; at the end the one that was in use before.

    For tests whose expectation is the reference's and takes longer than what is tested.
    """
    before = library.simd()
    try:
        for name in library.SIMD:
            try:
                library.use_simd(name)
            except ValueError:  # not on this machine
                continue
            yield name
    finally:
        library.use_simd(before)


def new_table(rows: int) -> np.ndarray:
    return np.zeros(rows, native_rows.NATIVE_ROW)


def set_kernel(row: Any, kernel: tuple[int, ...], format: Format, count: int) -> None:
    """Kind, option and perhaps how many values are kept."""
    row["kind"], row["option"], row["kept"] = *kernel, *(0,) * (3 - len(kernel))
    row["dtype"], row["count"] = format.code, count


def native_kernel(kernel: Kernel, count: int) -> tuple[int, int, int]:
    kept = native_kept(kernel, count)
    assert kept is not None
    return kernel.kind, kernel.option, kept


def set_sections(row: Any, address: int, sizes: list[int]) -> None:
    for number, size in enumerate(sizes):
        row["sections"][number], row["sizes"][number] = address, size
        address += size


def run(direction: RowDirection, table: np.ndarray) -> Tally:
    native_rows.run_rows(direction, table)
    met = table["tally"]
    return Tally(int(met["saturated"].sum()), int(met["nonfinite"].sum()))


def cast(
    bits: np.ndarray, source: Format, target: Format, out: np.ndarray, *, threads: int = 1
) -> Tally:
    if threads == 1:
        return plain.cast(bits, source, target, out)
    kernel = Kernel(Kind.CAST, target.code)
    parts = (out.view(np.uint8),)
    return plain.run("encode", row(kernel, source, bits, parts, None, threads)).tally


def largest(bits: np.ndarray, format: Format | None, k: int) -> tuple[np.ndarray, int]:
    """Without a format: of the largest unsigned 32-bit numbers."""
    return library.select(bits, 0 if format is None else format.code, k)


def drawn_places(rng: Rng, d: int, k: int, threads: int = 1) -> np.ndarray:
    """The places that a stream chooses, from a vector of ones there and zeros elsewhere."""
    ones, out = np.ones(k, np.uint16), np.full(d, 7, np.uint16)
    draws.put(rng, ones, FLOAT16, out, threads, add=False)
    return np.flatnonzero(out)


def spherical_codes(bits: np.ndarray, format: Format, how: Sphere, rng: Rng) -> SphericalCodes:
    """What native code sends of a vector, joined."""
    parts = [
        SphericalCodes(
            codes.radii.astype(np.int64),
            codes.indices[codes.indices >= 0].astype(np.int64),
            codes.escapes.astype(np.int32),
            met[1],
        )
        for codes, met in spherical.searched(bits, format, how, rng, rng.fork("sphere"))
    ]
    return together(parts)


class SphereTask(ctypes.Structure):
    """A search for directions: `fewbits_sphere`."""

    _fields_ = (
        ("key", c_uint32 * 4),
        *((name, c_uint32) for name in ("group", "size", "limit", "reserved")),
        ("slope", c_double),
    )


def first_in_cap(task: SphereTask, values: Any, rounded: Any, need: Any, found: Any) -> None:
    where = [
        array.ctypes.data for array in (directions.normal_table(), values, rounded, need, found)
    ]
    table, *others = map(ctypes.c_void_p, where)
    status = library._core.fewbits_first_in_cap(
        table, ctypes.byref(task), *others, ctypes.c_size_t(need.size)
    )
    library._checked(status)


def search(
    rng: Rng, group: int, values: np.ndarray, need: np.ndarray, least: float, limit: int
) -> np.ndarray:
    """`directions.first_in_cap` by the core; `least` is below every cosine."""
    blocks, size = values.shape
    rounded, length = np.zeros((blocks, size + size % 2), np.int16), 32_000
    with np.errstate(invalid="ignore"):
        factor = np.where(np.isfinite(need), length * least / need, 0.0)
    np.rint(values * factor[:, None], out=rounded[:, :size], casting="unsafe")
    slope = float(length * least - np.sqrt(size) / 2 - 1)
    key = tuple(library.key_words(rng.key))
    task = SphereTask(key=key, group=group, size=size, limit=limit, slope=slope)
    found = np.empty(blocks, np.int32)
    first_in_cap(task, np.ascontiguousarray(values), rounded, need, found)
    return found.astype(np.int64)


def crc32c(data: np.ndarray, threads: int = 1) -> int:
    return cpu.crc32c(Buffer.of(data), threads=threads)


def row(
    kernel: Kernel, format: Format, values: np.ndarray, parts: Any, rng: Rng | None, threads: int
) -> Row:
    key = bytes(16) if rng is None else rng.key
    return Row(kernel, format, Buffer.of(values), tuple(map(Buffer.of, parts)), key, threads)


def natural_encode(
    bits: np.ndarray, format: Format, rng: Rng | None, planes: Any, *, threads: int = 1
) -> Tally:
    kernel = Kernel(Kind.NATURAL, int(rng is None))
    return plain.run("encode", row(kernel, format, bits, planes, rng, threads)).tally


def natural_decode(planes: Any, format: Format, out: np.ndarray, *, threads: int = 1) -> Tally:
    kernel = Kernel(Kind.NATURAL)
    return plain.run("decode", row(kernel, format, out, planes, None, threads)).tally


def natural_accumulate(
    planes: Any, format: Format, totals: np.ndarray, *, threads: int = 1
) -> Tally:
    kernel = Kernel(Kind.NATURAL)
    return plain.run("accumulate", row(kernel, format, totals, planes, None, threads)).tally


def coded_encode(
    bits: np.ndarray, format: Format, rng: Rng | None, section: np.ndarray, *, threads: int = 1
) -> tuple[Tally, int]:
    kernel = Kernel(Kind.NATURAL, CODED | int(rng is None))
    tally, (size,) = plain.run("encode", row(kernel, format, bits, (section,), rng, threads))
    return tally, size


def coded_decode(
    section: np.ndarray, format: Format, out: np.ndarray, *, threads: int = 1
) -> Tally:
    kernel = Kernel(Kind.NATURAL, CODED)
    return plain.run("decode", row(kernel, format, out, (section,), None, threads)).tally


def composed_encode(operator: Operator, x: Vector, rng: Rng, into: Any) -> Written:
    """Stage by stage, even if there is a native row for all of it."""
    kernel = operator.kernel(x.count, x.format)
    return composed.encode(row(kernel, x.format, x.bits, into, rng, 1), cpu.run_row)


def composed_decode(operator: Operator, parts: Any, out: Vector) -> Tally:
    kernel = operator.kernel(out.count, out.format)
    return composed.decode(row(kernel, out.format, out.bits, parts, None, 1), cpu.run_row)


def places_encode(kept: np.ndarray, d: int) -> np.ndarray:
    section = np.full(places_code.size(d, kept.size), 0xA5, np.uint8)
    if section.size:
        places.encode(places_code.listed(kept, d), d, section)
    return section


def places_decode(section: np.ndarray, d: int, k: int) -> np.ndarray:
    found = np.empty(min(k, d - k), np.uint32)
    if found.size:
        places.decode(section, d, found)
    return found if k == found.size else places_code.others(found, d)


def take(
    bits: np.ndarray, format: Format, k: int, threads: int
) -> tuple[np.ndarray, np.ndarray, Tally]:
    """The largest values, the section of their places, and what was met."""
    section = np.full(places_code.size(bits.size, k), 0xA5, np.uint8)
    values, tally = kind_largest.take(bits, format, k, section, threads)
    return values, section, tally


def composed_accumulate(operator: Operator, parts: Any, format: Format, totals: np.ndarray) -> None:
    kernel = operator.kernel(totals.size, format)
    composed.accumulate(row(kernel, format, totals, parts, None, 1), totals, cpu.run_row)
