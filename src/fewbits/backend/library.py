"""The native core through ctypes: one thin, checked function for each of its own.

ctypes releases the interpreter lock for the time of a call. Arrays are passed as flat NumPy arrays;
what a number means is for the kernels to know.
"""

import ctypes
import os
import sys
import warnings
from ctypes import (
    POINTER,
    byref,
    c_char_p,
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

from fewbits.coding import rice
from fewbits.coding.places import WRONG_PLACES
from fewbits.coding.rans import UNFILLED
from fewbits.errors import DecodeError
from fewbits.reference.dithering import BAD_SCALE, LEVEL_WITHOUT_SCALE
from fewbits.reference.grid_scales import BAD_STEP, CODES_WITHOUT_SCALE, ONLY_ZEROS

ABI = 10

Bytes = npt.NDArray[np.uint8]
AnyArray = npt.NDArray[Any]

OK, BAD_PADDING, BAD_CODE, BAD_SIGN = 0, 3, 4, 5
CODED_LENGTHS, CODED_KIND, CODED_SHORT, CODED_LONG = 6, 7, 8, 9
CODED_TABLE, CODED_STATE, CODED_ESCAPE, CODED_ZERO = 10, 11, 12, 13
BAD_PLACES, BAD_LEVEL, BAD_NORM, _BAD_STEP, _NO_STEP, _ONLY_ZEROS = range(14, 20)
CODED_GAPS, _RICE_SHORT, _RICE_LEFT, _RICE_LARGE, _SPHERE_ESCAPES = range(33, 38)
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
    BAD_PLACES: WRONG_PLACES,
    BAD_LEVEL: LEVEL_WITHOUT_SCALE,
    BAD_NORM: BAD_SCALE,
    _BAD_STEP: BAD_STEP,
    _NO_STEP: CODES_WITHOUT_SCALE,
    _ONLY_ZEROS: ONLY_ZEROS,
    CODED_GAPS: "the gaps of a coded block do not fit into it",
    _RICE_SHORT: rice.RICE_CUT,
    _RICE_LEFT: rice.LEFT,
    _RICE_LARGE: rice.RICE_LARGE,
    _SPHERE_ESCAPES: "values of an escaped block are missing, or others are there",
}

_SIZED = (c_void_p, c_size_t)  # an address and a size
MAX_DIMENSIONS, MAX_STAGES, MAX_SECTIONS, MAX_PARAMETERS = 32, 8, 16, 32


def alike(type: Any, *names: str) -> list[tuple[str, Any]]:
    """Fields of one type, for structures and tables."""
    return [(name, type) for name in names]


class ParameterRecord(ctypes.Structure):
    """One typed parameter of a stage, as it stands in the frame."""

    _fields_ = (*alike(c_uint8, "stage", "number", "type"), ("value", c_uint8 * 16))
    stage: int
    number: int
    type: int
    value: Any


class Frame(ctypes.Structure):
    """The structure of a frame."""

    _fields_ = (
        *alike(c_uint8, "version", "dtype", "nonfinite", "dimensions"),
        *alike(c_uint8, "stages", "sections", "parameters"),
        ("codes", c_uint16 * MAX_STAGES),
        ("shape", c_uint64 * MAX_DIMENSIONS),
        ("elements", c_uint64),
        *alike(c_uint64 * MAX_SECTIONS, "offsets", "lengths"),
        ("crc", c_uint32),
        ("parameter", ParameterRecord * MAX_PARAMETERS),
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


def core_file() -> Path:
    """Where the native core is, or would be."""
    name = {"win32": "fewbits.dll", "darwin": "libfewbits.dylib"}.get(sys.platform, "libfewbits.so")
    return Path(__file__).parents[1] / name


def _load() -> ctypes.CDLL:
    path = core_file()
    if not path.exists():
        raise ImportError(
            f"the native core {path.name} was not built: "
            "reinstall fewbits, or run `make` in a checkout"
        )
    library = ctypes.CDLL(str(path))
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "abi": (c_uint32, []),
        "simd": (c_int, []),
        "simd_name": (c_char_p, [c_int]),
        "use_simd": (c_int, [c_int]),
        "crc32c_is_hardware": (c_int, []),
        "advise_huge": (None, [*_SIZED]),
        "crc32c": (c_uint32, [c_uint32, *_SIZED]),
        "crc32c_combine": (c_uint32, [c_uint32, c_uint32, c_uint64]),
        "words": (c_int, [c_uint32 * 4, c_uint64, *_SIZED]),
        "pack": (c_int, [*_SIZED, c_int, *_SIZED]),
        "unpack": (c_int, [*_SIZED, c_int, c_uint32, *_SIZED]),
        "coded_size": (c_uint64, [c_uint64, c_uint32, c_int]),
        "coded_encode": (c_int, [c_void_p, *_SIZED, c_uint32, *_SIZED, POINTER(c_size_t)]),
        "coded_decode": (c_int, [*_SIZED, c_uint32, c_void_p, *_SIZED]),
        "dithered_encode": (
            c_int,
            [c_void_p, *_SIZED, c_uint32, c_void_p, c_uint64, *_SIZED, POINTER(c_size_t)],
        ),
        "dithered_decode": (c_int, [*_SIZED, c_uint32, c_void_p, c_uint64, c_void_p, *_SIZED]),
        "encode": (c_int, [*_SIZED, POINTER(c_size_t)]),
        "decode": (c_int, [*_SIZED, POINTER(c_size_t)]),
        "accumulate": (c_int, [*_SIZED, POINTER(c_size_t)]),
        "select": (c_int, [c_void_p, c_int, c_size_t, *_SIZED, POINTER(c_uint64)]),
        "frame_parse": (c_int, [*_SIZED, c_uint64, POINTER(Frame), c_uint64 * 2]),
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


def _tables() -> tuple[str, ...]:
    names: list[str] = []
    while (name := _core.fewbits_simd_name(len(names))) is not None:
        names.append(name.decode())
    return tuple(names)


SIMD = _tables()  # names of the core's tables of kernels; the processor may lack some


def address(array: AnyArray) -> int:
    """The address of a contiguous array's first byte."""
    if not array.flags.c_contiguous:
        raise RuntimeError("native code was given memory that is not contiguous")
    return int(array.ctypes.data)


def sized(array: AnyArray, dtype: type[np.generic] = np.uint8) -> tuple[int, int]:
    """The address and the size of an array, which must have this type."""
    _expect(array, dtype)
    return address(array), array.size


def key_words(key: bytes) -> Any:
    """A 128-bit key as the four words that native code takes."""
    return (c_uint32 * 4).from_buffer_copy(key)


def simd() -> str:
    """The name of the table of kernels in use, one of `SIMD`."""
    return SIMD[int(_core.fewbits_simd())]


def use_simd(name: str) -> None:
    """Choose the table for the whole process: for tests and benchmarks, all give the same bits."""
    if name not in SIMD or _core.fewbits_use_simd(SIMD.index(name)) != OK:
        raise ValueError(f"this machine has no {name!r} table of kernels")


def _check_wish() -> None:
    """Warn if the core did not take the table that FEWBITS_SIMD names."""
    wish = os.environ.get("FEWBITS_SIMD", "")
    if wish == "scalar":
        text = "FEWBITS_SIMD=scalar is an old name and will go: write FEWBITS_SIMD=portable"
        warnings.warn_explicit(text, FutureWarning, "fewbits", 0)
    elif wish and wish != simd():
        known = f"the tables are {', '.join(SIMD)}" if wish not in SIMD else "this machine lacks it"
        text = f"FEWBITS_SIMD={wish} has no effect ({known}): using {simd()}"
        warnings.warn_explicit(text, RuntimeWarning, "fewbits", 0)


_check_wish()


def crc32c_is_hardware() -> bool:
    """Whether the checksum uses the processor's instruction."""
    return bool(_core.fewbits_crc32c_is_hardware())


def advise_huge(array: AnyArray) -> None:
    """Ask for huge pages below `array`: fresh memory then costs far fewer page faults."""
    _core.fewbits_advise_huge(address(array), array.nbytes)


def crc32c(data: Bytes, crc: int = 0) -> int:
    """CRC-32C of `data`, continued from `crc`."""
    return crc32c_at(address(data), data.nbytes, crc)


def crc32c_at(start: int, size: int, crc: int = 0) -> int:
    """CRC-32C of memory, continued from `crc`."""
    return int(_core.fewbits_crc32c(crc, start, size))


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
    _checked(_core.fewbits_pack(*sized(codes, np.uint16), width, *sized(packed)))


def unpack(packed: Bytes, width: int, bound: int, codes: npt.NDArray[np.uint16]) -> None:
    """The reverse of `pack`; `DecodeError` for a code not below `bound` or non-zero padding."""
    _checked(_core.fewbits_unpack(*sized(packed), width, bound, *sized(codes, np.uint16)))


def coded_size(count: int, bound: int, signed: bool) -> int:
    return int(_core.fewbits_coded_size(count, bound, signed))


def coded_encode(codes: npt.NDArray[np.uint16], signs: Bytes | None, bound: int, out: Bytes) -> int:
    """Entropy code `codes`, with a packed plane of their signs, into `out`; returns the size."""
    at, count = sized(codes, np.uint16)
    plane, written = _plane(signs, count), c_size_t()
    arguments = at, plane, count, bound, *sized(out), byref(written)
    _checked(_core.fewbits_coded_encode(*arguments))
    return written.value


def coded_decode(
    data: Bytes, bound: int, codes: npt.NDArray[np.uint16], signs: Bytes | None
) -> None:
    """The reverse; `DecodeError` for any other bytes."""
    at, count = sized(codes, np.uint16)
    _checked(_core.fewbits_coded_decode(*sized(data), bound, at, _plane(signs, count), count))


def dithered_encode(
    codes: npt.NDArray[np.uint16], signs: Bytes, bound: int, key: bytes, out: Bytes, first: int
) -> int:
    """Entropy code what was rounded with the dither of a stream; returns the size."""
    at, count = sized(codes, np.uint16)
    plane, written = _plane(signs, count), c_size_t()
    arguments = at, plane, count, bound, key_words(key), first, *sized(out), byref(written)
    _checked(_core.fewbits_dithered_encode(*arguments))
    return written.value


def dithered_decode(
    data: Bytes, bound: int, key: bytes, codes: npt.NDArray[np.uint16], signs: Bytes, first: int
) -> None:
    """The reverse; `DecodeError` for any other bytes."""
    at, count = sized(codes, np.uint16)
    arguments = *sized(data), bound, key_words(key), first, at, _plane(signs, count), count
    _checked(_core.fewbits_dithered_decode(*arguments))


def select(values: AnyArray, dtype: int, k: int) -> tuple[npt.NDArray[np.uint32], int]:
    """The places of the `k` largest magnitudes, ascending, and how many values are not finite.

    `dtype` 0 is unsigned 32-bit numbers.
    """
    if not dtype:
        _expect(values, np.uint32)
    places, nonfinite = np.empty(k, np.uint32), c_uint64()
    arguments = address(values), dtype, values.size, address(places), k, byref(nonfinite)
    _checked(_core.fewbits_select(*arguments))
    return places, nonfinite.value


def frame_parse(data: Bytes, max_elements: int) -> tuple[int, Frame, tuple[int, int]]:
    """Status, structure and error detail of a frame; sections are not read."""
    frame, detail = Frame(), (c_uint64 * 2)()
    status = _core.fewbits_frame_parse(
        address(data), data.nbytes, max_elements, byref(frame), detail
    )
    return int(status), frame, (int(detail[0]), int(detail[1]))


def _expect(array: AnyArray, dtype: type[np.generic]) -> None:
    if array.dtype != dtype:
        raise RuntimeError(f"native code expects {dtype.__name__}, got {array.dtype}")


def _plane(signs: Bytes | None, count: int) -> int | None:
    if signs is None:
        return None
    if signs.dtype != np.uint8 or signs.size != (count + 7) // 8:
        raise RuntimeError(f"{count} signs are not in {signs.size} {signs.dtype}")
    return address(signs)


def refused(status: int) -> DecodeError:
    """The error of bytes that a decoder refuses for the reason `status`."""
    return DecodeError(_REFUSED[status])


def _checked(status: int) -> None:
    if status in _REFUSED:
        raise refused(status)
    if status != OK:
        raise RuntimeError(f"the native core refused its arguments (status {status})")
