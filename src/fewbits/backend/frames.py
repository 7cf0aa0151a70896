"""Whole frames through ctypes: sections, header and checksum of one row or many in one call."""

import struct
from collections.abc import Sequence
from ctypes import POINTER, addressof, byref, c_char, c_int, c_size_t, create_string_buffer
from typing import Any, NamedTuple

from fewbits.backend.kernel import Kernel, Kind
from fewbits.backend.library import _SIZED, OK, _core, address
from fewbits.backend.table import Table
from fewbits.reference.formats import BY_CODE, Format

_TAIL = struct.Struct("<3Q2QQ")  # of a recipe: smallest sizes, header and its size, coded ones
_MESSAGE = struct.Struct("<QQ16s2Q2Q")
_RESULTS = struct.Struct("<Q2Q")  # its last fields: size and tally
_AT_RESULTS = _MESSAGE.size - _RESULTS.size
_ALONE = c_char * _MESSAGE.size
_SECTIONS = 3  # that a native row has at most

for _name in ("write", "read"):
    _function = getattr(_core, f"fewbits_frames_{_name}")
    _function.restype, _function.argtypes = c_int, [*_SIZED, POINTER(c_size_t)]
_write, _read = _core.fewbits_frames_write, _core.fewbits_frames_read

_pinned = c_char.from_buffer


class SectionSizes(NamedTuple):
    """The smallest and the largest size of a section, and whether it has coded blocks."""

    least: int
    most: int
    coded: bool


class FrameRecipe:
    """What frames of one operator, format and shape have in common, for the native core."""

    __slots__ = ("_memory", "address", "fork", "reads")

    def __init__(
        self, table: Table, sizes: Sequence[SectionSizes], header: bytes, *, reads: bool
    ) -> None:
        unit = table.rows.tobytes()
        start = len(unit) + _TAIL.size
        self._memory = create_string_buffer(start + len(header))
        self.address = addressof(self._memory)
        least = (*(own.least for own in sizes), *(0,) * (_SECTIONS - len(sizes)))
        coded = sum(own.coded << number for number, own in enumerate(sizes))
        tail = _TAIL.pack(*least, self.address + start, len(header), coded)
        self._memory.raw = unit + tail + header
        self.reads = reads  # whether the native core judges all that decoding must judge
        self.fork = table.forks[0]  # the name of the row's stream below the frame's, if it has one


def recipe(
    kernel: Kernel, format: Format, count: int, sizes: Sequence[SectionSizes], header: bytes
) -> FrameRecipe | None:
    """The recipe for rows of a kernel; None if they are not native."""
    if kernel.kind is Kind.PYTHON or len(sizes) > _SECTIONS:
        return None
    table = Table(1)
    table.describe(0, kernel, format, count, len(sizes))
    if not table.all_native:
        return None
    table.rows["sizes"][0, : len(sizes)] = [own.most for own in sizes]
    return FrameRecipe(table, sizes, header, reads=_reads(kernel, format))


def _reads(kernel: Kernel, format: Format) -> bool:
    """Whether nothing is left to check after a row was decoded to finite values."""
    if kernel.kind is not Kind.CAST:
        return True
    return not kernel.before and format.holds(BY_CODE[kernel.option])


def pinned(array: Any) -> tuple[object, int]:
    """The address of a contiguous array or buffer, and what keeps it there."""
    try:
        pin = _pinned(array)
    except (TypeError, ValueError, BufferError):  # read-only, empty, or of a dtype unknown to C
        return array, address(array)
    return pin, addressof(pin)


def pinned_output(buffer: Any) -> tuple[object, int] | None:
    """The same for memory to write into; None unless it is writable, contiguous and not empty."""
    try:
        pin = _pinned(buffer)
    except (TypeError, ValueError, BufferError):
        return None
    return pin, addressof(pin)


def write(
    own: FrameRecipe, values: int, key: bytes, frame: int, room: int
) -> tuple[int, ...] | None:
    """Write one frame: its size, and how many values saturated or are not finite.

    None if the core refuses.
    """
    message, failed = _ALONE(), c_size_t()
    _MESSAGE.pack_into(message, 0, own.address, values, key, frame, room, 0, 0)
    if _write(message, 1, byref(failed)) != OK:
        return None
    return _RESULTS.unpack_from(message, _AT_RESULTS)


def read(own: FrameRecipe, values: int, frame: int, size: int) -> bool:
    """Read one frame of finite values; False if it is not one of the recipe's, or not sound."""
    message, failed = _ALONE(), c_size_t()
    _MESSAGE.pack_into(message, 0, own.address, values, bytes(16), frame, size, 0, 0)
    return bool(_read(message, 1, byref(failed)) == OK)


class Messages:
    """Vectors and frames for one call. Whoever adds one keeps its memory alive."""

    def __init__(self, most: int) -> None:
        self._memory = create_string_buffer(max(most, 1) * _MESSAGE.size)
        self._start = addressof(self._memory)
        self.count = 0

    def add(self, own: FrameRecipe, values: int, key: bytes, frame: int, size: int) -> None:
        at = self.count * _MESSAGE.size
        _MESSAGE.pack_into(self._memory, at, own.address, values, key, frame, size, 0, 0)
        self.count += 1

    def write(self, start: int, stop: int) -> int:
        """Write frames; the number of the first that failed, or `stop`."""
        return self._run(_write, start, stop)

    def read(self, start: int, stop: int) -> int:
        """Read frames of finite values; the number of the first that failed, or `stop`."""
        return self._run(_read, start, stop)

    def results(self, number: int) -> tuple[int, ...]:
        """A frame's size, and how many values saturated or are not finite."""
        return _RESULTS.unpack_from(self._memory, number * _MESSAGE.size + _AT_RESULTS)

    def _run(self, function: Any, start: int, stop: int) -> int:
        failed = c_size_t()
        at = self._start + start * _MESSAGE.size
        return stop if function(at, stop - start, byref(failed)) == OK else start + failed.value
