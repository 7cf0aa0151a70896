"""Boxes of messages: their places, and what sealing, judging and committing do."""

import numpy as np
import pytest

from fewbits import backend
from fewbits.backend import boxes
from fewbits.backend.boxes import Boxes, Count, Met, Wrong
from fewbits.backend.buffers import Buffer
from fewbits.backend.kernel import Kernel, Kind
from fewbits.backend.table import Table
from fewbits.collectives.header import Phase, RankHeader, Status
from fewbits.reference.checksum import crc32c
from fewbits.reference.formats import FLOAT32

LENGTHS = 0, 1, 16, 39
HOST = backend.at("cpu")


def template(size: int, **fields: int) -> bytes:
    header = RankHeader(Phase.FIRST_HOP, 7, 2, 99, length=size, text="a batch")
    content = bytearray(header.encode().tobytes())
    for name, number in fields.items():
        place, size = boxes.FIELD_PLACES[name], boxes.FIELD_SIZES[name]
        content[place : place + size] = number.to_bytes(size, "little")
    return bytes(content)


def templates(**fields: int) -> list[bytes]:
    return [template(size, **fields) for size in LENGTHS]


def counts(*line: int) -> Buffer:
    return Buffer.of(np.array(line or (0, 0, 0, 0), np.int64))


def sealed(line: Buffer | None = None, verdict: Buffer | None = None, **fields: int) -> Boxes:
    made = Boxes(LENGTHS)
    for number in range(len(made)):
        payload = made.payload(number).array()
        payload[:] = np.arange(1, payload.size + 1)
    HOST.fill(made, templates(**fields))
    HOST.seal_boxes(made, counts() if line is None else line, verdict)
    return made


def judged(made: Boxes, **fields: int) -> tuple[list[int], list[int]]:
    verdict, met = Buffer.zeros(boxes.VERDICT_ITEM * len(made)), Buffer.zeros(boxes.MET_SIZE)
    HOST.judge_boxes(made, templates(**fields), verdict, met)
    return verdict.array(np.int32).tolist(), met.array(np.int64).tolist()


def test_places() -> None:
    made = Boxes(LENGTHS)
    assert made.starts == (0, 256, 528, 800)
    assert made.rooms == (256, 272, 272, 304)
    assert made.memory.size == 1104
    alike = Boxes.alike(LENGTHS)
    assert alike.rooms == (304,) * 4
    assert [alike.payload(number).size for number in range(4)] == list(LENGTHS)
    assert all(start % boxes.BOX_ALIGNMENT == 0 for start in alike.starts)


def test_a_sealed_header_is_that_of_the_host() -> None:
    made = sealed(counts(3, 5, 0, 0, 1, 0, 0, 0))
    for number, length in enumerate(LENGTHS):
        own = RankHeader.decode(made.header(number), number)
        assert (own.phase, own.step, own.sequence, own.plan) == (Phase.FIRST_HOP, 7, 2, 99)
        assert own.text == "a batch"
        assert own.length == length
        assert own.crc == crc32c(made.payload(number).tobytes())
        assert (own.saturated, own.nonfinite, own.status) == (4, 5, Status.FINE)


def test_sound_boxes() -> None:
    assert judged(sealed(counts(3, 5, 0, 0))) == ([0] * 4, [20, 12])


@pytest.mark.parametrize("place", [0, 30, 47, 100, 255])
def test_damaged_header(place: int) -> None:
    made = sealed(counts(3, 5, 0, 0))
    made.header(1).array()[place] ^= 64
    assert judged(made) == ([0, Wrong.HEADER, 0, 0], [15, 9])


@pytest.mark.parametrize("name", boxes.COMPARED[1:])
def test_another_header(name: str) -> None:
    verdict, _ = judged(sealed(**{name: 17}))
    assert verdict == [Wrong.OTHER] * 4


def test_fields_that_may_differ() -> None:
    assert judged(sealed(parameter_digest=5, promise=3)) == ([0] * 4, [0, 0])


@pytest.mark.parametrize("place", [0, 38])
def test_damaged_payload(place: int) -> None:
    made = sealed()
    made.payload(3).array()[place] ^= 1
    assert judged(made)[0] == [0, 0, 0, Wrong.PAYLOAD]


def test_failures_are_reported() -> None:
    assert judged(sealed(counts(0, 0, 1, 4)))[0] == [Wrong.REPORTED] * 4
    assert judged(sealed(verdict=Buffer.of(np.array([0, 4], np.int32))))[0] == [Wrong.REPORTED] * 4
    assert judged(sealed(verdict=Buffer.of(np.zeros(2, np.int32))))[0] == [0] * 4
    made = sealed(counts(0, 0, 1, 4), status=Status.DISAGREES)
    assert RankHeader.decode(made.header(0), 0).status is Status.DISAGREES


def test_verdicts_are_never_cleared() -> None:
    verdict, met = Buffer.of(np.full(4, 16, np.int32)), Buffer.of(np.array([1, 2], np.int64))
    HOST.judge_boxes(sealed(counts(1, 1, 0, 0)), templates(), verdict, met)
    assert verdict.array(np.int32).tolist() == [16] * 4
    assert met.array(np.int64).tolist() == [5, 6]


@pytest.mark.parametrize(
    ("verdict", "met", "asked", "well"),
    [
        ((0, 0), (0, 9), True, True),
        ((0, 0), (1, 0), True, False),
        ((0, 0), (1, 0), False, True),
        ((0, 2), (0, 0), True, False),
        ((0, 2), (0, 0), False, False),
    ],
)
def test_steps_that_end_well(
    verdict: tuple[int, int], met: tuple[int, int], asked: bool, well: bool
) -> None:
    bits = Buffer.of(np.array(verdict, np.int32))
    found = Buffer.of(np.array(met, np.int64)) if asked else None
    now, then = np.zeros(37, np.uint8), np.arange(1, 38, dtype=np.uint8)
    HOST.commit(Buffer.of(now), Buffer.of(then), bits, found)
    assert now.tolist() == (then.tolist() if well else [0] * 37)
    HOST.clear_if(Buffer.of(then), bits, found)
    assert then.any() == well


def test_counts_of_a_run() -> None:
    values = np.array([1, np.nan, np.inf, 3], np.float32)
    codes, line = Buffer.zeros(16), counts()
    table = Table(1)
    table.describe(0, Kernel(Kind.CAST, FLOAT32.code), FLOAT32, 4, 1)
    table.bind(Buffer.of(values), np.zeros(1, np.uint64))
    table.place(slice(0, 1), codes, np.zeros((1, 1), np.uint64), np.full((1, 1), 16, np.uint64))
    HOST.run("encode", table, counts=line)
    HOST.run("decode", table, counts=line)
    assert line.array(np.int64)[Count.NONFINITE] == 2
    assert len(Met) * 8 == boxes.MET_SIZE


def test_bad_rows_are_counted() -> None:
    values, codes, line = np.zeros(9, np.float32), Buffer.zeros(22), counts()
    codes.array()[:] = 255
    table = Table(2)
    for number in range(2):
        table.describe(number, Kernel(Kind.NATURAL), FLOAT32, 9, 2)
    table.bind(Buffer.of(values), np.zeros(2, np.uint64))
    places = np.array([[0, 9], [11, 20]], np.uint64)
    table.place(slice(0, 2), codes, places, np.array([[9, 2]] * 2, np.uint64))
    codes.array()[:11] = 0
    HOST.run("decode", table, counts=line)
    assert line.array(np.int64).tolist() == [0, 0, 1, 2]
