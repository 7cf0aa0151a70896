"""One self-describing message: header, sections, checksum. `docs/format.md` explains every byte.

This module writes frames. Native code (`native/frame.cpp`) reads them, so that there is one parser
to fuzz and to trust with hostile bytes. A frame fills its buffer exactly.
"""

import math
import struct
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from fewbits import backend
from fewbits.backend import library
from fewbits.backend.buffers import Buffer
from fewbits.backend.library import MAX_DIMENSIONS, MAX_STAGES
from fewbits.errors import DecodeError, LimitError, VersionError
from fewbits.reference.formats import BY_CODE, Format

_Bytes = npt.NDArray[np.uint8]

MAGIC = b"fewb"
VERSION = 1  # of frames whose sections need no later one
REVISED_VERSION = 2  # other blocks of codes, and places
NEWEST_VERSION = 4  # blocks of halves; version 3 has blocks of codes with several tables
CHECKSUM_SIZE = 4
_NONFINITE = 0x04


class ParameterType(IntEnum):
    """How a parameter's value is written."""

    CHOICE = 1
    INTEGER = 2
    FLOAT = 3
    KEY = 4


_STRUCT = {
    ParameterType.CHOICE: struct.Struct("<B"),
    ParameterType.INTEGER: struct.Struct("<q"),
    ParameterType.FLOAT: struct.Struct("<d"),
    ParameterType.KEY: struct.Struct("<16s"),
}
Value = int | float | bytes


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter that is not at its default: the field's number, its type and its value."""

    number: int
    type: ParameterType
    value: Value


@dataclass(frozen=True, slots=True)
class StageRecord:
    """An operator's code and parameters."""

    code: int
    parameters: tuple[Parameter, ...] = ()


@dataclass(frozen=True, slots=True)
class Header:
    """A frame's header: everything before its sections."""

    format: Format
    shape: tuple[int, ...]
    stages: tuple[StageRecord, ...]
    lengths: tuple[int, ...]
    nonfinite: bool = False
    version: int = VERSION

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    def encode(self) -> bytes:
        """The header's bytes. `nonfinite` and `version` do not change their number."""
        width = _word_width(max((*self.shape, *self.lengths), default=0))
        flags = width.bit_length() - 1 | (_NONFINITE if self.nonfinite else 0)
        counts = len(self.shape), len(self.stages), len(self.lengths)
        parts = [MAGIC, struct.pack("<6B", self.version, flags, self.format.code, *counts)]
        parts += [extent.to_bytes(width, "little") for extent in self.shape]
        for stage in self.stages:
            parts.append(struct.pack("<HB", stage.code, len(stage.parameters)))
            for parameter in stage.parameters:
                value = _STRUCT[parameter.type].pack(parameter.value)
                parts.append(bytes((parameter.number, parameter.type)) + value)
        parts += [length.to_bytes(width, "little") for length in self.lengths]
        return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A frame with a valid structure: its header and views of its sections."""

    header: Header
    sections: tuple[_Bytes, ...]
    data: _Bytes
    crc: int

    def verify(self, threads: int = 1) -> None:
        """Raise `DecodeError` unless the checksum is that of the bytes."""
        data = Buffer.of(self.data)
        crc = backend.of(data).crc32c(data[:-CHECKSUM_SIZE], threads=threads)
        if crc != self.crc:
            raise DecodeError(
                f"checksum is {crc:08x}, the frame says {self.crc:08x}: the bytes were damaged"
            )


def seal(frame: _Bytes, threads: int = 1) -> None:
    """Write the checksum of everything before it into the last four bytes."""
    message = Buffer.of(frame)
    backend.of(message).seal(message, threads=threads)


def parse(data: _Bytes, max_elements: int, threads: int = 1) -> Parsed:
    """Read a frame that fills `data` exactly and verify it; allocates nothing but the header."""
    parsed = read(data, max_elements)
    parsed.verify(threads)
    return parsed


def read(data: _Bytes, max_elements: int) -> Parsed:
    """Read the header of a frame that fills `data` exactly, without checking the checksum."""
    status, raw, detail = library.frame_parse(data, max_elements)
    if status != library.OK:
        raise _refusal(status, detail)
    lengths = tuple(raw.lengths[: raw.sections])
    header = Header(
        format=BY_CODE[raw.dtype],
        shape=tuple(raw.shape[: raw.dimensions]),
        stages=_stages(raw),
        lengths=lengths,
        nonfinite=bool(raw.nonfinite),
        version=raw.version,
    )
    starts = raw.offsets[: raw.sections]
    sections = tuple(data[at : at + length] for at, length in zip(starts, lengths, strict=True))
    return Parsed(header, sections, data, raw.crc)


def _word_width(largest: int) -> int:
    return next(width for width in (1, 2, 4, 8) if largest < 1 << (8 * width))


def _stages(raw: library.Frame) -> tuple[StageRecord, ...]:
    parameters: list[list[Parameter]] = [[] for _ in range(raw.stages)]
    for entry in raw.parameter[: raw.parameters]:
        kind = ParameterType(entry.type)
        (value,) = _STRUCT[kind].unpack_from(bytes(entry.value))
        parameters[entry.stage].append(Parameter(entry.number, kind, value))
    return tuple(
        StageRecord(code, tuple(own))
        for code, own in zip(raw.codes[: raw.stages], parameters, strict=True)
    )


_MESSAGES = {
    20: "the frame is cut: {0} bytes needed at least, {1} given",
    21: "the first bytes are not 'fewb': not a fewbits frame",
    23: "reserved flags are set: {0:#04x}",
    24: "unknown dtype {0}",
    25: f"{{0}} dimensions, at most {MAX_DIMENSIONS} are allowed",
    26: f"{{0}} stages, 1 to {MAX_STAGES} are allowed",
    27: f"{{0}} sections, at most {library.MAX_SECTIONS} are allowed",
    28: "parameter {1} of stage {0} has a bad type, order or value",
    29: "words of {0} bytes where {1} suffice: not the canonical header",
    31: "the header declares {0} bytes, {1} given",
}


def _refusal(status: int, detail: tuple[int, int]) -> DecodeError:
    if status == 22:
        return VersionError(
            f"wire version {detail[0]}, this fewbits reads {VERSION} to {NEWEST_VERSION}: "
            "upgrade fewbits"
        )
    if status == 30:
        return LimitError(
            f"the frame claims {detail[0]} elements, the limit is {detail[1]}: "
            "pass max_elements= if you trust the sender"
        )
    cut = "the frame is cut: " if status == 31 and detail[1] < detail[0] else ""
    return DecodeError(cut + _MESSAGES[status].format(*detail))
