"""Vector to frame and back: what most users call."""

import ctypes
import math
import warnings
from dataclasses import dataclass, replace
from operator import index
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fewbits import _native, registry
from fewbits.core import vector
from fewbits.core.operator import Operator
from fewbits.core.vector import Vector
from fewbits.errors import DecodeError, EncodeError, SaturationWarning, SpecError
from fewbits.kernels.parallel import available_threads
from fewbits.kernels.units import Tally
from fewbits.rng import Rng
from fewbits.wire import frame as wire
from fewbits.wire.frame import CHECKSUM_SIZE, Header, Parsed

MAX_ELEMENTS = 2**28
_HUGE = 1 << 21  # bytes from which huge pages pay


@dataclass(frozen=True, slots=True)
class FrameInfo:
    """What a frame says about itself."""

    operator: str
    dtype: str
    shape: tuple[int, ...]
    elements: int
    finite: bool
    bytes: int
    sections: dict[str, int]
    overhead: int
    bits_per_value: float
    ratio: float

    def __str__(self) -> str:
        shape = "×".join(map(str, self.shape)) or "scalar"
        sections = ", ".join(f"{name} {size:,}" for name, size in self.sections.items())
        finite = "" if self.finite else ", not all finite"
        return "\n".join(
            (
                f"operator   {self.operator}",
                f"values     {self.elements:,} {self.dtype} ({shape}){finite}",
                f"bytes      {self.bytes:,} = {sections} + {self.overhead} overhead",
                f"bits/value {self.bits_per_value:.3f}",
                f"ratio      {self.ratio:.2f}",
            )
        )


def compress(
    x: object,
    operator: str | Operator,
    *,
    seed: int | Rng | None = None,
    out: Any = None,
    nonfinite: Literal["raise", "carry"] = "raise",
    threads: int | None = None,
) -> bytes | memoryview:
    """Compress an array or a CPU tensor to one self-describing frame.

    Without a `seed` the rounding draws fresh entropy. The same seed gives the same bytes, so never
    use one seed for two vectors whose results are averaged: their errors would not cancel. An `Rng`
    in its place is the stream itself. With
    `out`, a writable buffer of at least `largest_frame(x, operator)` bytes, the frame is written
    there and the filled part is returned as a `memoryview` (with `coder=rans` the bytes behind it
    are scratch); otherwise it is `bytes`. NaN and infinity raise `EncodeError` unless
    `nonfinite="carry"`. `threads=None` uses the processors that the process may use; the bytes
    never depend on it.

    >>> import numpy as np, fewbits
    >>> frame = fewbits.compress(np.float32([1.0, -2.0, 0.0]), "natural", seed=7)
    >>> fewbits.decompress(frame)
    array([ 1., -2.,  0.], dtype=float32)
    """
    if nonfinite not in ("raise", "carry"):
        raise SpecError(f"nonfinite must be 'raise' or 'carry', got {nonfinite!r}")
    chosen = registry.operator(operator)
    values, shape = vector.from_array(x)
    header, room = _largest(chosen, values, shape)
    result, buffer = _new_bytes(room) if out is None else _output(out, room, chosen)
    _apart(values.bits, buffer)
    rng = seed if isinstance(seed, Rng) else _stream(seed)
    tally, size = _write(buffer, header, chosen, values, rng, threads=_threads(threads))
    if tally.nonfinite and nonfinite == "raise":
        raise EncodeError(
            f"{tally.nonfinite} of {values.count} values are NaN or infinite: "
            "clean them, or pass nonfinite='carry'"
        )
    if tally.saturated:
        warnings.warn(
            f"{tally.saturated} of {values.count} values exceed the range of {chosen} on "
            f"{values.format.name} and were replaced by its largest value",
            SaturationWarning,
            stacklevel=2,
        )
    return result if size == room else result[:size]


def largest_frame(x: object, operator: str | Operator) -> int:
    """How many bytes a frame of `x`, or of any vector of its shape and dtype, has at most.

    >>> import numpy as np, fewbits
    >>> buffer = bytearray(fewbits.largest_frame(np.zeros(1000, np.float32), "natural:coder=rans"))
    """
    values, shape = vector.from_array(x)
    return _largest(registry.operator(operator), values, shape)[1]


def decompress(
    frame: Any,
    *,
    max_elements: int = MAX_ELEMENTS,
    out: Any = None,
    to: Literal["numpy", "torch"] = "numpy",
    threads: int | None = None,
) -> Any:
    """The vector in a frame, with the shape and dtype that went in.

    Any bytes at all are safe to pass: what is not a frame raises `DecodeError`, and a frame of more
    than `max_elements` values raises `LimitError`, before anything is allocated. With `out`, an
    array or a tensor of the right shape and dtype, the values are written there and `out` is
    returned (its content is undefined after an error); otherwise a NumPy array is made, or a tensor
    with `to="torch"`. bfloat16 without torch needs ml_dtypes.
    """
    if to not in ("numpy", "torch"):
        raise SpecError(f"to must be 'numpy' or 'torch', got {to!r}")
    workers = _threads(threads)
    data = _input(frame)
    parsed = wire.parse(data, _limit(max_elements), workers)
    header = parsed.header
    chosen = _checked_operator(parsed)
    if out is not None:
        result, values = out, vector.existing(out, header.format, header.shape)
        _apart(data, values.bits)
    elif to == "torch":
        result, values = vector.new_tensor(header.format, header.shape)
    else:
        result, values = vector.new_array(header.format, header.shape)
    tally = chosen.decode(parsed.sections, values, threads=workers)
    if bool(tally.nonfinite) != header.nonfinite:
        raise DecodeError(
            f"{tally.nonfinite} values are not finite, the header's flag says otherwise"
        )
    return result


def inspect(frame: Any, *, max_elements: int = 2**62) -> FrameInfo:
    """What a frame says about itself.

    Structure, checksum and section lengths are checked; no value is decoded.
    """
    parsed = wire.parse(_input(frame), _limit(max_elements))
    header, chosen = parsed.header, _checked_operator(parsed)
    layout = chosen.layout(header.elements, header.format)
    size = len(header.encode()) + sum(header.lengths) + CHECKSUM_SIZE
    elements = header.elements
    return FrameInfo(
        operator=chosen.spec,
        dtype=header.format.name,
        shape=header.shape,
        elements=elements,
        finite=not header.nonfinite,
        bytes=size,
        sections={
            section.name: length for section, length in zip(layout, header.lengths, strict=True)
        },
        overhead=size - sum(header.lengths),
        bits_per_value=8 * size / elements if elements else math.nan,
        ratio=elements * header.format.itemsize / size,
    )


def _largest(chosen: Operator, values: Vector, shape: tuple[int, ...]) -> tuple[Header, int]:
    """The header of the largest frame, and that frame's size."""
    if len(shape) > wire.MAX_DIMENSIONS:
        raise EncodeError(
            f"{len(shape)} dimensions, at most {wire.MAX_DIMENSIONS} are supported: reshape first"
        )
    layout = chosen.layout(values.count, values.format)
    lengths = tuple(section.size for section in layout)
    header = Header(values.format, shape, chosen.stages, lengths)
    return header, len(header.encode()) + sum(lengths) + CHECKSUM_SIZE


def _write(
    buffer: _native.Bytes,
    header: Header,
    chosen: Operator,
    values: Vector,
    rng: Rng,
    *,
    threads: int,
) -> tuple[Tally, int]:
    """Write a frame whose sections have at most the header's lengths; returns its size.

    Sections first, then the header, which says how long they are and if all values are finite, then
    the checksum.
    """
    at = len(header.encode())
    parts = []
    for length in header.lengths:
        parts.append(buffer[at : at + length])
        at += length
    tally, sizes = chosen.encode(values, rng, tuple(parts), threads=threads)
    final = replace(header, lengths=sizes, nonfinite=tally.nonfinite > 0)
    encoded = final.encode()
    at = len(encoded)
    for part, size in zip(parts, sizes, strict=True):
        if _native.address(part) != _native.address(buffer) + at:  # what came before was shorter
            buffer[at : at + size] = part[:size]
        at += size
    buffer[: len(encoded)] = np.frombuffer(encoded, np.uint8)
    size = at + CHECKSUM_SIZE
    wire.seal(buffer[:size], threads)
    return tally, size


def _checked_operator(parsed: Parsed) -> Operator:
    """The operator of a frame whose sections have the lengths that it allows."""
    header = parsed.header
    chosen = registry.from_wire(header.stages)
    try:
        layout = chosen.layout(header.elements, header.format)
    except SpecError as error:  # parameters that no vector of this size and dtype can have
        raise DecodeError(f"the header's parameters make no sense: {error}") from error
    if len(layout) != len(header.lengths):
        raise DecodeError(f"{len(header.lengths)} sections, {chosen} has {len(layout)}")
    for section, length in zip(layout, header.lengths, strict=True):
        section.check(length)
    return chosen


def _stream(seed: int | None) -> Rng:
    return (Rng.fresh() if seed is None else Rng.from_seed(seed)).fork(0)


def _threads(threads: int | None) -> int:
    if threads is None:
        return available_threads()
    return _whole("threads", threads, 1, 2**16)


def _limit(max_elements: int) -> int:
    """A limit that fits the native parser's 64 bits: a negative one would wrap to no limit."""
    return _whole("max_elements", max_elements, 0, 2**64 - 1)


def _whole(name: str, value: int, least: int, most: int) -> int:
    try:
        number = index(value)
    except TypeError:
        raise SpecError(f"{name} must be a whole number, got {type(value).__name__}") from None
    if not least <= number <= most:
        raise SpecError(f"{name} must be from {least} to {most}, got {number}")
    return number


def _apart(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> None:
    """Refuse an output that would overwrite what is still to be read."""
    if np.may_share_memory(one, other):
        raise SpecError("out overlaps the input: pass memory of its own")


def _input(frame: Any) -> _native.Bytes:
    """Any bytes-like object as an array, without a copy where it is contiguous."""
    try:
        view = memoryview(frame)
    except (TypeError, ValueError, BufferError):
        raise SpecError(f"a frame is bytes or another buffer, got {type(frame).__name__}") from None
    if not view.c_contiguous:
        raise SpecError("the frame's buffer must be contiguous")
    return np.frombuffer(view.cast("B"), np.uint8) if view.nbytes else np.empty(0, np.uint8)


def _output(out: Any, size: int, chosen: Operator) -> tuple[memoryview, _native.Bytes]:
    try:
        view = memoryview(out).cast("B")
    except (TypeError, ValueError, BufferError):
        raise SpecError(
            f"out must be a writable, contiguous buffer, got {type(out).__name__}"
        ) from None
    if view.readonly:
        raise SpecError("out must be writable")
    if view.nbytes < size:
        raise SpecError(f"out has {view.nbytes} bytes, {chosen} may need {size}: see largest_frame")
    filled = view[:size]
    return filled, np.frombuffer(filled, np.uint8)


def _new_bytes(size: int) -> tuple[bytes, npt.NDArray[np.uint8]]:
    """A new `bytes` object and a writable view of it, for filling before anyone else sees it.

    This is how C extensions make `bytes` without a second copy; a copy of fresh memory would cost
    more than the compression.
    """
    make = ctypes.pythonapi.PyBytes_FromStringAndSize
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_char_p, ctypes.c_ssize_t]
    result: bytes = make(None, size)
    start = np.frombuffer(result, np.uint8)
    memory = (ctypes.c_uint8 * size).from_address(_native.address(start))
    buffer = np.frombuffer(memoryview(memory), np.uint8)
    if size >= _HUGE:
        _native.advise_huge(buffer)
    return result, buffer
