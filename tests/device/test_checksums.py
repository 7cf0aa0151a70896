"""Checksums and boxes on the device backend against the host's."""

import numpy as np
import pytest

from device_rows import DEVICE, device, lent
from fewbits.backend import cpu
from fewbits.backend.boxes import MET_SIZE, VERDICT_ITEM, Boxes, Wrong
from fewbits.backend.buffers import CPU, Buffer
from fewbits.backend.device import polynomials
from fewbits.backend.device.sealing import CRC_LANES, CRC_ROWS
from fewbits.collectives.header import Phase, RankHeader, Status

WORDS = np.random.default_rng(5)
BLOCK = 4 * CRC_LANES * CRC_ROWS


@pytest.mark.parametrize("size", [0, 1, 4, 4095, BLOCK, BLOCK + 6])
@pytest.mark.parametrize("offset", [0, 3])
def test_checksums_are_the_hosts(size, offset):
    data = WORDS.integers(0, 256, offset + size, np.uint8)
    there, here = lent(data)[offset:], Buffer.of(data)[offset:]
    assert device().crc32c(there) == cpu.crc32c(here)
    assert device().crc32c(there, 0x12345678) == cpu.crc32c(here, 0x12345678)


def test_seals_and_judges_a_message():
    data = WORDS.integers(0, 256, 259, np.uint8)
    there, here = lent(data), Buffer.of(data)
    device().seal(there)
    cpu.seal(here)
    assert there.tobytes() == here.tobytes()
    assert device().judge(there)
    data[7] ^= 1
    assert not device().judge(lent(data))


def test_powers_of_x_can_be_taken_back():
    assert polynomials.product(polynomials.power(77), polynomials.power(-77)) == 1 << 31


# ---- boxes ----

LENGTHS = 0, 19, 5001, 70_000


def header(number, **fields):
    own = {"step": 3, "sequence": 2, "plan": 77, "length": LENGTHS[number], "text": "natural"}
    return RankHeader(Phase.FIRST_HOP, **(own | fields)).encode().tobytes()


class Both:
    """The same boxes on the host and on the device, filled and sealed there."""

    def __init__(self, counts=(0, 0, 0, 0), verdict=None, **fields):
        self.here, self.there = Boxes(LENGTHS), Boxes(LENGTHS, DEVICE)
        counts = np.array(counts, np.int64)
        verdict = None if verdict is None else np.array(verdict, np.int32)
        templates = [header(number, **fields) for number in range(len(LENGTHS))]
        for backend, boxes, lend in ((cpu, self.here, Buffer.of), (device(), self.there, lent)):
            for number, length in enumerate(LENGTHS):
                content = np.random.default_rng(number).integers(0, 256, length, np.uint8)
                put(boxes.payload(number), content)
            backend.fill(boxes, templates)
            said = None if verdict is None else lend(verdict)
            backend.seal_boxes(boxes, lend(counts), said)

    def is_equal(self):
        return self.here.memory.tobytes() == self.there.memory.tobytes()

    def judged(self, **fields):
        """Verdict and counts, which both must have found."""
        expected = [header(number, **fields) for number in range(len(LENGTHS))]
        found = []
        for backend, boxes in ((cpu, self.here), (device(), self.there)):
            place = boxes.memory.device
            verdict = Buffer.zeros(VERDICT_ITEM * len(LENGTHS), place)
            met = Buffer.zeros(MET_SIZE, place)
            backend.judge_boxes(boxes, expected, verdict, met)
            found.append((verdict.tobytes(), met.tobytes()))
        assert found[0] == found[1]
        return np.frombuffer(found[1][0], np.int32).tolist(), np.frombuffer(found[1][1], np.int64)


def put(place, content):
    if place.device == CPU:
        place.array()[:] = content
    elif place.size:
        place.owner.copy_(lent(content).owner)


SEALS = [
    ((3, 1 << 33, 0, 0), None),
    ((0, 0, 0, 0), [0, 0, 0]),
    ((1, 2, 0, 0), [0] * 99 + [2]),
    ((1, 2, 1, 5) * 2, None),
]


@pytest.mark.parametrize(("counts", "verdict"), SEALS)
def test_boxes_are_sealed_as_the_host_seals_them(counts, verdict):
    both = Both(counts, verdict)
    assert both.is_equal()
    bad, met = both.judged()
    failed = len(counts) > 4 or (verdict is not None and any(verdict))
    assert bad == [Wrong.REPORTED if failed else 0] * len(LENGTHS)
    lines = np.array(counts).reshape(-1, 4).sum(axis=0)
    assert met.tolist() == [len(LENGTHS) * lines[1], len(LENGTHS) * lines[0]]


def test_a_status_that_is_not_fine_stays():
    both = Both((0, 0, 1, 1), status=Status.DISAGREES)
    assert both.is_equal()
    assert both.there.header(0).tobytes()[6] == Status.DISAGREES


def test_damage_and_other_steps_are_seen():
    both = Both((1, 2, 0, 0))
    for boxes in (both.here, both.there):
        for place in (boxes.header(1)[100:101], boxes.payload(2)[5000:5001]):
            put(place, np.frombuffer(place.tobytes(), np.uint8) ^ 16)
    assert both.judged()[0] == [0, Wrong.HEADER, Wrong.PAYLOAD, 0]
    for field in ("step", "sequence", "plan"):
        assert both.judged(**{field: 9})[0] == [2, 1, 6, 2]
    assert both.judged(text="another", nonfinite=7)[0] == [0, 1, 4, 0]


@pytest.mark.parametrize("size", [1, 20_000])
@pytest.mark.parametrize("verdict", [[0, 0, 0], [0, 0, 8]])
@pytest.mark.parametrize("met", [None, [0, 5], [1, 0]])
def test_the_device_decides_what_becomes_of_a_step(size, verdict, met):
    now, then = WORDS.integers(1, 256, (2, size), np.uint8)
    well = not any(verdict) and not (met and met[0])
    flags = np.array(verdict, np.int32)
    counts = None if met is None else np.array(met, np.int64)
    for backend, lend in ((cpu, Buffer.of), (device(), lent)):
        memory, values = lend(now.copy()), lend(now.copy())
        given = None if counts is None else lend(counts)
        backend.commit(memory, lend(then), lend(flags), given)
        backend.clear_if(values, lend(flags), given)
        assert memory.tobytes() == (then if well else now).tobytes()
        assert values.tobytes() == (now.tobytes() if well else bytes(size))
