"""What `tiny` and relays of several ranks make of a device's rows, against the host's."""

import numpy as np
import pytest

from device_rows import device, lent, vector
from device_tables import Laid, quiet
from fewbits import registry
from fewbits.backend import cpu
from fewbits.backend.buffers import Buffer
from fewbits.backend.device import launches
from fewbits.backend.kernel import Kernel, Kind
from fewbits.backend.table import Table
from fewbits.presets import PRESETS
from fewbits.reference.formats import BFLOAT16, FLOAT16, FLOAT32
from fewbits.rng import Rng

COUNTS = [9, 150, 700]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(launches, "_INTERPRETED_BLOCK", 512)


def offsets(item):
    return np.cumsum([0, *COUNTS[:-1]]).astype(np.uint64) * np.uint64(item)


class Remembering:
    """A table with two rows for each unit: its message, then its encoding, which keeps the rest."""

    def __init__(self, spec, lend, run):
        self.laid, self.run = Laid.of(spec, FLOAT32, COUNTS, 0), run
        size = sum(COUNTS)
        self.memory = [lend(np.zeros(size, np.float32)) for _ in range(2)]
        self.sections = lend(np.zeros(self.laid.room, np.uint8))
        self.table = Table(2 * len(COUNTS), 3)
        for number, count in enumerate(COUNTS):
            self.table.describe(2 * number, Kernel(Kind.COMBINE), FLOAT32, count)
            self.table.combine(2 * number, (1.0, 1.0), 4 * count)
            kernel = registry.operator(spec).kernel(count, FLOAT32)
            self.table.describe(2 * number + 1, kernel, FLOAT32, count, 3)
            self.table.let_encode(2 * number + 1, remains=True)
        self.table.place(slice(1, None, 2), self.sections, self.laid.offsets, self.laid.sizes)

    def step(self, gradient, number):
        """Send one gradient; the sections, and the memory after it."""
        now, then = self.memory
        starts = np.repeat(offsets(4), 2)
        arrays = then, gradient, now
        places = np.stack([np.uint64(own.address) + starts for own in arrays], axis=1)
        self.table.bind_each(places[:, 0], then.device)
        self.table.place_terms(places[:, 1:])
        keys = [Rng.from_seed(number).fork(unit).key for unit in range(len(COUNTS))]
        self.table.set_keys(slice(1, None, 2), keys)
        self.run("accumulate", self.table, together=2)
        self.memory = [then, now]
        return self.sections.tobytes(), then.tobytes()


@pytest.mark.parametrize("spec", [PRESETS["tiny"].operator, "top-k:fraction=0.2|float16"])
def test_feedback_of_several_steps_is_the_hosts(spec):
    host = Remembering(spec, lambda array: Buffer.of(array), cpu.run)
    there = Remembering(spec, lent, device().run)
    seen = set()
    for number in range(3):
        x = vector("normal", sum(COUNTS), FLOAT32, Rng.from_seed(number)).view(np.float32)
        found = there.step(lent(x), number)
        assert found == host.step(Buffer.of(x), number)
        assert np.array_equal(host.table.rows["tally"], there.table.rows["tally"])
        seen.add(found[1])
    assert len(seen) == 3  # memories that change


def relay_table(spec, format, ranks, parts, onward, totals):
    """CLEAR, a term of each rank, DIVIDE and the encoding of the mean, for each unit."""
    laid, back = Laid.of(spec, format, COUNTS, 0), Laid.of(spec, FLOAT32, COUNTS, 0)
    operator, rows = registry.operator(spec), ranks + 3
    table = Table(rows * len(COUNTS), laid.offsets.shape[1])
    for unit, count in enumerate(COUNTS):
        first = rows * unit
        table.describe(first, Kernel(Kind.CLEAR), format, count)
        for rank in range(ranks):
            kernel = operator.kernel(count, format)
            table.describe(first + 1 + rank, kernel, format, count, laid.offsets.shape[1])
        table.describe(first + 1 + ranks, Kernel(Kind.DIVIDE), format, count)
        table.divide_by(first + 1 + ranks, ranks)
        kernel = operator.kernel(count, FLOAT32)
        table.describe(first + 2 + ranks, kernel, FLOAT32, count, laid.offsets.shape[1])
        table.let_encode(first + 2 + ranks)
    for rank, part in enumerate(parts):
        table.place(slice(1 + rank, None, rows), part, laid.offsets, laid.sizes)
    table.place(slice(rows - 1, None, rows), onward, back.offsets, back.sizes)
    keys = [Rng.from_seed(count).key for count in COUNTS]
    table.set_keys(slice(rows - 1, None, rows), keys)
    table.bind(totals, np.zeros(rows * len(COUNTS), np.uint64))  # all in one place, as the host's
    return table


def encoded(spec, format, kind, rank):
    laid = Laid.of(spec, format, COUNTS, 0)
    x = [vector(kind, count, format, Rng.from_seed(count + rank)) for count in COUNTS]
    sections = np.zeros(laid.room, np.uint8)
    values = np.concatenate(x)
    cpu.run("encode", laid.table(Buffer.of(values), values.itemsize, Buffer.of(sections)))
    return sections


@pytest.mark.parametrize(
    ("spec", "format", "ranks", "kind"),
    [
        ("natural-dithering", FLOAT32, 3, "normal"),
        ("standard-dithering:p=2,block=64", BFLOAT16, 2, "edges"),
        ("top-k:fraction=0.1|natural", FLOAT32, 3, "normal"),
        ("top-k:fraction=0.6|natural", FLOAT16, 2, "bits"),
    ],
)
def test_relays_are_the_hosts(spec, format, ranks, kind):
    sent = [encoded(spec, format, kind, rank) for rank in range(ranks)]
    room = Laid.of(spec, FLOAT32, COUNTS, 0).room
    results = []
    for lend, run in ((Buffer.of, cpu.run), (lent, device().run)):
        onward, totals = lend(np.zeros(room, np.uint8)), lend(np.zeros(max(COUNTS), np.float32))
        table = relay_table(spec, format, ranks, [lend(part) for part in sent], onward, totals)
        run("accumulate", table, together=ranks + 3)
        results.append((onward.tobytes(), table.rows["tally"].tobytes()))
    assert results[0] == results[1]
    assert any(results[0][0])


def test_totals_without_encoding_are_the_hosts():
    """Terms of two ranks in neighbouring rows: their order is the ranks'."""
    spec = "top-k:fraction=0.1|natural"
    laid = Laid.of(spec, FLOAT32, COUNTS, 0)
    sent, found = [encoded(spec, FLOAT32, "normal", rank) for rank in range(2)], []
    for lend, run in ((Buffer.of, cpu.run), (lent, device().run)):
        totals = lend(np.zeros(sum(COUNTS), np.float32))
        for part in sent:
            run("accumulate", laid.table(totals, 4, lend(part)))
        found.append(quiet(np.frombuffer(totals.tobytes(), np.float32)))
    assert found[0] == found[1]
