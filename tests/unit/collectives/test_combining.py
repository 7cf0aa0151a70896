"""Memories as rows of tables: the bits of `feedback.Rule`, which is the specification."""

import numpy as np
import pytest

from fewbits.backend.boxes import COUNTS_SIZE, Count
from fewbits.backend.buffers import Buffer
from fewbits.collectives.combining import StreamSide
from fewbits.collectives.correction import Side
from fewbits.collectives.payload import Payload, Unit
from fewbits.collectives.units import Batch, float_dtype
from fewbits.feedback import Rule
from fewbits.feedback.store import WORKER, MemoryPair, Place, Store, StreamPair
from fewbits.reference.formats import FLOAT32, FLOAT64, Format
from fewbits.registry import operator
from fewbits.rng import Rng

RULES = [
    Rule(False),
    Rule(False, 0.3, 0.3),
    Rule(False, momentum=0.9),
    Rule(False, 0.7, 0.7, 0.5),
    Rule(False, decay=0.95),
    Rule(False, 0.7, 0.7, 0.5, 0.9),
    Rule(True),
    Rule(True, 0.25, 0.8),
]
COUNTS = 5, 1, 130, 64
SPECIAL = 0.0, -0.0, 1e-45, -3e-39, 3e38, np.inf, np.nan


def units() -> list[Unit]:
    natural, found, start = operator("natural"), [], 3
    for number, count in enumerate(COUNTS):
        found.append(Unit(f"p{number}/0", start, count, natural, natural))
        start += count + number
    return found


def filled(source: np.random.Generator, shape: tuple[int, ...], format: Format) -> np.ndarray:
    values = source.standard_normal(shape).astype(float_dtype(format))
    values.reshape(-1)[: len(SPECIAL)] = SPECIAL
    return values


@pytest.mark.parametrize("unused", [(), ("p1", "p2")])
@pytest.mark.parametrize("format", [FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_rows_give_the_bits_of_the_rule(
    rule: Rule, format: Format, unused: tuple[str, ...]
) -> None:
    source, own = np.random.default_rng(1), units()
    rules = [(unit, rule) for unit in own]
    extent = own[-1].start + own[-1].count
    dtype = float_dtype(format)
    pair, there = MemoryPair(rule.rows, extent, dtype), StreamPair(rule.rows, extent, dtype, "cpu")
    memory = filled(source, (rule.rows, extent), format)
    pair.now[:] = memory
    there.now.array(dtype)[:] = memory.reshape(-1)
    batches = [Batch([Payload(own, "uplink", format)], format) for _ in range(2)]
    side, stream = Side(pair, rules), StreamSide(there, rules, format)
    values = filled(source, (extent,), format)
    for name in unused:
        values[own[int(name[1:])].place] = 0
    mine, theirs = values.copy(), values.copy()
    counts = Buffer.zeros(COUNTS_SIZE)
    side.send(batches[0], mine, Rng.from_seed(4), unused)
    side.keep(batches[0], mine, unused)
    stream.send(batches[1], Buffer.of(theirs), Rng.from_seed(4), counts, unused)
    stream.keep(batches[1], Buffer.of(theirs), counts, unused)
    assert mine.tobytes() == theirs.tobytes() != values.tobytes()
    assert batches[0].payloads[0].data.tobytes() == batches[1].payloads[0].data.tobytes()
    for unit in own:
        kept = there.then.array(dtype).reshape(rule.rows, -1)[:, unit.place]
        assert kept.tobytes() == pair.then[:, unit.place].tobytes(), unit.name
    assert counts.array(np.int64)[Count.NONFINITE] >= 2
    side.receive(mine)
    stream.receive(Buffer.of(theirs))
    assert mine.tobytes() == theirs.tobytes()


def test_a_store_takes_what_a_stream_has_saved_and_the_other_way() -> None:
    places, dtype = [Place("a/0", 1, 3)], np.dtype(np.float32)
    first = Store()
    pair = first.bind_on("cpu", WORKER, places, 1, 5, dtype)
    pair.now.array(dtype)[:] = range(5)
    saved = first.arrays()
    assert saved["worker/a/0"].tolist() == [[1, 2, 3]]
    first.scale(2.0)
    assert first.arrays()["worker/a/0"].tolist() == [[2, 4, 6]]
    other = Store()
    other.load(saved)
    assert other.bind(WORKER, places, 1, 5, dtype).now.tolist() == [[0, 1, 2, 3, 0]]
    again = Store()
    bound = again.bind_on("cpu", WORKER, places, 1, 5, dtype)
    again.load(other.arrays())
    assert bound.now.array(dtype).tolist() == [0, 1, 2, 3, 0]
    assert again.nbytes == other.nbytes == 24


@pytest.mark.parametrize(("verdict", "met", "well"), [(0, 0, True), (4, 0, False), (0, 1, False)])
def test_a_memory_is_taken_up_if_the_step_has_ended_well(
    verdict: int, met: int, well: bool
) -> None:
    store, dtype = Store(), np.dtype(np.float32)
    pair = store.bind_on("cpu", WORKER, [Place("a/0", 0, 2)], 1, 2, dtype)
    pair.then.array(dtype)[:] = 7
    bits, found = np.array([0, verdict], np.int32), np.array([met, 0], np.int64)
    store.commit(Buffer.of(bits), Buffer.of(found))
    assert store.arrays()["worker/a/0"].tolist() == [[0, 0]]  # nobody has written
    pair.written = True
    store.commit(Buffer.of(bits), Buffer.of(found))
    assert store.arrays()["worker/a/0"].tolist() == [[7, 7] if well else [0, 0]]
