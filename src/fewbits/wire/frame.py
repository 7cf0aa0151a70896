"""One self-describing message: header, sections, checksum. `docs/format.md` explains every byte.

Writing is here; reading is native (`native/frame.cpp`), so that one parser faces hostile bytes and
the fuzzers. A frame fills its buffer exactly.
"""

import math
import struct
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from fewbits import _native
from fewbits.errors import DecodeError, LimitError, VersionError
from fewbits.kernels import native
from fewbits.kernels.formats import BY_CODE, Format

Buffer = npt.NDArray[np.uint8]

MAGIC = b"fewb"
VERSION = 1
CHECKSUM_SIZE = 4
MAX_DIMENSIONS = _native.MAX_DIMENSIONS
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
class Stage:
    """An operator's code and parameters."""

    code: int
    parameters: tuple[Parameter, ...] = ()


@dataclass(frozen=True, slots=True)
class Header:
    """All that a frame says about its sections before they begin."""

    format: Format
    shape: tuple[int, ...]
    stages: tuple[Stage, ...]
    lengths: tuple[int, ...]
    nonfinite: bool = False

    @property
    def elements(self) -> int:
        """The number of values in the vector."""
        return math.prod(self.shape)

    def encode(self) -> bytes:
        """The header's bytes. Their number depends on everything but `nonfinite`."""
        width = _word_width(max((*self.shape, *self.lengths), default=0))
        flags = width.bit_length() - 1 | (_NONFINITE if self.nonfinite else 0)
        counts = len(self.shape), len(self.stages), len(self.lengths)
        parts = [MAGIC, struct.pack("<6B", VERSION, flags, self.format.code, *counts)]
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
    """A frame whose structure and checksum are right: header and views of its sections."""

    header: Header
    sections: tuple[Buffer, ...]


def seal(frame: Buffer, threads: int = 1) -> None:
    """Write the checksum of everything before it into the last four bytes."""
    crc = native.crc32c(frame[:-CHECKSUM_SIZE], threads)
    frame[-CHECKSUM_SIZE:] = np.frombuffer(crc.to_bytes(CHECKSUM_SIZE, "little"), np.uint8)


def parse(data: Buffer, max_elements: int, threads: int = 1) -> Parsed:
    """Read a frame that fills `data` exactly; allocates nothing but the header."""
    status, raw, detail = _native.frame_parse(data, max_elements)
    if status != _native.OK:
        raise _refusal(status, detail)
    crc = native.crc32c(data[:-CHECKSUM_SIZE], threads)
    if crc != raw.crc:
        raise DecodeError(
            f"checksum is {crc:08x}, the frame says {raw.crc:08x}: the bytes were damaged"
        )
    lengths = tuple(raw.lengths[: raw.sections])
    header = Header(
        format=BY_CODE[raw.dtype],
        shape=tuple(raw.shape[: raw.dimensions]),
        stages=_stages(raw),
        lengths=lengths,
        nonfinite=bool(raw.nonfinite),
    )
    starts = raw.offsets[: raw.sections]
    sections = tuple(data[at : at + length] for at, length in zip(starts, lengths, strict=True))
    return Parsed(header, sections)


def _word_width(largest: int) -> int:
    return next(width for width in (1, 2, 4, 8) if largest < 1 << (8 * width))


def _stages(raw: _native.Frame) -> tuple[Stage, ...]:
    parameters: list[list[Parameter]] = [[] for _ in range(raw.stages)]
    for entry in raw.parameter[: raw.parameters]:
        kind = ParameterType(entry.type)
        (value,) = _STRUCT[kind].unpack_from(bytes(entry.value))
        parameters[entry.stage].append(Parameter(entry.number, kind, value))
    return tuple(
        Stage(code, tuple(own))
        for code, own in zip(raw.codes[: raw.stages], parameters, strict=True)
    )


_MESSAGES = {
    20: "the frame is cut: {0} bytes needed at least, {1} given",
    21: "the first bytes are not 'fewb': not a fewbits frame",
    23: "reserved flags are set: {0:#04x}",
    24: "unknown dtype {0}",
    25: f"{{0}} dimensions, at most {MAX_DIMENSIONS} are allowed",
    26: f"{{0}} stages, 1 to {_native.MAX_STAGES} are allowed",
    27: f"{{0}} sections, at most {_native.MAX_SECTIONS} are allowed",
    28: "parameter {1} of stage {0} has a bad type, order or value",
    29: "words of {0} bytes where {1} suffice: not the canonical header",
    31: "the header declares {0} bytes, {1} given",
}


def _refusal(status: int, detail: tuple[int, int]) -> DecodeError:
    if status == 22:
        return VersionError(
            f"wire version {detail[0]}, this fewbits reads {VERSION}: upgrade fewbits"
        )
    if status == 30:
        return LimitError(
            f"the frame claims {detail[0]} elements, the limit is {detail[1]}: "
            "pass max_elements= if you trust the sender"
        )
    return DecodeError(_MESSAGES[status].format(*detail))
