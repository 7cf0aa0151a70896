"""Messages to or from several ranks in one buffer: a header each, its payload, zeros to 16 bytes.

Every backend fills, seals and judges them where they lie, with the same bytes: the host need not
look at a message that goes well. What is wrong with a rank's message is told in bits of a verdict.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum, IntFlag
from itertools import accumulate

import numpy as np

from fewbits.backend import library
from fewbits.backend.buffers import CPU, Buffer

_LAYOUT = {
    "magic": "4s",
    "version": "H",
    "status": "H",
    "phase": "Q",
    "step": "Q",
    "sequence": "Q",
    "plan": "Q",
    "crc": "I",  # of the payload
    "parameter_digest": "I",
    "length": "Q",
    "nonfinite": "Q",
    "saturated": "Q",
    "promise": "Q",
    "text": "172s",
    "checksum": "I",  # of all before it
}
HEADER = struct.Struct("<" + "".join(_LAYOUT.values()))
HEADER_SIZE = HEADER.size
FIELD_SIZES = {name: struct.calcsize(f"<{code}") for name, code in _LAYOUT.items()}
FIELD_PLACES = dict(zip(_LAYOUT, accumulate(FIELD_SIZES.values(), initial=0), strict=False))
"""Where each field of a header begins, in bytes."""
COMPARED = ("magic", "version", "phase", "step", "sequence", "plan", "length")
"""Fields in which a header must be as expected."""
FINE_STATUS, FAILED_STATUS = 0, 1
BOX_ALIGNMENT = 16


class Wrong(IntFlag):
    """What is wrong with a rank's message, as bits of its int32 of a verdict."""

    HEADER = 1  # damaged
    OTHER = 2  # of another version, phase, step, batch, plan or length
    PAYLOAD = 4  # damaged
    REPORTED = 16  # the rank says that it has failed


class Met(IntEnum):
    """Places in the two int64 that add up what headers report."""

    NONFINITE = 0
    SATURATED = 1


class Count(IntEnum):
    """Places in a line of four int64 that `run` adds to.

    Values are counted by rows that encode. Rows that cannot be decoded are counted instead of
    raising, and the number of the first one, and one more, is kept.
    """

    SATURATED = 0
    NONFINITE = 1
    BAD = 2
    FIRST_BAD = 3


VERDICT_ITEM = 4  # bytes for each rank
MET_SIZE, COUNTS_SIZE = 8 * len(Met), 8 * len(Count)


def aligned(size: int) -> int:
    """So many bytes and the zeros that follow them."""
    return -(-size // BOX_ALIGNMENT) * BOX_ALIGNMENT


class Boxes:
    """Boxes in one buffer: box i begins at `starts[i]` and has `rooms[i]` bytes.

    Its payload has `lengths[i]` bytes. All but header and payload are zeros.
    """

    def __init__(
        self, lengths: Sequence[int], device: str = CPU, rooms: Sequence[int] | None = None
    ) -> None:
        least = [HEADER_SIZE + aligned(length) for length in lengths]
        self.lengths, self.rooms = tuple(lengths), tuple(least if rooms is None else rooms)
        assert all(room >= own for room, own in zip(self.rooms, least, strict=True))
        *starts, size = accumulate(self.rooms, initial=0)
        self.starts = tuple(starts)
        self.memory = Buffer.zeros(size, device)

    @classmethod
    def alike(cls, lengths: Sequence[int], device: str = CPU) -> "Boxes":
        """Boxes with equal rooms."""
        widest = HEADER_SIZE + aligned(max(lengths, default=0))
        return cls(lengths, device, [widest] * len(lengths))

    def __len__(self) -> int:
        return len(self.lengths)

    def header(self, number: int) -> Buffer:
        start = self.starts[number]
        return self.memory[start : start + HEADER_SIZE]

    def payload(self, number: int) -> Buffer:
        start = self.starts[number] + HEADER_SIZE
        return self.memory[start : start + self.lengths[number]]

    def box(self, number: int) -> Buffer:
        start = self.starts[number]
        return self.memory[start : start + self.rooms[number]]


# ---- the host's ----


def fill(boxes: Boxes, headers: Sequence[bytes]) -> None:
    """Write headers, of which `seal_boxes` will change some fields."""
    for number, header in enumerate(headers):
        boxes.header(number).array()[:] = np.frombuffer(header, np.uint8)


def seal_boxes(boxes: Boxes, counts: Buffer, verdict: Buffer | None = None) -> None:
    """Write what only the backend knows into the headers: checksums, counts, and failure.

    `counts` are one or more lines of `Count`, which are added up. A rank has failed if rows were
    bad or if `verdict` says anything of any rank; a status that is not fine already stays.
    """
    met = counts.array(np.int64).reshape(-1, len(Count)).sum(axis=0)
    failed = bool(met[Count.BAD]) or (verdict is not None and verdict.array(np.int32).any())
    for number in range(len(boxes)):
        header = boxes.header(number)
        if failed and _read(header, "status") == FINE_STATUS:
            _write(header, "status", FAILED_STATUS)
        _write(header, "crc", _crc(boxes.payload(number)))
        _write(header, "nonfinite", int(met[Count.NONFINITE]))
        _write(header, "saturated", int(met[Count.SATURATED]))
        _write(header, "checksum", _crc(header[: FIELD_PLACES["checksum"]]))


def judge_boxes(boxes: Boxes, expected: Sequence[bytes], verdict: Buffer, met: Buffer) -> None:
    """Compare every box with the header that was expected, and its bytes with its checksums.

    What is wrong with box i goes to the bits of `verdict[i]`, which are never cleared. The counts
    of sound headers are added to `met`. Of a damaged header nothing more is looked at.
    """
    bits, found = verdict.array(np.int32), met.array(np.int64)
    for number, template in enumerate(expected):
        wrong = _judge(boxes, number, template)
        bits[number] |= wrong
        if not wrong & Wrong.HEADER:
            header = boxes.header(number)
            found[Met.NONFINITE] += _read(header, "nonfinite")
            found[Met.SATURATED] += _read(header, "saturated")


def commit(now: Buffer, then: Buffer, verdict: Buffer, met: Buffer | None) -> None:
    """Copy `then` to `now` if the step has ended well: no verdict, nothing met that is not finite.

    Without `met` values that are not finite do not matter.
    """
    if _is_well(verdict, met):
        now.array()[:] = then.array()


def clear_if(values: Buffer, verdict: Buffer, met: Buffer | None) -> None:
    """Replace `values` by zeros unless the step has ended well."""
    if not _is_well(verdict, met):
        values.array()[:] = 0


def _judge(boxes: Boxes, number: int, template: bytes) -> int:
    header = boxes.header(number)
    if _read(header, "checksum") != _crc(header[: FIELD_PLACES["checksum"]]):
        return Wrong.HEADER
    content, wrong = header.tobytes(), 0
    if any(content[_SLICES[name]] != template[_SLICES[name]] for name in COMPARED):
        wrong |= Wrong.OTHER
    if _read(header, "status") != FINE_STATUS:
        wrong |= Wrong.REPORTED
    if _read(header, "crc") != _crc(boxes.payload(number)):
        wrong |= Wrong.PAYLOAD
    return wrong


def _is_well(verdict: Buffer, met: Buffer | None) -> bool:
    if verdict.array(np.int32).any():
        return False
    return met is None or not met.array(np.int64)[Met.NONFINITE]


def _read(header: Buffer, name: str) -> int:
    return int.from_bytes(header[_SLICES[name]].tobytes(), "little")


def _write(header: Buffer, name: str, number: int) -> None:
    content = number.to_bytes(FIELD_SIZES[name], "little")
    header[_SLICES[name]].array()[:] = np.frombuffer(content, np.uint8)


def _crc(data: Buffer) -> int:
    return library.crc32c_at(data.address, data.size)


_SLICES = {name: slice(place, place + FIELD_SIZES[name]) for name, place in FIELD_PLACES.items()}
