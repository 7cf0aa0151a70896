"""The native core's functions for stages through ctypes: rotations, divisions and random places."""

import ctypes
from ctypes import POINTER, byref, c_double, c_int, c_size_t, c_uint32, c_uint64, c_void_p

from fewbits.backend.library import AnyArray, _checked, _core, address, alike, key_words
from fewbits.backend.native_rows import NativeRow, RowRoom
from fewbits.reference.tally import Tally


class RotationArguments(ctypes.Structure):
    """A rotation of blocks, and what it met."""

    _fields_ = (
        ("key", c_uint32 * 4),
        *alike(c_uint64, "first", "block", "saturated", "nonfinite", "given"),
    )
    saturated: int
    nonfinite: int
    given: int


class DrawnPlaces(ctypes.Structure):
    """Some random places: those whose words are `low` or more."""

    _fields_ = (
        ("key", c_uint32 * 4),
        *alike(c_uint64, "first", "count"),
        *alike(c_uint32, "low", "dtype"),
        ("factor", c_double),
    )
    count: int


_TALLY = c_uint64 * 2
_DRAWS = POINTER(DrawnPlaces)
for _name, _arguments in {
    "rotate": (c_void_p, c_int, c_size_t, POINTER(RotationArguments), c_int, c_void_p),
    "rotated": (c_void_p, POINTER(RotationArguments), c_int),
    "divide": (c_void_p, c_int, c_size_t, c_double, c_void_p, POINTER(c_uint64)),
    "draws_near": (
        *(c_uint32 * 4, c_uint64, c_size_t, c_uint32, c_uint32, c_void_p, c_size_t),
        c_uint64 * 2,
    ),
    "draws_take": (_DRAWS, c_void_p, c_void_p, c_uint64, _TALLY),
    "draws_put": (_DRAWS, c_void_p, c_uint64, c_int, c_void_p, _TALLY),
}.items():
    _function = getattr(_core, f"fewbits_{_name}")
    _function.restype, _function.argtypes = c_int, _arguments

_DIRECTIONS = {"encode": 0, "decode": 1, "accumulate": 2}


def rotation(key: bytes, block: int, first: int = 0) -> RotationArguments:
    return RotationArguments(key=tuple(key_words(key)), first=first, block=block)


def rotate(
    values: AnyArray, dtype: int, how: RotationArguments, out: AnyArray, *, inverse: bool
) -> None:
    """Rotate blocks into `out`, which may be `values`."""
    if values.dtype != out.dtype or values.size != out.size:
        raise RuntimeError(f"cannot rotate {values.size} {values.dtype} to {out.size} {out.dtype}")
    arguments = dtype, values.size, byref(how), int(inverse), address(out)
    _checked(_core.fewbits_rotate(address(values), *arguments))


def divide(values: AnyArray, dtype: int, by: float, out: AnyArray) -> int:
    """Divide into `out`, which may be `values`; how many values are not finite."""
    if values.dtype != out.dtype or values.size != out.size:
        raise RuntimeError(f"cannot divide {values.size} {values.dtype} to {out.size} {out.dtype}")
    nonfinite = c_uint64()
    arguments = dtype, values.size, by, address(out), byref(nonfinite)
    _checked(_core.fewbits_divide(address(values), *arguments))
    return nonfinite.value


def run_rotated(direction: str, row: NativeRow, how: RotationArguments) -> tuple[int, ...]:
    """`native_rows.run_row` behind a rotation."""
    room = RowRoom(row)
    _checked(_core.fewbits_rotated(room.bytes, byref(how), _DIRECTIONS[direction]))
    return room.results()


def draws_near(key: bytes, part: slice, words: tuple[int, int], near: AnyArray) -> tuple[int, int]:
    """How many words are above the last of `words`, and how many from the first to the last.

    As many of these as there is room for are written to `near`.
    """
    counts, size = (c_uint64 * 2)(), part.stop - part.start
    arguments = part.start, size, *words, address(near), near.size, counts
    _checked(_core.fewbits_draws_near(key_words(key), *arguments))
    return int(counts[0]), int(counts[1])


def draws_take(how: DrawnPlaces, values: AnyArray, out: AnyArray) -> Tally:
    """Values at the places, times the factor, into `out`."""
    if values.size != how.count or values.dtype != out.dtype:
        raise RuntimeError(f"cannot take {out.dtype} of {values.size} {values.dtype}")
    tally = _TALLY()
    _checked(_core.fewbits_draws_take(byref(how), address(values), address(out), out.size, tally))
    return Tally(int(tally[0]), int(tally[1]))


def draws_put(how: DrawnPlaces, handed: AnyArray, out: AnyArray, *, add: bool) -> Tally:
    """Values to their places, and zeros elsewhere; or added to totals."""
    if out.size != how.count:
        raise RuntimeError(f"{out.size} values are not {how.count}")
    tally = _TALLY()
    arguments = address(handed), handed.size, int(add), address(out), tally
    _checked(_core.fewbits_draws_put(byref(how), *arguments))
    return Tally(0, int(tally[1]))
