"""The façade: vector to frame and frame to vector."""

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from fewbits import registry
from fewbits.backend.kernel import Written
from fewbits.backend.library import Bytes
from fewbits.backend.memory import array_at, new_bytes
from fewbits.core import quick, vector
from fewbits.core.arguments import (
    check_nonfinite,
    check_target,
    element_limit,
    frame_bytes,
    frame_output,
    refuse_overlap,
    thread_count,
)
from fewbits.core.device_vector import DeviceVector, device_of
from fewbits.core.operator import Operator, Parts
from fewbits.core.plan import FramePlan, plan_of
from fewbits.core.quick import NewFrame
from fewbits.core.vector import Vector
from fewbits.errors import DecodeError, EncodeError, LimitError, SaturationWarning, SpecError
from fewbits.reference.tally import Tally
from fewbits.rng import Rng
from fewbits.wire import frame as wire
from fewbits.wire.frame import CHECKSUM_SIZE, Header
from fewbits.wire.sections import Section, check_lengths, check_version, needed_version

MAX_ELEMENTS = 2**28


@dataclass(frozen=True, slots=True)
class FrameInfo:
    """The description of a frame."""

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
        bits = f"{self.bits_per_value:.3f}" if self.elements else "none, it is empty"
        return "\n".join(
            (
                f"operator   {self.operator}",
                f"values     {self.elements:,} {self.dtype} ({shape}){finite}",
                f"bytes      {self.bytes:,} = {sections} + {self.overhead} overhead",
                f"bits/value {bits}",
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
    """Compress an array or a tensor to one self-describing frame.

    A CUDA tensor's sections are made on its device and come over in one copy: the same bytes.

    Without a `seed` the rounding draws fresh entropy. The same seed gives the same bytes, so never
    use one seed for two vectors whose results are averaged: their errors would not cancel. You may
    pass an `Rng`, the stream itself, instead. With `out`, a writable buffer of at least
    `largest_frame(x, operator)` bytes, the frame is written there and the filled part is returned
    as a `memoryview` (with `coder=rans` the bytes behind it are scratch); otherwise the result is
    `bytes`. NaN and infinity raise `EncodeError` unless `nonfinite="carry"`. `threads=None` uses
    all processors of the process; the bytes never depend on it.

    >>> import numpy as np, fewbits
    >>> frame = fewbits.compress(np.float32([1.0, -2.0, 0.0]), "natural", seed=7)
    >>> fewbits.decompress(frame)
    array([ 1., -2.,  0.], dtype=float32)
    """
    check_nonfinite(nonfinite)
    chosen = registry.operator(operator)
    workers = None if threads is None else thread_count(threads)
    done = quick.compressed(x, chosen, seed, out, workers) or general_frame(
        x, chosen, seed, out, workers
    )
    judge(done.plan, done.tally, nonfinite)
    return done.frame


def judge(plan: FramePlan, tally: Tally, nonfinite: str) -> None:
    """Refuse values that are not finite, and warn of those that were too large."""
    if tally.nonfinite and nonfinite == "raise":
        raise EncodeError(
            f"{tally.nonfinite} of {plan.elements} values are NaN or infinite: "
            "clean them, or pass nonfinite='carry'"
        )
    if tally.saturated:
        warnings.warn(
            f"{tally.saturated} of {plan.elements} values exceed the range of {plan.operator} on "
            f"{plan.header.format.name} and were replaced by its largest value",
            SaturationWarning,
            stacklevel=3,
        )


def largest_frame(x: object, operator: str | Operator) -> int:
    """The largest size of a frame of `x`, or of any vector of its shape and dtype.

    >>> import numpy as np, fewbits
    >>> buffer = bytearray(fewbits.largest_frame(np.zeros(1000, np.float32), "natural:coder=rans"))
    """
    values, shape = taken(x)
    return plan_of(registry.operator(operator), values.format, shape).room


def decompress(
    frame: Any,
    *,
    max_elements: int = MAX_ELEMENTS,
    out: Any = None,
    to: Literal["numpy", "torch"] = "numpy",
    threads: int | None = None,
) -> Any:
    """The vector in a frame, with the shape and dtype that went in.

    You may pass any bytes: those that are not a frame raise `DecodeError`, and a frame of more than
    `max_elements` values raises `LimitError`, before anything is allocated. With `out`, an array or
    a tensor, the values are written there and `out` is returned (its content is undefined after an
    error); a frame of another shape or dtype is a `DecodeError`, an `out` that is not contiguous
    and writable a `SpecError`. A CUDA tensor is written on its device. Otherwise a NumPy array is
    made, or a tensor with `to="torch"`; a bfloat16 array needs ml_dtypes.

    >>> import numpy as np, fewbits
    >>> frame = fewbits.compress(np.float32([[1.0, -2.0], [0.0, 4.0]]), "natural")
    >>> fewbits.decompress(frame, max_elements=4).tolist()
    [[1.0, -2.0], [0.0, 4.0]]
    >>> fewbits.decompress(frame[:-1])
    Traceback (most recent call last):
    fewbits.errors.DecodeError: the frame is cut: the header declares 26 bytes, 25 given
    """
    check_target(to)
    workers = None if threads is None else thread_count(threads)
    limit = element_limit(max_elements)
    try:
        done = quick.decompressed(frame, limit, out, to, workers)
    except Exception:  # the general way meets it too, and says what it is
        done = None
    if done is not None:
        return done
    opened = open_frame(frame, max_elements=max_elements, threads=threads)
    if out is None:
        result = opened.new(to=to, threads=threads)
    else:
        opened.into(out, threads=threads)
        result = out
    opened.remember()
    return result


def inspect(frame: Any, *, max_elements: int = 2**62) -> FrameInfo:
    """The description of a frame.

    Structure, checksum and section lengths are checked; no value is decoded.

    >>> import numpy as np, fewbits
    >>> info = fewbits.inspect(fewbits.compress(np.ones((3, 5), np.float32), "natural"))
    >>> info.operator, info.shape, info.sections
    ('natural', (3, 5), {'exponents': 15, 'signs': 2})
    """
    return open_frame(frame, max_elements=max_elements, threads=1).info()


@dataclass(frozen=True, slots=True)
class OpenedFrame:
    """A frame that was parsed and verified once, for inspection and decoding."""

    header: Header
    operator: Operator
    layout: tuple[Section, ...]
    sections: tuple[Bytes, ...]
    data: Bytes

    def info(self) -> FrameInfo:
        with _judged():
            return self._info()

    def _info(self) -> FrameInfo:
        header, size = self.header, self.data.size
        elements, lengths = header.elements, header.lengths
        return FrameInfo(
            operator=self.operator.spec,
            dtype=header.format.name,
            shape=header.shape,
            elements=elements,
            finite=not header.nonfinite,
            bytes=size,
            sections={own.name: length for own, length in zip(self.layout, lengths, strict=True)},
            overhead=size - sum(lengths),
            bits_per_value=8 * size / elements if elements else math.nan,
            ratio=elements * header.format.itemsize / size,
        )

    def new(self, *, to: Literal["numpy", "torch"] = "numpy", threads: int | None = None) -> Any:
        """The values as a new array or tensor."""
        make = vector.new_tensor if to == "torch" else vector.new_array
        with _enough_memory():
            result, values = make(self.header.format, self.header.shape)
        self.decode(values, threads=threads)
        return result

    def into(self, out: Any, *, threads: int | None = None) -> None:
        """Write the values into an array or a tensor; `DecodeError` if it is of another kind."""
        device, found = device_of(out), self.header
        values: Vector | DeviceVector
        if device is None:
            values, shape = vector.existing(out)
            refuse_overlap(self.data, values.bits)
        else:
            values = DeviceVector.output(out, device)
            shape = values.shape
        if (values.format, shape) != (found.format, found.shape):
            raise DecodeError(
                f"the frame holds {found.format.name} {found.shape}, "
                f"out is {values.format.name} {shape}"
            )
        self.decode(values, threads=threads)

    def remember(self) -> None:
        """Let the next frame of this kind, which was decoded, be read in one native call."""
        header = self.header
        if not header.nonfinite:
            quick.remember(self.data, plan_of(self.operator, header.format, header.shape))

    def decode(self, values: Vector | DeviceVector, *, threads: int | None = None) -> None:
        """Write the values into a vector that has their number and format."""
        workers = thread_count(threads)
        if isinstance(values, DeviceVector):
            values.check(self.operator)
        with _judged():
            if isinstance(values, DeviceVector):
                tally = values.decode(self.operator, self.sections)
            else:
                tally = self.operator.decode_checked(self.sections, values, threads=workers)
        if bool(tally.nonfinite) != self.header.nonfinite:
            raise DecodeError(
                f"{tally.nonfinite} values are not finite, the header's flag says otherwise"
            )


def open_frame(
    frame: Any,
    *,
    max_elements: int = MAX_ELEMENTS,
    expected: Operator | None = None,
    threads: int | None = None,
) -> OpenedFrame:
    """Parse and verify a frame: its structure, checksum and the lengths of its sections.

    Where the operator is agreed upon, pass it as `expected`: it is compared with the header's
    before the checksum is computed and before anything is made of the header's parameters.
    """
    workers, data, limit = thread_count(threads), frame_bytes(frame), element_limit(max_elements)
    with _judged():
        return _opened(data, limit, expected, workers)


def _opened(data: Bytes, limit: int, expected: Operator | None, workers: int) -> OpenedFrame:
    parsed = wire.read(data, limit)
    if expected is not None and parsed.header.stages != expected.stages:
        raise DecodeError(
            f"operator {registry.from_wire(parsed.header.stages)}, expected {expected}"
        )
    parsed.verify(workers)
    chosen = expected or registry.from_wire(parsed.header.stages)
    if parsed.header.version == wire.VERSION:
        chosen = chosen.earlier()
    layout = _checked_layout(chosen, parsed.header)
    check_version(parsed.header.version, layout, parsed.sections)
    return OpenedFrame(parsed.header, chosen, layout, parsed.sections, parsed.data)


@contextmanager
def _judged() -> Iterator[None]:
    """The last net: decoding raises no error but `DecodeError`, whatever the checks have missed."""
    try:
        with _enough_memory():
            yield
    except DecodeError:
        raise
    except Exception as error:
        words = " ".join(str(error).split())
        raise DecodeError(f"the frame cannot be read: {type(error).__name__}: {words}") from error


@contextmanager
def _enough_memory() -> Iterator[None]:
    try:
        yield
    except MemoryError as error:
        raise LimitError("not enough memory for the frame: pass a smaller max_elements=") from error


def taken(x: object) -> tuple[Vector | DeviceVector, tuple[int, ...]]:
    """The values of an array or a tensor, where they are, and their shape."""
    device = device_of(x)
    if device is None:
        return vector.from_array(x)
    there = DeviceVector(x, device)
    return there, there.shape


def general_frame(
    x: object, chosen: Operator, seed: int | Rng | None, out: Any, threads: int | None
) -> NewFrame:
    """Any array or tensor to a frame, new or in `out`."""
    values, shape = taken(x)
    plan = plan_of(chosen, values.format, shape)
    frame: bytes | memoryview
    if out is None:
        frame, at = new_bytes(plan.room)
        buffer = array_at(at, plan.room)
    else:
        frame, buffer = frame_output(out, plan.room, chosen)
    rng = Rng(quick.stream_key(seed))

    def encode(parts: Parts) -> Written:
        if isinstance(values, DeviceVector):
            return values.encode(chosen, rng.key, parts)
        refuse_overlap(values.bits, buffer)
        return chosen.encode(values, rng, parts, threads=thread_count(threads))

    tally, size = _write(buffer, plan, encode, threads=thread_count(threads))
    return NewFrame(frame if size == plan.room else frame[:size], plan, tally)


def _write(
    buffer: Bytes, plan: FramePlan, encode: Callable[[Parts], Written], *, threads: int
) -> tuple[Tally, int]:
    """Write a frame whose sections `encode` makes; returns its size.

    Sections first, then the header, which says how long they are and if all values are finite, then
    the checksum.
    """
    header, encoded = plan.header, plan.encoded
    starts = [len(encoded)]
    for length in header.lengths:
        starts.append(starts[-1] + length)
    parts = [buffer[start:stop] for start, stop in pairwise(starts)]
    tally, sizes = encode(tuple(parts))
    written = [part[:size] for part, size in zip(parts, sizes, strict=True)]
    version = needed_version(plan.layout, written)
    if sizes != header.lengths or tally.nonfinite or version != header.version:
        nonfinite = tally.nonfinite > 0
        encoded = replace(header, lengths=sizes, nonfinite=nonfinite, version=version).encode()
    at = len(encoded)
    for start, part in zip(starts, written, strict=False):
        if start != at:  # what came before was shorter
            buffer[at : at + part.size] = part
        at += part.size
    buffer[: len(encoded)] = np.frombuffer(encoded, np.uint8)
    size = at + CHECKSUM_SIZE
    wire.seal(buffer[:size], threads)
    return tally, size


def _checked_layout(chosen: Operator, header: Header) -> tuple[Section, ...]:
    """The operator's sections; `DecodeError` if the header gives them other lengths."""
    try:
        layout = chosen.layout(header.elements, header.format)
    except SpecError as error:  # parameters that no vector of this size and dtype can have
        raise DecodeError(f"the header's parameters make no sense: {error}") from error
    if len(layout) != len(header.lengths):
        raise DecodeError(f"{len(header.lengths)} sections, {chosen} has {len(layout)}")
    check_lengths(layout, header.lengths)
    return layout
