"""Tables of rows for the native core through ctypes: many rows in one call, or one alone."""

import ctypes
import struct
from ctypes import byref, c_double, c_size_t, c_void_p
from typing import NamedTuple

import numpy as np

from fewbits.backend.kernel import Row, RowDirection, Written
from fewbits.backend.library import OK, AnyArray, _checked, _core, address
from fewbits.errors import DecodeError
from fewbits.reference.tally import Tally

_TALLY = np.dtype([("saturated", "<u8"), ("nonfinite", "<u8")])
NATIVE_ROW = np.dtype(
    [
        ("kind", "u1"),
        ("dtype", "u1"),
        ("option", "u1"),
        ("encodes", "u1"),
        ("decodes", "u1"),
        ("remains", "u1"),
        ("levels", "<u2"),
        ("values", "<u8"),
        ("count", "<u8"),
        ("first", "<u8"),
        ("key", "V16"),
        ("kept", "<u8"),
        ("block", "<u8"),
        ("factors", "<f8", 2),
        ("sections", "<u8", 3),
        ("sizes", "<u8", 3),
        ("tally", _TALLY),
    ]
)
_ROW = struct.Struct("<6BHQQQ16s2Q2d3Q3Q2Q")  # the same, for a row alone
_RESULTS = struct.Struct("<3Q2Q")  # its last fields: sizes and tally
_AT_RESULTS = _ROW.size - _RESULTS.size
_ROOM = ctypes.c_char * _ROW.size
MAX_KEPT = 8192  # values of a unit of which only the largest are encoded


def run_rows(direction: str, table: AnyArray) -> None:
    """Encode, decode or accumulate every row of a table of `NATIVE_ROW` rows, in order.

    A `DecodeError` has the index of the bad row as its `row`.
    """
    if table.dtype != NATIVE_ROW:
        raise RuntimeError(f"a table of units has dtype NATIVE_ROW, got {table.dtype}")
    failed = c_size_t()
    status = _FUNCTIONS[direction](address(table), table.size, byref(failed))
    if status != OK:
        try:
            _checked(status)
        except DecodeError as error:
            error.row = failed.value
            raise


class NativeRow(NamedTuple):
    """One row for the native core: addresses and numbers."""

    kind: int
    dtype: int
    option: int
    values: int
    elements: int
    first: int
    key: bytes
    kept: int
    sections: tuple[int, int, int]
    sizes: tuple[int, int, int]
    levels: int = 0
    block: int = 0
    factors: tuple[float, float] = (0.0, 0.0)


class RowRoom:
    """One row as native code reads it, and what it has written there."""

    def __init__(self, row: NativeRow) -> None:
        self.bytes = _ROOM()
        _ROW.pack_into(
            self.bytes, 0, row.kind, row.dtype, row.option, 0, 0, 0, row.levels, row.values,
            row.elements, row.first, row.key, row.kept, row.block, *row.factors, *row.sections,
            *row.sizes, 0, 0,
        )  # fmt: skip

    def results(self) -> tuple[int, ...]:
        """Sizes, and how many values saturated or are not finite."""
        return _RESULTS.unpack_from(self.bytes, _AT_RESULTS)


def run_row(direction: str, row: NativeRow) -> tuple[int, ...]:
    """Run a table of one row; its sizes, and how many values saturated or are not finite."""
    room, failed = RowRoom(row), c_size_t()
    _checked(_FUNCTIONS[direction](room.bytes, 1, byref(failed)))
    return room.results()


def run_whole(
    direction: RowDirection,
    row: Row,
    numbers: tuple[int, int, int],
    kept: int = 0,
    factors: tuple[float, float] = (0.0, 0.0),
) -> Written:
    """A row as a table has it; `numbers` are its option, levels and block."""
    addresses, sizes = [0, 0, 0], [0, 0, 0]
    for number, section in enumerate(row.sections):
        addresses[number], sizes[number] = section.address, section.size
    option, levels, block = numbers
    *written, saturated, nonfinite = run_row(
        direction,
        NativeRow(
            row.kernel.kind, row.format.code, option, row.values.address, row.count(direction), 0,
            row.key, kept, (addresses[0], addresses[1], addresses[2]),
            (sizes[0], sizes[1], sizes[2]), levels, block, factors,
        ),
    )  # fmt: skip
    return Written(Tally(saturated, nonfinite), tuple(written[: len(row.sections)]))


def trellis_nu(row: NativeRow, squares: float, shift: int, peak: float) -> float:
    """The nu that a whole row's rate asks for."""
    nu = c_double()
    _checked(
        _core.fewbits_trellis_nu(
            RowRoom(row).bytes, c_double(squares), shift, c_double(peak), byref(nu)
        )
    )
    return nu.value


def trellis_slice(row: NativeRow, shift: int, sums: AnyArray) -> int:
    """Encode a slice with the step that is in its section of scales; returns the size."""
    room = RowRoom(row)
    _checked(_core.fewbits_trellis_slice(room.bytes, shift, c_void_p(address(sums))))
    return room.results()[1]


_FUNCTIONS = {
    "encode": _core.fewbits_encode,
    "decode": _core.fewbits_decode,
    "accumulate": _core.fewbits_accumulate,
}
