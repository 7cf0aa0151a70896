"""The native core's part for sparse dithering through ctypes; `_native` has the rest."""

import ctypes
from ctypes import POINTER, byref, c_int, c_size_t, c_uint16, c_uint32, c_uint64, c_void_p

import numpy as np
import numpy.typing as npt

from fewbits._native import Bytes, _checked, _core, _expect, address


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


_RUNS = (POINTER(Steps), c_void_p, c_void_p, c_size_t)
_core.fewbits_steps_encode.restype = c_int
_core.fewbits_steps_encode.argtypes = (
    *(c_void_p, c_size_t, *_RUNS),
    *(c_void_p, c_size_t, POINTER(c_size_t), c_void_p),
)
_core.fewbits_steps_decode.restype = c_int
_core.fewbits_steps_decode.argtypes = (c_void_p, c_size_t, *_RUNS, c_void_p, c_size_t)


def encode(
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


def decode(
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
