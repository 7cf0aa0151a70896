"""The native core's functions for the spherical operator through ctypes."""

import ctypes
from ctypes import POINTER, byref, c_double, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.backend.library import Bytes, _checked, _core, address, alike, sized
from fewbits.reference.directions import normal_table
from fewbits.reference.formats import Bits


class SphericalArguments(ctypes.Structure):
    """How blocks become directions, and which of a vector's they are."""

    _fields_ = (
        *alike(c_uint32 * 4, "key", "radii_key", "escapes_key"),
        *alike(c_uint64, "first", "group", "place"),
        *alike(c_uint32, "size", "block", "limit"),
        *alike(c_int32, "dtype", "scale", "parameter", "radius_bits", "least_exponent"),
        *alike(c_uint32, "nan_code", "steps"),
        *alike(c_double, "cosine", "room", "rho", "last_rho", "high"),
    )
    first: int
    group: int
    place: int
    size: int
    block: int
    dtype: int


class _Sections(ctypes.Structure):
    _fields_ = (("data", c_void_p * 3), ("sizes", c_uint64 * 3))


class SphereCodes(NamedTuple):
    """Room for the codes of some blocks."""

    radii: npt.NDArray[np.uint16]
    indices: npt.NDArray[np.int32]  # below 0 for blocks without a direction
    escapes: npt.NDArray[np.uint16]


for _name, (_result, *_arguments) in {
    "live": (c_uint64, c_void_p, c_int, c_size_t, c_size_t),
    "encode": (
        *(c_int, c_void_p, POINTER(SphericalArguments), c_void_p, c_size_t),
        *(c_void_p, c_void_p, c_void_p, c_uint64 * 3),
    ),
    "decode": (
        *(c_int, c_void_p, POINTER(SphericalArguments), POINTER(_Sections)),
        *(c_uint64, c_uint64, c_uint64, c_void_p, c_uint64 * 2),
    ),
}.items():
    _function = getattr(_core, f"fewbits_spherical_{_name}")
    _function.restype, _function.argtypes = _result, _arguments
_core.fewbits_rice_append.restype = c_int
_core.fewbits_rice_append.argtypes = (
    *(c_void_p, c_size_t, c_int, c_void_p, c_size_t, c_uint64 * 2),
)


def live_blocks(bits: Bits, dtype: int, block: int) -> int:
    """How many blocks are finite and not zero."""
    return int(_core.fewbits_spherical_live(address(bits), dtype, bits.size, block))


def encode_blocks(
    how: SphericalArguments, bits: Bits, blocks: int, into: SphereCodes
) -> tuple[int, int, int]:
    """Codes of blocks; values beyond `high`, values that are not finite, and escaped blocks."""
    if bits.size != blocks * how.size or min(into.radii.size, into.indices.size) < blocks:
        raise RuntimeError(f"{bits.size} values are not {blocks} blocks of {how.size}")
    counts = (c_uint64 * 3)()
    rooms = address(into.radii), address(into.indices), address(into.escapes)
    arguments = byref(how), address(bits), blocks, *rooms, counts
    table = normal_table()  # held: threads that make the first one at once each have their own
    _checked(_core.fewbits_spherical_encode(address(table), *arguments))
    return int(counts[0]), int(counts[1]), int(counts[2])


def decode_blocks(
    how: SphericalArguments, sections: list[Bytes], out: Bits, begin: int, end: int
) -> tuple[int, int]:
    """Blocks `begin` to `end - 1` of `out`; values that are not finite, and escaped blocks."""
    given, counts = _Sections(), (c_uint64 * 2)()
    for number, section in enumerate(sections):
        given.data[number], given.sizes[number] = sized(section)
    arguments = byref(how), byref(given), out.size, begin, end, address(out), counts
    table = normal_table()  # held, as above
    _checked(_core.fewbits_spherical_decode(address(table), *arguments))
    return int(counts[0]), int(counts[1])


class RiceWriter:
    """Golomb-Rice codes of a known number of numbers, some at a time."""

    def __init__(self, into: Bytes, parameter: int, count: int) -> None:
        into[:] = 0
        self._into, self._parameter = into, parameter
        self._at = (c_uint64 * 2)(0, count * parameter)

    def append(self, numbers: npt.NDArray[np.int32]) -> None:
        """Write what is not below 0."""
        given = *sized(numbers, np.int32), self._parameter, *sized(self._into), self._at
        _checked(_core.fewbits_rice_append(*given))

    @property
    def size(self) -> int:
        return -(-int(self._at[1]) // 8)
