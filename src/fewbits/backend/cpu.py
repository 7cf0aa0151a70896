"""The backend of the host's memory: native tables through ctypes, the reference where they lack.

Neighbouring native rows of a table are one call. A row without native code runs the reference, and
a large row alone is cut into slices for several threads.
"""

from collections.abc import Callable
from itertools import groupby
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits.backend import library, native_rows, parallel
from fewbits.backend.boxes import Count
from fewbits.backend.boxes import clear_if as clear_if
from fewbits.backend.boxes import commit as commit
from fewbits.backend.boxes import fill as fill
from fewbits.backend.boxes import judge_boxes as judge_boxes
from fewbits.backend.boxes import seal_boxes as seal_boxes
from fewbits.backend.buffers import Buffer
from fewbits.backend.kernel import Kind, Row, RowDirection, Written
from fewbits.backend.kinds import (
    composed,
    dithering,
    grid,
    plain,
    python,
    rotated,
    sign,
    spherical,
    trellis,
)
from fewbits.backend.kinds.stages import add_to
from fewbits.backend.native_rows import run_whole
from fewbits.backend.table import Table, native_kept
from fewbits.errors import DecodeError
from fewbits.reference.tally import Tally
from fewbits.rng import Rng

_CHECKSUM_SIZE = 4
_CHECKED_BYTES = 1 << 22  # that a thread must have: it starts in the time that 2 MB take
_PLAIN = {
    Kind.NATURAL: plain.run,
    Kind.CAST: plain.run,
    Kind.SIGN: sign.run,
    Kind.DITHERING: dithering.run,
    Kind.GRID: grid.run,
    Kind.TRELLIS: trellis.run,
}
_KINDS: dict[Kind, ModuleType] = {
    Kind.SPHERICAL: spherical,
    Kind.PYTHON: python,
}


def run(
    direction: RowDirection,
    table: Table,
    *,
    threads: int = 1,
    together: int = 1,
    counts: Buffer | None = None,
) -> None:
    """Run every row; `together` neighbouring rows go to one thread, in order.

    A `DecodeError` says which `row` is bad. With `counts` nothing is raised: bad rows are counted.
    """
    if counts is None:
        _run_all(direction, table, threads, together)
        return
    line = counts.array(np.int64)
    try:
        _run_all(direction, table, threads, together)
    except DecodeError as error:
        line[Count.BAD] += 1
        line[Count.FIRST_BAD] = line[Count.FIRST_BAD] or (error.row or 0) + 1
        return
    encoding = slice(None) if direction == "encode" else np.flatnonzero(table.rows["encodes"])
    met = table.rows["tally"][encoding]
    line[Count.SATURATED] += int(met["saturated"].sum())
    line[Count.NONFINITE] += int(met["nonfinite"].sum())


def _run_all(direction: RowDirection, table: Table, threads: int, together: int) -> None:
    groups = len(table) // together
    if not groups:
        return
    table.open()
    cuts = [groups * number // threads * together for number in range(threads + 1)]
    parallel.each(
        lambda number: _run_share(direction, table, cuts[number], cuts[number + 1]), threads
    )
    table.close()


def _run_share(direction: RowDirection, table: Table, start: int, stop: int) -> None:
    if table.all_native:
        _run_native(direction, table, start, stop)
        return
    at = start
    for is_native, own in groupby(table.native[start:stop].tolist()):
        end = at + len(list(own))
        if is_native:
            _run_native(direction, table, at, end)
        else:
            for number in range(at, end):
                _run_other(direction, table, number)
        at = end


def _run_native(direction: RowDirection, table: Table, start: int, stop: int) -> None:
    try:
        native_rows.run_rows(direction, table.rows[start:stop])
    except DecodeError as error:
        error.row = start + (error.row or 0)
        raise


def _run_other(direction: RowDirection, table: Table, number: int) -> None:
    chosen, row = table.row(number, direction)
    try:
        written = run_row(chosen, row)
    except DecodeError as error:
        error.row = number
        raise
    table.finish(number, written.tally, written.sizes if chosen == "encode" else None)


def run_row(direction: RowDirection, row: Row) -> Written:
    """Run one row alone, on its own number of threads."""
    kernel = row.kernel
    if kernel.before:
        if rotated.is_fused(kernel, row.format):
            return rotated.run(direction, row)
        kept = native_kept(kernel, row.count(direction))
        if kept is None or (direction == "decode" and kernel.kind is Kind.CAST):
            return _run_staged(direction, row)
        return _run_kept(direction, row, kept)
    if kernel.kind in _PLAIN:
        return _PLAIN[kernel.kind](direction, row)
    code = _KINDS[kernel.kind]
    if direction == "encode":
        written: Written = code.encode(row)
        return written
    if direction == "decode":
        return _read(row, code.decode(row))
    totals = _totals(row)
    tally = code.accumulate(row, totals) if hasattr(code, "accumulate") else None
    return _read(row, _decode_and_add(row, totals, code.decode) if tally is None else tally)


def _run_staged(direction: RowDirection, row: Row) -> Written:
    if direction == "encode":
        return composed.encode(row, run_row)
    if direction == "decode":
        return _read(row, composed.decode(row, run_row))
    return _read(row, composed.accumulate(row, _totals(row), run_row))


def _run_kept(direction: RowDirection, row: Row, kept: int) -> Written:
    """A native row that keeps the largest values."""
    key = Rng(row.key).fork(1).key if direction == "encode" else row.key
    return run_whole(direction, row._replace(key=key), (row.kernel.option, 0, 0), kept)


def _read(row: Row, tally: Tally) -> Written:
    return Written(tally, tuple(section.size for section in row.sections))


def _decode_and_add(row: Row, totals: npt.NDArray[Any], decode: Callable[[Row], Tally]) -> Tally:
    scratch = np.empty(totals.size, row.format.bits)
    tally = decode(row._replace(values=Buffer.of(scratch)))
    add_to(totals, scratch, row.format)
    return tally


def _totals(row: Row) -> npt.NDArray[Any]:
    return row.values.array(np.float64 if row.format.itemsize == 8 else np.float32)


# ---- checksums ----


def crc32c(buffer: Buffer, start: int = 0, *, threads: int = 1) -> int:
    """CRC-32C of a buffer, continued from `start`."""
    threads = min(threads, buffer.size // _CHECKED_BYTES)
    if threads < 2:
        return library.crc32c_at(buffer.address, buffer.size, start)
    data = buffer.array()
    parts = parallel.run(
        lambda piece: (library.crc32c(data[piece]), data[piece].size), data.size, threads
    )
    together = start
    for crc, size in parts:
        together = library.crc32c_combine(together, crc, size)
    return together


def seal(message: Buffer, *, threads: int = 1) -> None:
    """Write the checksum of everything before it into a message's last four bytes."""
    crc = crc32c(message[:-_CHECKSUM_SIZE], threads=threads)
    message.array()[-_CHECKSUM_SIZE:] = np.frombuffer(
        crc.to_bytes(_CHECKSUM_SIZE, "little"), np.uint8
    )


def judge(message: Buffer, *, threads: int = 1) -> bool:
    """Whether a message's last four bytes are the checksum of those before them."""
    given = int.from_bytes(message[-_CHECKSUM_SIZE:].tobytes(), "little")
    return given == crc32c(message[:-_CHECKSUM_SIZE], threads=threads)


def put(buffer: Buffer, content: bytes) -> None:
    """Fill a buffer."""
    buffer.array()[:] = np.frombuffer(content, np.uint8)
