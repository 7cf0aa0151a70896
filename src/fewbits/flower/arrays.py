"""Reads and writes Flower's `Array`: NumPy's file format, or a frame under our own `stype`.

NumPy's reader evaluates the header of a file as Python text. Ours matches it against the one form
that `numpy.save` writes, compares every size before it touches the values, and copies nothing.
"""

import math
import re
import reprlib
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import Array

from fewbits import codec
from fewbits.core.operator import Operator
from fewbits.errors import DecodeError, FewbitsError, VersionError
from fewbits.reference.formats import FLOAT32

Values = npt.NDArray[Any]

STYPE = "fewbits/1"
NUMPY = "numpy.ndarray"
FLOAT_DTYPES = ("float16", "float32", "float64")
_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    rb"\{'descr': '([<|>][biufc]\d{1,2})', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,19}, ?)*(?:\d{1,19})?)\), \} *\n"
)
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60
_LONGEST = 4096  # bytes of a header; numpy.save pads to 64


def values(array: Array) -> Values:
    """The values of an array that Flower has packed: a view that cannot be written to."""
    if array.stype != NUMPY:
        raise DecodeError(f"the array is serialised as {clipped(array.stype)}, expected {NUMPY!r}")
    data = array.data
    start = len(_MAGIC) + 2
    if data[: len(_MAGIC)] != _MAGIC or len(data) < start:
        raise DecodeError("the bytes are not those of numpy.save")
    end = start + int.from_bytes(data[len(_MAGIC) : start], "little")
    header = _HEADER.fullmatch(data[start:end]) if end - start <= _LONGEST else None
    if header is None:
        raise DecodeError("the header is not one that numpy.save writes for numbers")
    try:
        dtype = np.dtype(header[1].decode())
    except TypeError:
        raise DecodeError(f"unknown dtype {clipped(header[1].decode())}") from None
    shape = tuple(int(extent) for extent in header[3].replace(b",", b" ").split())
    if len(data) - end != math.prod(shape) * dtype.itemsize or len(shape) > 32:
        raise DecodeError(f"{len(data) - end} bytes of values do not fill {clipped(shape)} {dtype}")
    if tuple(array.shape) != shape or array.dtype != str(dtype):
        raise DecodeError(
            f"declared as {clipped(array.dtype)} {clipped(array.shape)}, holds {dtype} "
            f"{clipped(shape)}"
        )
    flat = np.frombuffer(data, dtype, offset=end)
    try:
        return flat.reshape(shape, order="F" if header[2] == b"True" else "C")
    except ValueError as error:  # an empty array whose other extents are absurd
        raise DecodeError(f"NumPy cannot make the shape {clipped(shape)}: {error}") from None


def packed(x: Values) -> Array:
    return Array(np.asarray(x))


def framed(frame: bytes, like: Values) -> Array:
    """A frame in place of an array with this dtype and shape."""
    shape = tuple(int(extent) for extent in like.shape)
    return Array(dtype=str(like.dtype), shape=shape, stype=STYPE, data=frame)


def is_framed(array: Array) -> bool:
    """Whether the array is a frame of this version; `VersionError` if it is one of another."""
    if array.stype != STYPE and array.stype.startswith("fewbits/"):
        raise VersionError(f"arrays of kind {clipped(array.stype)}, this fewbits reads {STYPE!r}")
    return array.stype == STYPE


def unframed(
    array: Array, like: Values, expected: Operator | None = None
) -> tuple[Values, Operator]:
    """The float32 message in a frame that stands for an array like this one, and its operator.

    The frame is parsed and verified once. Where the operator is agreed upon it is compared before
    anything else; whatever the receiver knows is compared before anything is allocated.
    """
    opened = codec.open_frame(array.data, max_elements=like.size, expected=expected)
    if tuple(array.shape) != like.shape or array.dtype != str(like.dtype):
        raise DecodeError(
            f"a frame for {clipped(array.dtype)} {clipped(array.shape)}, "
            f"expected {like.dtype} {like.shape}"
        )
    found = opened.header
    if found.shape != (like.size,) or found.format != FLOAT32:
        raise DecodeError(
            f"{found.format.name} {found.shape} in a frame, expected float32 ({like.size},)"
        )
    if found.nonfinite:
        raise DecodeError("values that are NaN or infinite")
    message = np.empty(like.size, np.float32)
    opened.into(message)
    return message, opened.operator


def difference(x: Values, known: Values) -> Values:
    """`x - known` as a float32 vector; subtracted in float64 if one of them is float64."""
    wide = np.result_type(np.float32, x.dtype, known.dtype)
    with np.errstate(all="ignore"):  # what overflows is refused by whoever compresses it
        return np.subtract(x, known, dtype=wide).astype(np.float32).reshape(-1)


def moved(known: Values, message: Values, scale: float = 1.0) -> Values:
    """`known + scale * message` in the dtype of `known`: the same bits on both ends."""
    wide = np.result_type(np.float32, known.dtype)
    with np.errstate(all="ignore"):  # the caller judges what is not finite
        change = message if scale == 1 else message * np.float32(scale)
        total: Values = known.astype(wide) + change.reshape(known.shape)
        return total.astype(known.dtype)


def rebuilt(known: Values, message: Values, scale: float = 1.0) -> Array:
    """The result of `moved`, packed as Flower does; `DecodeError` if it is not finite."""
    new = moved(known, message, scale)
    if not is_finite(new):
        raise DecodeError("the change leads to values that are NaN or infinite")
    return packed(new)


def is_finite(x: Values) -> bool:
    return x.dtype.kind not in "fc" or bool(np.isfinite(x).all())


def clipped(value: object) -> str:
    """A value that someone else has sent, short and in quotes, for an error message."""
    try:
        text = _SHORT.repr(value)
    except Exception:  # a number of thousands of digits, or a value that does not describe itself
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 60 else text[:57] + "..."


def fault(error: Exception) -> str:
    """What is wrong with a message that could not be read, in one line."""
    if isinstance(error, FewbitsError):
        return str(error)
    if isinstance(error, MemoryError):
        return "there is not enough memory to read it"
    return f"it cannot be read: {clipped(error)}"
