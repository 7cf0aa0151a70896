"""The native core's functions for single operators through ctypes; `library` has the rest."""

import ctypes
from ctypes import (
    POINTER,
    byref,
    c_int,
    c_size_t,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.backend.library import (
    _SIZED,
    Bytes,
    _checked,
    _core,
    address,
    alike,
    sized,
)
from fewbits.reference.formats import BY_CODE, FLOAT64, Bits, Format


class Steps(ctypes.Structure):
    """How values are rounded to multiples of a step."""

    _fields_ = (
        ("bound", c_uint32),
        *alike(c_uint16, "rounding", "fit"),
        *alike(c_uint64, "run", "first"),
        ("key", c_uint32 * 4),
        *alike(c_int, "dtype", "shift"),
    )
    bound: int
    run: int
    dtype: int


class CodedSteps(NamedTuple):
    """What encoding met: two sums for each run, values that are not finite, bytes."""

    sums: npt.NDArray[np.float64]
    nonfinite: int
    size: int


_RUNS = (POINTER(Steps), c_void_p, c_void_p, c_size_t)
for _name, _arguments in {
    "norm_terms": (
        *(c_void_p, c_int, c_size_t, c_size_t, c_int, c_int),
        *(c_void_p, c_void_p, c_size_t),
    ),
    "steps_encode": (*_SIZED, *_RUNS, *_SIZED, POINTER(c_size_t), c_void_p),
    "steps_decode": (*_SIZED, *_RUNS, *_SIZED),
}.items():
    _function = getattr(_core, f"fewbits_{_name}")
    _function.restype, _function.argtypes = c_int, _arguments


def norm_terms(
    values: Bits, format: Format, size: int, norm: int, shift: int = 0
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.uint64]]:
    """The sum of each piece's terms, and its largest magnitude's bits.

    Sums of float64 are of values divided by two to the `shift`.
    """
    at, count = sized(values, format.bits.type)
    pieces = -(-count // size)
    sums, largest = np.empty(pieces, np.float64), np.empty(pieces, np.uint64)
    how = at, format.code, count, size, norm, shift
    _checked(_core.fewbits_norm_terms(*how, address(sums), address(largest), pieces))
    return sums, largest


def steps_encode(values: Bits, how: Steps, scales: Bits, out: Bytes) -> CodedSteps:
    """Round to multiples of the runs' scales and entropy code them into `out`."""
    sums, tally, written = np.empty((scales.size, 2)), (c_uint64 * 2)(), c_size_t()
    given = *_values(values, how), byref(how), *_runs(scales, how, sums)
    _checked(_core.fewbits_steps_encode(*given, *sized(out), byref(written), byref(tally)))
    return CodedSteps(sums, int(tally[1]), written.value)


def steps_decode(data: Bytes, how: Steps, scales: Bits, values: Bits) -> npt.NDArray[np.bool_]:
    """The reverse, into `values`; returns for each run whether a code is not 0."""
    some = np.empty(scales.size, np.bool_)
    given = *sized(data), byref(how), *_runs(scales, how, some)
    _checked(_core.fewbits_steps_decode(*given, *_values(values, how)))
    return some


def _values(values: Bits, how: Steps) -> tuple[int, int]:
    return sized(values, BY_CODE[how.dtype].bits.type)


def _runs(scales: Bits, how: Steps, found: npt.NDArray[Any]) -> tuple[int, int, int]:
    """The scales of runs, what is found of each, and their number."""
    at, runs = sized(scales, np.uint64 if how.dtype == FLOAT64.code else np.uint32)
    return at, address(found), runs
