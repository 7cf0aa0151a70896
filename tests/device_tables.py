"""Tables of many vectors, run on the host and under Triton's interpreter, compared bit for bit."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from device_rows import DEVICE, device, lent
from fewbits import registry
from fewbits.backend import cpu
from fewbits.backend.buffers import Buffer
from fewbits.backend.kernel import RowDirection
from fewbits.backend.table import Table
from fewbits.reference.formats import Format
from fewbits.rng import Rng


class Laid(NamedTuple):
    """Where vectors and their sections lie, in bytes."""

    spec: str
    format: Format
    counts: list[int]
    offsets: Any
    sizes: Any
    room: int

    @classmethod
    def of(cls, spec: str, format: Format, counts: Sequence[int], gap: int) -> "Laid":
        """Sections one after the other; a `gap` before each moves them off their alignment."""
        layouts = [registry.operator(spec).layout(count, format) for count in counts]
        sizes = np.array([[own.size for own in layout] for layout in layouts], np.uint64)
        room = sizes + np.uint64(gap) if gap else -(-sizes.astype(np.int64) // 16) * 16
        ends = np.cumsum(room.astype(np.uint64).reshape(-1)).reshape(sizes.shape)
        starts = ends - sizes if gap else ends - room.astype(np.uint64)
        return cls(spec, format, list(counts), starts, sizes, int(ends.max(initial=0)))

    def table(self, values: Buffer, item: int, sections: Buffer, *, remains: bool = False) -> Table:
        operator = registry.operator(self.spec)
        table = Table(len(self.counts), self.offsets.shape[1])
        for number, count in enumerate(self.counts):
            kernel = operator.kernel(count, self.format)
            table.describe(number, kernel, self.format, count, self.offsets.shape[1])
            if remains:
                table.let_encode(number, remains=True)
        starts = np.cumsum([0, *self.counts[:-1]]).astype(np.uint64)
        table.bind(values, starts * np.uint64(item))
        keys = [Rng.from_seed(number).key for number in range(len(table))]
        table.set_keys(slice(None), keys)
        table.place(slice(None), sections, self.offsets, self.sizes)
        return table


def run_tables(
    direction: RowDirection, laid: Laid, values: Any, sections: Any, *, remains: bool = False
) -> tuple[bytes, bytes]:
    """Run on both; the host's in place. The device's values and sections, its tallies the same."""
    there, parts = lent(values), lent(sections)
    own = laid.table(Buffer.of(values), values.itemsize, Buffer.of(sections), remains=remains)
    other = laid.table(there, values.itemsize, parts, remains=remains)
    assert other.device == DEVICE
    cpu.run(direction, own)
    device().run(direction, other)
    assert np.array_equal(own.rows["tally"], other.rows["tally"])
    return there.tobytes(), parts.tobytes()


def quiet(totals: Any) -> bytes:
    """Bits of totals, with the one NaN of a device."""
    bits = np.where(np.isnan(totals), np.uint32(0x7FC00000), totals.view(np.uint32))
    return bits.astype(np.uint32).tobytes()


def compare(spec: str, format: Format, vectors: Sequence[Any], gap: int = 0) -> int:
    """Encode, decode and accumulate all vectors; how many there are."""
    laid = Laid.of(spec, format, [own.size for own in vectors], gap)
    values, sections = np.concatenate(vectors), np.zeros(laid.room, np.uint8)
    _, sent = run_tables("encode", laid, values, sections)
    assert sections.tobytes() == sent
    decoded = np.zeros_like(values)
    found, _ = run_tables("decode", laid, decoded, sections)
    assert decoded.tobytes() == found
    totals = np.linspace(-1, 1, values.size, dtype=np.float32)
    found, _ = run_tables("accumulate", laid, totals, sections)
    assert quiet(totals) == found
    return len(vectors)
