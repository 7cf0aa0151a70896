"""The native core through ctypes: one thin, checked function for each of its own.

ctypes releases the interpreter lock for the time of a call. Arrays are passed as flat NumPy arrays;
what a number means is for `fewbits.kernels` to know.
"""

import ctypes
import sys
from ctypes import (
    POINTER,
    byref,
    c_int,
    c_size_t,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits.errors import DecodeError

ABI = 4
SIMD = ("scalar", "avx2")

Bytes = npt.NDArray[np.uint8]
Array = npt.NDArray[Any]

OK, BAD_PADDING, BAD_CODE, BAD_SIGN = 0, 3, 4, 5
CODED_LENGTHS, CODED_KIND, CODED_SHORT, CODED_LONG = 6, 7, 8, 9
CODED_TABLE, CODED_STATE, CODED_ESCAPE, CODED_ZERO = 10, 11, 12, 13
BAD_PLACES, BAD_LEVEL = 14, 15
CODED_LENGTH_SIZE = 3  # bytes before each block of a coded section
UNFILLED = "the lengths of a coded section's blocks do not fill the section"
LEVEL_WITHOUT_SCALE = "a block whose scale is 0 holds a level above 0"
_REFUSED = {
    BAD_PADDING: "unused bits at the end of a section are not zero",
    BAD_CODE: "a code is not below its bound",
    BAD_SIGN: "a sign is set on a zero or on a value that is not finite",
    CODED_LENGTHS: UNFILLED,
    CODED_KIND: "a coded block is of an unknown kind",
    CODED_SHORT: "a coded block ends before its codes or signs do",
    CODED_LONG: "bytes are left over at the end of a coded block",
    CODED_TABLE: "a coded block's table of frequencies is impossible",
    CODED_STATE: "a lane of a coded block starts or ends in an impossible state",
    CODED_ESCAPE: "an escaped code has a symbol of its own",
    CODED_ZERO: "a sparse block's mask has a bit for a code that is 0",
    BAD_PLACES: "a section of places is not one that an encoder writes",
    BAD_LEVEL: LEVEL_WITHOUT_SCALE,
}

MAX_DIMENSIONS, MAX_STAGES, MAX_SECTIONS, MAX_PARAMETERS = 32, 8, 16, 32


_TALLY = np.dtype([("saturated", "<u8"), ("nonfinite", "<u8")])
UNIT = np.dtype(
    [
        ("kind", "u1"),
        ("dtype", "u1"),
        ("option", "u1"),
        ("encodes", "u1"),
        ("decodes", "u1"),
        ("remains", "u1"),
        ("reserved", "u1", 2),
        ("values", "<u8"),
        ("count", "<u8"),
        ("first", "<u8"),
        ("key", "V16"),
        ("kept", "<u8"),
        ("factors", "<f8", 2),
        ("sections", "<u8", 3),
        ("sizes", "<u8", 3),
        ("tally", _TALLY),
    ]
)
NATURAL, CAST, CLEAR, DIVIDE, COMBINE = 1, 2, 3, 4, 5
MAX_KEPT = 8192  # values of a unit of which only the largest are encoded
CODED = 2  # added to a natural unit's option


class Parameter(ctypes.Structure):
    """One typed parameter of a stage, as it stands in the frame."""

    _fields_ = (("stage", c_uint8), ("number", c_uint8), ("type", c_uint8), ("value", c_uint8 * 16))
    stage: int
    number: int
    type: int
    value: Any


class Frame(ctypes.Structure):
    """The structure of a frame."""

    _fields_ = (
        ("version", c_uint8),
        ("dtype", c_uint8),
        ("nonfinite", c_uint8),
        ("dimensions", c_uint8),
        ("stages", c_uint8),
        ("sections", c_uint8),
        ("parameters", c_uint8),
        ("codes", c_uint16 * MAX_STAGES),
        ("shape", c_uint64 * MAX_DIMENSIONS),
        ("elements", c_uint64),
        ("offsets", c_uint64 * MAX_SECTIONS),
        ("lengths", c_uint64 * MAX_SECTIONS),
        ("crc", c_uint32),
        ("parameter", Parameter * MAX_PARAMETERS),
    )
    dtype: int
    nonfinite: int
    dimensions: int
    stages: int
    sections: int
    parameters: int
    codes: Any
    shape: Any
    elements: int
    offsets: Any
    lengths: Any
    crc: int
    parameter: Any


def _load() -> ctypes.CDLL:
    name = {"win32": "fewbits.dll", "darwin": "libfewbits.dylib"}.get(sys.platform, "libfewbits.so")
    path = Path(__file__).with_name(name)
    if not path.exists():
        raise ImportError(
            f"the native core {name} was not built: reinstall fewbits, or run `make` in a checkout"
        )
    library = ctypes.CDLL(str(path))
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "abi": (c_uint32, []),
        "simd": (c_int, []),
        "use_simd": (c_int, [c_int]),
        "crc32c_is_hardware": (c_int, []),
        "advise_huge": (None, [c_void_p, c_size_t]),
        "crc32c": (c_uint32, [c_uint32, c_void_p, c_size_t]),
        "crc32c_combine": (c_uint32, [c_uint32, c_uint32, c_uint64]),
        "words": (c_int, [c_uint32 * 4, c_uint64, c_void_p, c_size_t]),
        "pack": (c_int, [c_void_p, c_size_t, c_int, c_void_p, c_size_t]),
        "unpack": (c_int, [c_void_p, c_size_t, c_int, c_uint32, c_void_p, c_size_t]),
        "coded_size": (c_uint64, [c_uint64, c_uint32, c_int]),
        "coded_encode": (
            c_int,
            [c_void_p, c_void_p, c_size_t, c_uint32, c_void_p, c_size_t, POINTER(c_size_t)],
        ),
        "coded_decode": (c_int, [c_void_p, c_size_t, c_uint32, c_void_p, c_void_p, c_size_t]),
        "encode": (c_int, [c_void_p, c_size_t, POINTER(c_size_t)]),
        "decode": (c_int, [c_void_p, c_size_t, POINTER(c_size_t)]),
        "accumulate": (c_int, [c_void_p, c_size_t, POINTER(c_size_t)]),
        "select": (c_int, [c_void_p, c_int, c_size_t, c_void_p, c_size_t, POINTER(c_uint64)]),
        "places_encode": (c_int, [c_void_p, c_size_t, c_uint64, c_void_p, c_size_t]),
        "places_decode": (c_int, [c_void_p, c_size_t, c_uint64, c_void_p, c_size_t]),
        "rotate": (
            c_int,
            [c_void_p, c_int, c_size_t, c_size_t, c_uint32 * 4, c_int, c_void_p, c_uint64 * 2],
        ),
        "frame_parse": (c_int, [c_void_p, c_size_t, c_uint64, POINTER(Frame), c_uint64 * 2]),
    }
    for function, (result, arguments) in signatures.items():
        symbol = getattr(library, f"fewbits_{function}")
        symbol.restype, symbol.argtypes = result, arguments
    if library.fewbits_abi() != ABI:
        raise ImportError(
            f"{path.name} has interface {library.fewbits_abi()}, not {ABI}: reinstall fewbits"
        )
    return library


_core = _load()


def address(array: Array) -> int:
    """The address of a contiguous array's first byte."""
    if not array.flags.c_contiguous:
        raise RuntimeError("native code was given memory that is not contiguous")
    return int(array.ctypes.data)


def key_words(key: bytes) -> Any:
    """A 128-bit key as the four words that native code takes."""
    return (c_uint32 * 4).from_buffer_copy(key)


def simd() -> str:
    """The table of kernels in use: "scalar" or "avx2"."""
    return SIMD[_core.fewbits_simd()]


def use_simd(name: str) -> None:
    """Choose the table for the whole process: for tests and benchmarks, all give the same bits."""
    if name not in SIMD or _core.fewbits_use_simd(SIMD.index(name)) != OK:
        raise ValueError(f"this machine has no {name!r} table of kernels")


def crc32c_is_hardware() -> bool:
    """Whether the checksum uses the processor's instruction."""
    return bool(_core.fewbits_crc32c_is_hardware())


def advise_huge(array: Array) -> None:
    """Ask for huge pages below `array`: fresh memory then costs far fewer page faults."""
    _core.fewbits_advise_huge(address(array), array.nbytes)


def crc32c(data: Bytes, crc: int = 0) -> int:
    """CRC-32C of `data`, continued from `crc`."""
    return int(_core.fewbits_crc32c(crc, address(data), data.nbytes))


def crc32c_combine(crc_a: int, crc_b: int, size_b: int) -> int:
    """The CRC of A followed by B, from both CRCs and B's length."""
    return int(_core.fewbits_crc32c_combine(crc_a, crc_b, size_b))


def words(key: bytes, first: int, count: int) -> npt.NDArray[np.uint32]:
    """Random words, as `Rng.words` specifies them."""
    out = np.empty(count, np.uint32)
    _checked(_core.fewbits_words(key_words(key), first, address(out), count))
    return out


def pack(codes: npt.NDArray[np.uint16], width: int, packed: Bytes) -> None:
    """Codes of `width` bits, least significant bit first, into exactly the bytes they take."""
    _expect(codes, np.uint16)
    _checked(_core.fewbits_pack(address(codes), codes.size, width, address(packed), packed.nbytes))


def unpack(packed: Bytes, width: int, bound: int, codes: npt.NDArray[np.uint16]) -> None:
    """The reverse of `pack`; `DecodeError` for a code not below `bound` or non-zero padding."""
    _expect(codes, np.uint16)
    status = _core.fewbits_unpack(
        address(packed), packed.nbytes, width, bound, address(codes), codes.size
    )
    _checked(status)


def coded_size(count: int, bound: int, signed: bool) -> int:
    """The largest size of a coded section."""
    return int(_core.fewbits_coded_size(count, bound, signed))


def coded_encode(codes: npt.NDArray[np.uint16], signs: Bytes | None, bound: int, out: Bytes) -> int:
    """Entropy code `codes`, with a packed plane of their signs, into `out`; returns the size."""
    _expect(codes, np.uint16)
    _expect_plane(signs, codes.size)
    written = c_size_t()
    signs_at = None if signs is None else address(signs)
    status = _core.fewbits_coded_encode(
        address(codes), signs_at, codes.size, bound, address(out), out.nbytes, byref(written)
    )
    _checked(status)
    return written.value


def coded_decode(
    data: Bytes, bound: int, codes: npt.NDArray[np.uint16], signs: Bytes | None
) -> None:
    """The reverse; `DecodeError` for any other bytes."""
    _expect(codes, np.uint16)
    _expect_plane(signs, codes.size)
    signs_at = None if signs is None else address(signs)
    status = _core.fewbits_coded_decode(
        address(data), data.nbytes, bound, address(codes), signs_at, codes.size
    )
    _checked(status)


def select(values: Array, dtype: int, k: int) -> tuple[npt.NDArray[np.uint32], int]:
    """The places of the `k` largest magnitudes, ascending, and how many values are not finite.

    `dtype` 0 is unsigned 32-bit numbers.
    """
    places, nonfinite = np.empty(k, np.uint32), c_uint64()
    arguments = address(values), dtype, values.size, address(places), k, byref(nonfinite)
    _checked(_core.fewbits_select(*arguments))
    return places, nonfinite.value


def places_encode(places: npt.NDArray[np.uint32], d: int, out: Bytes) -> None:
    """Range code ascending places below `d` into exactly `out`."""
    _expect(places, np.uint32)
    _checked(_core.fewbits_places_encode(address(places), places.size, d, address(out), out.nbytes))


def places_decode(data: Bytes, d: int, places: npt.NDArray[np.uint32]) -> None:
    """The reverse; `DecodeError` for bytes that `places_encode` does not write."""
    _expect(places, np.uint32)
    _checked(
        _core.fewbits_places_decode(address(data), data.nbytes, d, address(places), places.size)
    )


def rotate(
    values: Array, dtype: int, block: int, key: bytes, out: Array, *, inverse: bool
) -> tuple[int, int]:
    """Rotate blocks into `out`; how many values saturated and how many are not finite."""
    if values.dtype != out.dtype or values.size != out.size:
        raise RuntimeError(f"cannot rotate {values.size} {values.dtype} to {out.size} {out.dtype}")
    tally = (c_uint64 * 2)()
    arguments = dtype, values.size, block, key_words(key), int(inverse), address(out), tally
    _checked(_core.fewbits_rotate(address(values), *arguments))
    return int(tally[0]), int(tally[1])


def run_units(direction: str, table: Array) -> None:
    """Encode, decode or accumulate every unit of a table of `UNIT` rows, in order.

    A `DecodeError` has the index of the bad row as its `unit`.
    """
    if table.dtype != UNIT:
        raise RuntimeError(f"a table of units has dtype UNIT, got {table.dtype}")
    failed = c_size_t()
    function = {
        "encode": _core.fewbits_encode,
        "decode": _core.fewbits_decode,
        "accumulate": _core.fewbits_accumulate,
    }[direction]
    status = function(address(table), table.size, byref(failed))
    try:
        _checked(status)
    except DecodeError as error:
        error.unit = failed.value
        raise


def frame_parse(data: Bytes, max_elements: int) -> tuple[int, Frame, tuple[int, int]]:
    """Status, structure and error detail of a frame; sections are not read."""
    frame, detail = Frame(), (c_uint64 * 2)()
    status = _core.fewbits_frame_parse(
        address(data), data.nbytes, max_elements, byref(frame), detail
    )
    return int(status), frame, (int(detail[0]), int(detail[1]))


def _expect(array: Array, dtype: type[np.generic]) -> None:
    if array.dtype != dtype:
        raise RuntimeError(f"native code expects {dtype.__name__}, got {array.dtype}")


def _expect_plane(signs: Bytes | None, count: int) -> None:
    if signs is not None and (signs.dtype != np.uint8 or signs.size != (count + 7) // 8):
        raise RuntimeError(f"{count} signs are not in {signs.size} {signs.dtype}")


def _checked(status: int) -> None:
    if status in _REFUSED:
        raise DecodeError(_REFUSED[status])
    if status != OK:
        raise RuntimeError(f"the native core refused its arguments (status {status})")
