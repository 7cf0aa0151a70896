"""The native core's functions for single operators through ctypes; `_native` has the rest."""

import ctypes
from ctypes import (
    POINTER,
    byref,
    c_double,
    c_int,
    c_size_t,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)

import numpy as np
import numpy.typing as npt

from fewbits._native import OK, Bytes, _checked, _core, _expect, address


class Dithering(ctypes.Structure):
    """How values are rounded to levels."""

    _fields_ = (
        ("levels", c_uint32),
        ("natural", c_uint32),
        ("block", c_uint64),
        ("first", c_uint64),
        ("key", c_uint32 * 4),
    )


class Steps(ctypes.Structure):
    """How values are rounded to multiples of a step."""

    _fields_ = (
        ("bound", c_uint32),
        ("rounding", c_uint16),
        ("fit", c_uint16),
        ("run", c_uint64),
        ("first", c_uint64),
        ("key", c_uint32 * 4),
    )
    bound: int
    run: int


class Sphere(ctypes.Structure):
    """A search for directions: the stream, the first group, the blocks' size, and two bounds."""

    _fields_ = (
        ("key", c_uint8 * 16),
        ("group", c_uint32),
        ("size", c_uint32),
        ("limit", c_uint32),
        ("reserved", c_uint32),
        ("slope", c_double),
    )
    size: int


_RUNS = (POINTER(Steps), c_void_p, c_void_p, c_size_t)
for _name, _arguments in {
    "norm_terms": (c_void_p, c_size_t, c_size_t, c_int, c_void_p, c_void_p, c_size_t),
    "dither": (c_void_p, c_size_t, POINTER(Dithering), *((c_void_p, c_size_t) * 2), c_void_p),
    "undither": (
        *(c_void_p, c_size_t, POINTER(Dithering), *((c_void_p, c_size_t) * 2)),
        *(c_int, c_void_p),
    ),
    "steps_encode": (
        *(c_void_p, c_size_t, *_RUNS),
        *(c_void_p, c_size_t, POINTER(c_size_t), c_void_p),
    ),
    "steps_decode": (c_void_p, c_size_t, *_RUNS, c_void_p, c_size_t),
    "first_in_cap": (c_void_p, POINTER(Sphere), *(c_void_p,) * 4, c_size_t),
}.items():
    _function = getattr(_core, f"fewbits_{_name}")
    _function.restype, _function.argtypes = c_int, _arguments


def norm_terms(
    values: npt.NDArray[np.uint32], size: int, norm: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.uint32]]:
    """The sum of each piece's terms, and its largest magnitude's bits, for float32."""
    _expect(values, np.uint32)
    pieces = -(-values.size // size)
    sums, largest = np.empty(pieces, np.float64), np.empty(pieces, np.uint32)
    status = _core.fewbits_norm_terms(
        address(values), values.size, size, norm, address(sums), address(largest), pieces
    )
    _checked(status)
    return sums, largest


def dither(
    values: npt.NDArray[np.uint32],
    how: Dithering,
    scales: npt.NDArray[np.uint32],
    packed: Bytes,
) -> tuple[int, int]:
    """Round float32 values to levels and pack the codes; how many saturated or are not finite."""
    _expect(values, np.uint32)
    _expect(scales, np.uint32)
    tally = (c_uint64 * 2)()
    status = _core.fewbits_dither(
        address(values),
        values.size,
        byref(how),
        address(scales),
        scales.size,
        address(packed),
        packed.nbytes,
        byref(tally),
    )
    _checked(status)
    return int(tally[0]), int(tally[1])


def undither(
    packed: Bytes,
    how: Dithering,
    scales: npt.NDArray[np.uint32],
    values: npt.NDArray[np.uint32],
    *,
    add: bool,
) -> tuple[int, int]:
    """The reverse, into `values` or added to them; a status, and how many are not finite."""
    _expect(values, np.uint32)
    _expect(scales, np.uint32)
    tally = (c_uint64 * 2)()
    status = _core.fewbits_undither(
        address(packed),
        packed.nbytes,
        byref(how),
        address(scales),
        scales.size,
        address(values),
        values.size,
        add,
        byref(tally),
    )
    return int(status), int(tally[1])


def check(statuses: list[int]) -> None:
    """Refuse what any part of a vector was refused for: of several reasons the lowest number."""
    _checked(min(filter(None, statuses), default=OK))


def steps_encode(
    values: npt.NDArray[np.uint32], how: Steps, scales: npt.NDArray[np.uint32], out: Bytes
) -> tuple[npt.NDArray[np.float64], int, int]:
    """Round to multiples of the runs' scales and entropy code them into `out`.

    Returns two sums for each run, how many values are not finite, and the size.
    """
    _expect(values, np.uint32)
    _expect(scales, np.uint32)
    sums, tally, written = np.empty((scales.size, 2)), (c_uint64 * 2)(), c_size_t()
    status = _core.fewbits_steps_encode(
        address(values),
        values.size,
        byref(how),
        address(scales),
        address(sums),
        scales.size,
        address(out),
        out.nbytes,
        byref(written),
        byref(tally),
    )
    _checked(status)
    return sums, int(tally[1]), written.value


def steps_decode(
    data: Bytes, how: Steps, scales: npt.NDArray[np.uint32], values: npt.NDArray[np.uint32]
) -> npt.NDArray[np.bool_]:
    """The reverse, into `values`; returns for each run whether a code is not 0."""
    _expect(values, np.uint32)
    _expect(scales, np.uint32)
    some = np.empty(scales.size, np.bool_)
    status = _core.fewbits_steps_decode(
        address(data),
        data.nbytes,
        byref(how),
        address(scales),
        address(some),
        scales.size,
        address(values),
        values.size,
    )
    _checked(status)
    return some


def first_in_cap(
    table: npt.NDArray[np.int16],
    task: Sphere,
    values: npt.NDArray[np.float64],
    rounded: npt.NDArray[np.int16],
    need: npt.NDArray[np.float64],
    found: npt.NDArray[np.int32],
) -> None:
    """The first direction in the cap of every block, a row of `values`; -1 without one."""
    for array, dtype in ((table, np.int16), (values, np.float64), (rounded, np.int16)):
        _expect(array, dtype)
    _expect(need, np.float64)
    _expect(found, np.int32)
    blocks, size = need.size, task.size
    if (table.size, values.size) != (1 << 16, blocks * size) or found.size != blocks:
        raise RuntimeError(f"{values.size} values are not {blocks} blocks of {size}")
    if rounded.size != blocks * (size + size % 2):
        raise RuntimeError(f"{rounded.size} integers are not {blocks} padded blocks of {size}")
    arrays = (address(array) for array in (values, rounded, need, found))
    _checked(_core.fewbits_first_in_cap(address(table), byref(task), *arrays, blocks))
