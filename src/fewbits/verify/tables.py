"""Tables of rows that a comparison runs on one device: encode, decode, accumulate, relay."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.backend.kernel import Kernel, Kind, total_itemsize
from fewbits.backend.table import Table
from fewbits.core.operator import Operator
from fewbits.reference.formats import FLOAT32, FLOAT64, Bits, Format
from fewbits.rng import Rng
from fewbits.verify.places import LINE, UNWRITTEN, DevicePlaces

WrittenBytes = npt.NDArray[np.uint8]


class RunOutcome(NamedTuple):
    """What a run has written, and what it met: a line for each row."""

    written: WrittenBytes
    sizes: npt.NDArray[np.uint64]
    tally: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class VerifyRows:
    """Vectors of one operator and format, and where their sections lie in a payload.

    Garbage stands between them, which nobody may change. With a `shift` nothing begins at a
    multiple of 16 bytes.
    """

    operator: Operator
    format: Format
    counts: tuple[int, ...]
    shift: int = 0

    def kernel(self, count: int, format: Format) -> Kernel:
        return self.operator.kernel(count, format)

    def sections(self, format: Format) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """Offsets and largest sizes, a line for each row."""
        sizes = np.array(
            [[own.size for own in self.operator.layout(count, format)] for count in self.counts],
            np.uint64,
        )
        room = -(-sizes.astype(np.int64) // LINE) * LINE + LINE
        ends = np.cumsum(room.reshape(-1)).reshape(room.shape)
        return (ends - room + self.shift).astype(np.uint64), sizes

    def payload_size(self, format: Format) -> int:
        """Exactly to the end of the last section, so that a stray byte is out of bounds."""
        offsets, sizes = self.sections(format)
        return int((offsets + sizes).max(initial=0))

    def starts(self, itemsize: int) -> npt.NDArray[np.uint64]:
        """Bytes before each vector; all but the first begin at any value if nothing is aligned."""
        room = [-(-count * itemsize // LINE) * LINE + LINE for count in self.counts]
        if self.shift:
            room = [count * itemsize for count in self.counts]
        first = itemsize if self.shift else 0
        return np.array([first + sum(room[:place]) for place in range(len(room))], np.uint64)

    def values_size(self, itemsize: int) -> int:
        return int(self.starts(itemsize)[-1]) + self.counts[-1] * itemsize

    def laid_out(self, vectors: list[Bits], itemsize: int) -> WrittenBytes:
        """The vectors at their places."""
        found = np.full(self.values_size(itemsize), UNWRITTEN, np.uint8)
        for start, own in zip(self.starts(itemsize).tolist(), vectors, strict=True):
            found[start : start + own.nbytes] = own.view(np.uint8)
        return found


def encode(
    rows: VerifyRows, places: DevicePlaces, vectors: list[Bits], keys: list[bytes]
) -> RunOutcome:
    table = _table(rows, rows.format)
    values = places.filled(rows.laid_out(vectors, rows.format.itemsize))
    memory = places.filled(np.full(rows.payload_size(rows.format), UNWRITTEN, np.uint8))
    offsets, sizes = rows.sections(rows.format)
    table.place(slice(None), memory, offsets, sizes)
    table.bind(values, rows.starts(rows.format.itemsize))
    table.set_keys(slice(None), keys)
    places.backend.run("encode", table)
    return _outcome(table, places.read(memory), slice(None), sizes.shape[1])


def decode(rows: VerifyRows, places: DevicePlaces, payload: RunOutcome) -> RunOutcome:
    before = np.full(rows.values_size(rows.format.itemsize), UNWRITTEN, np.uint8)
    return _read(rows, places, payload, before)


def accumulate(
    rows: VerifyRows, places: DevicePlaces, payload: RunOutcome, totals: WrittenBytes
) -> RunOutcome:
    return _read(rows, places, payload, totals, adds=True)


def _read(
    rows: VerifyRows,
    places: DevicePlaces,
    payload: RunOutcome,
    before: WrittenBytes,
    *,
    adds: bool = False,
) -> RunOutcome:
    table = _table(rows, rows.format)
    values, memory = places.filled(before), places.filled(payload.written)
    offsets, _ = rows.sections(rows.format)
    itemsize = total_itemsize(rows.format) if adds else rows.format.itemsize
    table.place(slice(None), memory, offsets, payload.sizes)
    table.bind(values, rows.starts(itemsize))
    places.backend.run("accumulate" if adds else "decode", table)
    return _outcome(table, places.read(values), slice(None), offsets.shape[1])


def relay(
    rows: VerifyRows, places: DevicePlaces, payloads: list[RunOutcome], rng: Rng
) -> RunOutcome:
    """Sums in the payloads' order, divided, encoded again: what an owner does between two hops."""
    wide = FLOAT64 if rows.format == FLOAT64 else FLOAT32
    together = len(payloads) + 3
    offsets, _ = rows.sections(rows.format)
    onward_offsets, onward_sizes = rows.sections(wide)
    columns = max(offsets.shape[1], onward_offsets.shape[1])
    table = Table(together * len(rows.counts), columns)
    for number, count in enumerate(rows.counts):
        _describe_relay(table, together * number, rows, count, len(payloads), wide)
    for number, payload in enumerate(payloads):
        own = slice(1 + number, None, together)
        table.place(own, places.filled(payload.written), offsets, payload.sizes)
    memory = places.filled(np.full(rows.payload_size(wide), UNWRITTEN, np.uint8))
    last = slice(together - 1, None, together)
    table.place(last, memory, onward_offsets, onward_sizes)
    starts = np.repeat(rows.starts(wide.itemsize), together)
    scratch = places.filled(np.full(rows.values_size(wide.itemsize), UNWRITTEN, np.uint8))
    table.bind(scratch, starts)
    keys = [rng.fork(number).key for number in range(len(rows.counts))]
    table.set_keys(last, keys)
    places.backend.run("accumulate", table, together=together)
    return _outcome(table, places.read(memory), last, onward_sizes.shape[1])


def _describe_relay(
    table: Table, first: int, rows: VerifyRows, count: int, terms: int, wide: Format
) -> None:
    kernel, sections = (
        rows.kernel(count, rows.format),
        len(rows.operator.layout(count, rows.format)),
    )
    table.describe(first, Kernel(Kind.CLEAR), rows.format, count)
    for number in range(terms):
        table.describe(first + 1 + number, kernel, rows.format, count, sections)
    table.describe(first + terms + 1, Kernel(Kind.DIVIDE), rows.format, count)
    table.divide_by(first + terms + 1, terms)
    onward = rows.kernel(count, wide)
    table.describe(first + terms + 2, onward, wide, count, len(rows.operator.layout(count, wide)))
    table.let_encode(first + terms + 2)


def _table(rows: VerifyRows, format: Format) -> Table:
    columns = len(rows.operator.layout(rows.counts[0], format))
    table = Table(len(rows.counts), columns)
    for number, count in enumerate(rows.counts):
        table.describe(number, rows.kernel(count, format), format, count, columns)
    return table


def _outcome(table: Table, written: WrittenBytes, rows: slice, columns: int) -> RunOutcome:
    met: Any = table.rows["tally"][rows]
    tally = tuple((int(own["saturated"]), int(own["nonfinite"])) for own in met)
    return RunOutcome(written, table.sizes(rows, columns).copy(), tally)
