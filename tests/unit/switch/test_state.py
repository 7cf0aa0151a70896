"""What an aggregator does with a packet: rounds, copies, jobs, and what it refuses."""

import random

import numpy as np
import pytest

from fewbits import Rng
from fewbits.backend import switch as native_switch
from fewbits.reference import switching
from fewbits.reference.switching import ExponentSpan
from switches import HEADER, packet, sealed

NOTHING, REPLY, ANSWER, BROADCAST = range(4)
JOIN, WELCOME, WAITING, REFUSED, CODES, SUM, LEAVE = range(1, 8)
FROM = [bytes([2, 0, 10, worker, *bytes(12)]) for worker in range(4)]
SECOND = 10**9
KEY = Rng.from_seed(5).key


class Switch:
    """A state, its statistics and a clock."""

    def __init__(self, workers: int = 2, slots: int = 4, chunk: int = 40) -> None:
        self.state = native_switch.state(workers, slots, chunk, idle=2.0)
        self.statistics = native_switch.Statistics()
        self.now = 5 * SECOND

    def __call__(self, data: bytes, sender: int = 0) -> tuple[int, bytes]:
        return native_switch.packet(self.state, data, FROM[sender], self.now, self.statistics)

    def join(self, workers: int = 2, job: int = 77) -> list[int]:
        """Kinds of the answers to all workers' joining."""
        hello = [packet(JOIN, job=job, worker=w, workers=workers, count=40) for w in range(workers)]
        return [self(hello[worker], worker)[1][5] for worker in range(workers)]

    def send(self, worker: int, codes: bytes, round: int = 0, **more: int) -> tuple[int, bytes]:
        data = packet(CODES, worker=worker, codes=codes, round=round, key=KEY, first=3, **more)
        return self(data, worker)

    def count(self, name: str) -> int:
        return int(getattr(self.statistics, name))


A, B = bytes([1, 2, 130, 0, 61]), bytes([1, 5, 2, 0, 61])


def expected(*codes: bytes, workers: int = 2) -> bytes:
    sums = np.zeros(len(codes[0]), np.int64)
    for own in codes:
        switching.add(np.frombuffer(own, np.uint8), ExponentSpan(workers), sums)
    return switching.round_sums(sums, Rng(KEY), 3).tobytes()


def test_the_sum_of_all_workers_goes_to_all() -> None:
    switch = Switch()
    assert switch.join() == [WAITING, WELCOME]
    assert switch.send(0, A)[0] == NOTHING
    what, data = switch.send(1, B)
    assert what == BROADCAST
    assert data[5] == SUM
    assert data[HEADER:] == expected(A, B)
    assert (switch.count("sums"), switch.count("codes")) == (1, 10)


def test_a_worker_that_asks_again_gets_the_same_sum_until_nobody_can() -> None:
    """The shadow copy: a sum stays while any worker may still lack it."""
    switch = Switch()
    switch.join()
    switch.send(0, A)
    _, first = switch.send(1, B)
    assert switch.send(0, A) == (ANSWER, first)
    switch.send(1, A, round=1)
    assert switch.send(0, A) == (ANSWER, first)  # worker 0 has not seen it yet
    switch.send(0, B, round=1)
    assert switch.send(0, A) == (ANSWER, first)
    switch.send(1, B, round=2)  # who sends this has the sum of round 1, so all have that of round 0
    assert switch.send(0, A)[0] == NOTHING
    assert switch.count("stale") == 1


def test_codes_are_added_once_however_often_they_come() -> None:
    switch = Switch()
    switch.join()
    switch.send(0, A)
    what, data = switch.send(0, A)
    assert (what, data[5]) == (REPLY, WAITING)
    assert int.from_bytes(data[48:56], "little") == 1  # worker 0 is there, worker 1 is not
    assert switch.send(1, B)[1][HEADER:] == expected(A, B)
    assert switch.count("duplicates") == 1


def test_rounds_begin_in_order_only() -> None:
    switch = Switch()
    switch.join()
    assert switch.send(0, A, round=1)[0] == NOTHING
    switch.send(0, A)
    assert switch.send(0, A, round=1)[0] == NOTHING  # round 0 is not complete
    assert switch.count("stale") == 2
    assert switch.send(1, B)[0] == BROADCAST
    assert switch.send(0, A, round=2)[0] == NOTHING
    assert switch.count("stale") == 3


def test_a_nan_of_one_worker_reaches_all() -> None:
    switch = Switch()
    switch.join()
    switch.send(0, A, flags=1)
    _, data = switch.send(1, B)
    assert data[6] == 1
    switch.send(0, A, round=1)
    _, data = switch.send(1, B, round=1)
    assert data[6] == 0


@pytest.mark.parametrize(
    ("change", "counter"),
    [
        ({"job": 78}, "foreign"),
        ({"workers": 3}, "foreign"),
        ({"worker": 2}, "foreign"),
        ({"worker": 0}, "foreign"),  # from the address of worker 1
        ({"slot": 4}, "malformed"),
        ({"codes": bytes(41)}, "malformed"),
        ({"codes": b""}, "malformed"),
        ({"codes": bytes([62])}, "mismatched"),
        ({"codes": bytes([1, 2, 3, 4, 63])}, "malformed"),  # above the span of 2 workers
        ({"codes": bytes([1, 2, 3, 4, 128])}, "malformed"),  # a zero with a sign
        ({"flags": 2}, "malformed"),
        ({"key": bytes(16)}, "mismatched"),
        ({"first": 4}, "mismatched"),
        ({"round": 7}, "stale"),
        ({"kind": SUM}, "malformed"),
        ({"kind": WELCOME, "codes": b""}, "malformed"),
    ],
)
def test_what_does_not_belong_is_counted_and_changes_nothing(
    change: dict[str, object], counter: str
) -> None:
    switch = Switch()
    switch.join()
    switch.send(0, A)
    before = switch.state.copy()
    given = {"kind": CODES, "worker": 1, "codes": B, "key": KEY, "first": 3, **change}
    what, _ = switch(packet(given.pop("kind"), **given), 1)
    assert what in (NOTHING, REPLY)
    assert np.array_equal(switch.state, before)
    assert switch.count(counter) == 1
    assert switch.send(1, B)[1][HEADER:] == expected(A, B)


def test_damaged_packets_change_nothing() -> None:
    switch, source = Switch(), random.Random(3)
    switch.join()
    switch.send(0, A)
    whole = packet(CODES, worker=1, codes=B, key=KEY, first=3)
    before = switch.state.copy()
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(source.randrange(1, 4)):
            data[source.randrange(len(data))] ^= 1 << source.randrange(8)
        cut = bytes(data[: source.randrange(len(data) + 1)]) if source.random() < 0.3 else data
        if bytes(cut) != whole:
            assert switch(bytes(cut), 1)[0] == NOTHING
    assert np.array_equal(switch.state, before)
    assert switch.count("malformed") > 2990
    assert switch(whole, 1)[0] == BROADCAST


def test_another_job_waits_until_this_one_is_silent_or_left() -> None:
    switch = Switch()
    switch.join()
    assert switch.join(job=99) == [REFUSED, REFUSED]
    switch.now += 3 * SECOND
    assert switch.join(job=99) == [WAITING, WELCOME]
    assert switch.send(0, A)[1][5] == REFUSED  # the first job is over
    assert switch(packet(LEAVE, job=99, worker=1), 1)[0] == NOTHING
    assert switch.join(job=111) == [WAITING, WELCOME]
    assert switch.count("jobs") == 3


def test_a_new_job_begins_with_new_rounds() -> None:
    switch = Switch()
    switch.join()
    for worker in (0, 1):
        switch.send(worker, A)
    switch(packet(LEAVE), 0)
    switch.join()
    switch.send(0, A)
    assert switch.send(1, B)[1][HEADER:] == expected(A, B)


@pytest.mark.parametrize(
    ("hello", "why"),
    [
        (packet(JOIN, workers=3, count=40), 1),
        (packet(JOIN, count=41), 2),
        (packet(JOIN, count=0), 2),
    ],
)
def test_a_job_that_does_not_fit_is_refused(hello: bytes, why: int) -> None:
    switch = Switch()
    before = switch.state.copy()
    what, data = switch(hello)
    assert (what, data[5], data[6]) == (REPLY, REFUSED, why)
    assert np.array_equal(switch.state, before)


def test_a_joined_worker_cannot_be_replaced() -> None:
    switch = Switch()
    switch(packet(JOIN, count=40), 0)
    before = switch.state.copy()
    assert switch(packet(JOIN, count=40), 2)[0] == NOTHING
    assert np.array_equal(switch.state, before)


def test_sealed_packets_are_what_the_aggregator_reads() -> None:
    data = packet(JOIN, count=40)
    assert sealed(data) == data
    assert len(data) == HEADER
