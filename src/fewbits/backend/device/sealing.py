"""Checksums on a device: of any buffer, and of boxes."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch

from fewbits.backend.boxes import (
    COMPARED,
    COUNTS_SIZE,
    FAILED_STATUS,
    FIELD_PLACES,
    FIELD_SIZES,
    HEADER_SIZE,
    VERDICT_ITEM,
    Boxes,
    Wrong,
)
from fewbits.backend.buffers import Buffer
from fewbits.backend.device import polynomials
from fewbits.backend.device.kernels.boxes import (
    fill_headers,
    judge_headers,
    replace_if,
    seal_headers,
)
from fewbits.backend.device.kernels.checksum import crc_blocks
from fewbits.backend.device.launches import start
from fewbits.backend.device.memory import tensor_of, torch_device, upload

CRC_ROWS, CRC_LANES, CRC_WARPS = 16, 1024, 8
_CHECKSUM_SIZE, _ALIGNMENT, _HEADER_WORDS = 4, 16, HEADER_SIZE // 4
_VERDICTS, _COPIED = 64, 1 << 14
_BODY = HEADER_SIZE - _CHECKSUM_SIZE
HEADER_CONSTANTS = {
    "STATUS": FIELD_PLACES["status"] // 4,
    "CRC": FIELD_PLACES["crc"] // 4,
    "NONFINITE": FIELD_PLACES["nonfinite"] // 4,
    "SATURATED": FIELD_PLACES["saturated"] // 4,
    "ZEROS": int(polynomials.signed([polynomials.without_message(_BODY)])[0]),
}
assert FIELD_PLACES["status"] % 4 == 2
assert FIELD_PLACES["checksum"] == _BODY == 4 * (_HEADER_WORDS - 1)


class _Tables(NamedTuple):
    """Constants that are the same for every message."""

    steps: Any
    lanes: Any
    header: Any
    compared: Any
    copied: Any  # the event after which they are there


def _tables(device: str) -> _Tables:
    """The constants, for which the current stream waits if another one has copied them."""
    tables = _uploaded(device)
    if tables.copied is not None:
        torch.cuda.current_stream(device).wait_event(tables.copied)
    return tables


@lru_cache(None)
def _uploaded(device: str) -> _Tables:
    compared = np.zeros(HEADER_SIZE, np.uint8)
    for name in COMPARED:
        compared[FIELD_PLACES[name] : FIELD_PLACES[name] + FIELD_SIZES[name]] = 0xFF
    parts = (
        polynomials.step_tables(CRC_LANES),
        polynomials.lane_moves(CRC_LANES),
        polynomials.lane_moves(_HEADER_WORDS, _HEADER_WORDS - 1),
        compared.view(np.int32),
    )
    steps, lanes, header, fields = (upload(part, device) for part in parts)
    on_device = steps.device.type == "cuda"
    copied = torch.cuda.current_stream(device).record_event() if on_device else None
    return _Tables(steps, lanes, header, fields, copied)


class Checksums:
    """The CRCs of some messages of a device, without the constants that depend on sizes alone."""

    def __init__(self, messages: Sequence[Buffer], device: str) -> None:
        where = [(own.address, own.size) for own in messages]
        pieces = [
            (number, *piece)
            for number, (_, size) in enumerate(where)
            for piece in polynomials.pieces(size, 4 * CRC_LANES, CRC_ROWS)
        ]
        self._device, self._programs = device, len(pieces)
        self._aligned = all(address % _ALIGNMENT == 0 for address, _ in where)
        self._pieces = upload(np.array(pieces, np.uint32).reshape(-1, 4).view(np.int32), device)
        self._messages = upload(np.array(where, np.int64).reshape(-1, 2), device)
        zeros = [polynomials.without_message(size) for _, size in where]
        self.zeros = upload(polynomials.signed(zeros), device)
        self.crcs = torch.zeros(len(where), dtype=torch.int32, device=torch_device(device))

    def add(self) -> None:
        """Add what the messages hold to `crcs`, which whoever reads them clears."""
        tables = _tables(self._device)
        start(
            self._device, crc_blocks, self._programs, self._pieces, self._messages, tables.steps,
            tables.lanes, self.crcs, ROWS=CRC_ROWS, LANES=CRC_LANES, ALIGNED=self._aligned,
            TAILS=True, warps=CRC_WARPS,
        )  # fmt: skip


# ---- any buffer ----


def crc32c(buffer: Buffer, start: int = 0, *, threads: int = 1) -> int:  # noqa: ARG001
    """CRC-32C of a buffer, continued from `start`; waits for it."""
    return int(_crc(buffer, start).cpu().numpy().view(np.uint32)[0])


def seal(message: Buffer, *, threads: int = 1) -> None:  # noqa: ARG001
    """Write the checksum of everything before it into a message's last four bytes."""
    own = _crc(message[:-_CHECKSUM_SIZE]).view(torch.uint8)
    tensor_of(message[-_CHECKSUM_SIZE:]).copy_(own)


def judge(message: Buffer, *, threads: int = 1) -> bool:  # noqa: ARG001
    """Whether a message's last four bytes are the checksum of those before them; waits for it."""
    given = int.from_bytes(message[-_CHECKSUM_SIZE:].tobytes(), "little")
    return given == crc32c(message[:-_CHECKSUM_SIZE])


def _crc(buffer: Buffer, start: int = 0) -> Any:
    own = Checksums([buffer], buffer.device)
    own.add()
    constant = polynomials.signed([polynomials.without_message(buffer.size, start)])
    return own.crcs ^ upload(constant, buffer.device)


# ---- boxes ----

_known: "WeakKeyDictionary[Boxes, tuple[Any, Checksums]]" = WeakKeyDictionary()


def _parts(boxes: Boxes) -> tuple[Any, Checksums]:
    """Where the headers of boxes are, and the checksums of their payloads."""
    found = _known.get(boxes)
    if found is None:
        base, device = boxes.memory.address, boxes.memory.device
        places = np.array([base + own for own in boxes.starts], np.int64)
        payloads = [boxes.payload(number) for number in range(len(boxes))]
        found = _known[boxes] = upload(places, device), Checksums(payloads, device)
    return found


def _words(headers: Sequence[bytes], device: str) -> Any:
    return upload(np.frombuffer(b"".join(headers), np.int32), device)


def fill(boxes: Boxes, headers: Sequence[bytes]) -> None:
    """Write headers, of which `seal_boxes` will change some fields."""
    places, _ = _parts(boxes)
    words = _words(headers, boxes.memory.device)
    start(boxes.memory.device, fill_headers, len(headers), words, places, warps=1)


def seal_boxes(boxes: Boxes, counts: Buffer, verdict: Buffer | None = None) -> None:
    """Write what only the device knows into the headers: checksums, counts, and failure."""
    places, payloads = _parts(boxes)
    payloads.add()
    start(
        boxes.memory.device, seal_headers, len(boxes), places, payloads.crcs, payloads.zeros,
        _tables(boxes.memory.device).header, counts.address, counts.size // COUNTS_SIZE,
        *_verdicts(verdict),
        FAILED=FAILED_STATUS, BLOCK=_VERDICTS, warps=1, **HEADER_CONSTANTS,
    )  # fmt: skip


def judge_boxes(boxes: Boxes, expected: Sequence[bytes], verdict: Buffer, met: Buffer) -> None:
    """Compare every box with the header that was expected, and its bytes with its checksums."""
    places, payloads = _parts(boxes)
    payloads.add()
    device = boxes.memory.device
    tables = _tables(device)
    start(
        device, judge_headers, len(boxes), places, payloads.crcs, payloads.zeros, tables.header,
        _words(expected, device), tables.compared, verdict.address, met.address,
        DAMAGED=int(Wrong.HEADER), OTHER=int(Wrong.OTHER),
        PAYLOAD=int(Wrong.PAYLOAD), REPORTED=int(Wrong.REPORTED), warps=1, **HEADER_CONSTANTS,
    )  # fmt: skip


def commit(now: Buffer, then: Buffer, verdict: Buffer, met: Buffer | None) -> None:
    """Copy `then` to `now` if the step has ended well; the device decides."""
    _replace(now, then, verdict, met, is_commit=True)


def clear_if(values: Buffer, verdict: Buffer, met: Buffer | None) -> None:
    """Replace `values` by zeros unless the step has ended well; the device decides."""
    _replace(values, values, verdict, met, is_commit=False)


def _replace(
    now: Buffer, then: Buffer, verdict: Buffer, met: Buffer | None, *, is_commit: bool
) -> None:
    start(
        now.device, replace_if, -(-now.size // _COPIED), now.address, then.address, now.size,
        *_verdicts(verdict), 0 if met is None else met.address, COMMIT=is_commit,
        MET=met is not None, ALIGNED=(now.address | then.address) % _ALIGNMENT == 0,
        BLOCK=_COPIED, VERDICTS=_VERDICTS,
    )  # fmt: skip


def _verdicts(verdict: Buffer | None) -> tuple[int, int]:
    """The address and the number of a verdict's lines."""
    return (0, 0) if verdict is None else (verdict.address, verdict.size // VERDICT_ITEM)
