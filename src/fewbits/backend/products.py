"""The native core's products of a matrix with thin factors, through ctypes.

`fewbits.reference.low_rank` specifies them. Factors have rows of `lanes(rank)` numbers, of which
those behind the rank are zeros.
"""

import ctypes
from ctypes import POINTER, byref, c_int, c_int32, c_size_t, c_uint32, c_void_p
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.backend import parallel
from fewbits.backend.library import _checked, _core, address, alike
from fewbits.reference.formats import FLOAT32, FLOAT64

_Array = npt.NDArray[Any]

_LANE = 8
_MOST_LANES = 1024
_CODES = {np.dtype(np.float32): FLOAT32.code, np.dtype(np.float64): FLOAT64.code}


class _Matrix(ctypes.Structure):
    """Some rows and columns of a matrix."""

    _fields_ = (
        *alike(c_void_p, "values", "memory"),
        *alike(ctypes.c_uint64, "rows", "columns", "stride"),
        ("dtype", c_int32),
        ("lanes", c_uint32),
    )


for _name, _arguments in {
    "left_factor": (POINTER(_Matrix), c_void_p, c_void_p),
    "right_factor": (POINTER(_Matrix), c_void_p, c_void_p),
    "settle": (POINTER(_Matrix), *(c_void_p,) * 3, c_uint32, *(c_void_p,) * 2),
    "orthonormal": (c_void_p, c_int, c_size_t, c_uint32, c_void_p, c_size_t),
}.items():
    _function = getattr(_core, f"fewbits_{_name}")
    _function.restype, _function.argtypes = c_int, _arguments


def lanes(rank: int) -> int:
    """The numbers of a factor's row: the rank, rounded up."""
    return -(-rank // _LANE) * _LANE


class Remembered(NamedTuple):
    """A matrix that is the sum of two, of which the second may be missing."""

    values: _Array
    memory: _Array | None

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.values.shape
        return rows, columns

    def _part(self, rows: slice, columns: slice, width: int) -> _Matrix:
        """A part of it, as native code takes it, for factors with rows of `width` numbers."""
        stride, item = self.values.shape[1], self.values.itemsize
        first = (rows.start * stride + columns.start) * item
        memory = None if self.memory is None else address(self.memory) + first
        size = rows.stop - rows.start, columns.stop - columns.start
        how = stride, _CODES[self.values.dtype], width
        return _Matrix(address(self.values) + first, memory, *size, *how)

    def left_factor(self, basis: _Array, out: _Array, *, threads: int = 1) -> None:
        """Write M times the basis."""
        rows, columns = self.shape
        width = self._check(basis, columns, out, rows)

        def work(part: slice) -> None:
            own = self._part(part, slice(0, columns), width)
            _checked(_core.fewbits_left_factor(byref(own), address(basis), address(out[part])))

        _in_parts(work, rows, columns, threads)

    def right_factor(self, left: _Array, out: _Array, *, threads: int = 1) -> None:
        """Write the transposed M times the left factor."""
        rows, columns = self.shape
        width = self._check(left, rows, out, columns)

        def work(part: slice) -> None:
            own = self._part(slice(0, rows), part, width)
            _checked(_core.fewbits_right_factor(byref(own), address(left), address(out[part])))

        _in_parts(work, columns, rows, threads)

    def settle(
        self, left: _Array, own: _Array, mean: _Array, remains: _Array, *, threads: int = 1
    ) -> None:
        """Write what M has beside left times own; the values become left times mean."""
        rows, columns = self.shape
        width = self._check(left, rows, remains, rows, columns)
        _refuse(self.values, self.shape, self.values.dtype, written=True)
        turned = [np.ascontiguousarray(each.T) for each in (own, mean)]
        rank = len(turned[0])
        for each in turned:
            _refuse(each, (min(rank, width), columns), self.values.dtype)

        def work(part: slice) -> None:
            matrix = self._part(part, slice(0, columns), width)
            places = address(left[part]), *map(address, turned), rank
            results = address(self.values[part]), address(remains[part])
            _checked(_core.fewbits_settle(byref(matrix), *places, *results))

        _in_parts(work, rows, columns, threads)

    def _check(self, given: _Array, rows: int, out: _Array, made: int, wide: int = 0) -> int:
        """Refuse what native code would read or write beyond its end; the width of factors."""
        width, dtype = _width(given), self.values.dtype
        _refuse(given, (rows, width), dtype)
        _refuse(out, (made, wide or width), dtype, written=True)
        for each in (self.values, self.memory):
            if each is not None:
                _refuse(each, self.shape, dtype)
        return width


def orthonormal(factor: _Array) -> None:
    """Make the columns orthonormal, in place."""
    rows, width = len(factor), _width(factor)
    _refuse(factor, (rows, width), factor.dtype, written=True)
    scratch = np.empty(factor.size, np.float64)
    how = _CODES[factor.dtype], rows, width, address(scratch), scratch.size
    _checked(_core.fewbits_orthonormal(address(factor), *how))


def _width(factor: _Array) -> int:
    """The numbers of a factor's row, of which native code takes whole lanes."""
    width = factor.shape[1] if factor.ndim == 2 else 0
    if width not in range(_LANE, _MOST_LANES + 1, _LANE):
        raise RuntimeError(f"rows of a factor have 8 to 1024 numbers in eights: {factor.shape}")
    return width


def _refuse(
    array: _Array, shape: tuple[int, int], dtype: "np.dtype[Any]", *, written: bool = False
) -> None:
    """Refuse what native code would misread, or where it would reach beyond its end."""
    flags = array.flags
    is_sound = flags.c_contiguous and flags.aligned and (flags.writeable or not written)
    if dtype not in _CODES or array.dtype != dtype or array.shape != shape or not is_sound:
        given = f"{array.dtype} {array.shape}" + ("" if is_sound else " that lies otherwise")
        raise RuntimeError(f"native code needs rows of {dtype} {shape}, got {given}")


def _in_parts(work: Any, count: int, each: int, threads: int) -> None:
    """`work` on parts of [0, count), each of which stands for `each` numbers, in some threads."""
    parts = parallel.shares(count * each, threads)
    cuts = [count * part // parts for part in range(parts + 1)]
    parallel.each(lambda number: work(slice(cuts[number], cuts[number + 1])), parts)
