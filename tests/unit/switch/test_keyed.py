"""What an aggregator with a key does: tags, nonces, numbers against replay, signs of life."""

import random

import numpy as np
import pytest

from fewbits import Rng
from fewbits.backend import switch as native_switch
from fewbits.reference import sealing, switching
from fewbits.reference.switching import ExponentSpan
from fewbits.switch.keys import SwitchKey
from switches import HEADER, packet, sealed

NOTHING, REPLY, ANSWER, BROADCAST = range(4)
JOIN, WELCOME, WAITING, REFUSED, CODES, SUM, LEAVE, CHALLENGE, ALIVE = range(1, 10)
FROM = [bytes([2, 0, 10, worker, *bytes(12)]) for worker in range(4)]
SECOND = 10**9
SECRET = SwitchKey("a key of enough bytes")
OTHER = SwitchKey("a key of other bytes")
KEY = Rng.from_seed(5).key
A, B = bytes([1, 2, 130, 0, 61]), bytes([1, 5, 2, 0, 61])


def number(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


class Keyed:
    """An aggregator with a key for two workers, and what a job of theirs sent to it."""

    def __init__(self) -> None:
        self.state = native_switch.state(2, 4, 40, idle=2.0, key=SECRET.root)
        self.statistics = native_switch.Statistics()
        self.now, self.sequence = 5 * SECOND, 0
        self.nonce, self.job = 0, 77
        self.sent: list[tuple[bytes, int]] = []

    def __call__(self, data: bytes, sender: int = 0) -> tuple[int, bytes]:
        self.sent.append((data, sender))
        return native_switch.packet(self.state, data, FROM[sender], self.now, self.statistics)

    def make(self, kind: int, worker: int = 0, secret: SwitchKey = SECRET, **more: object) -> bytes:
        self.sequence += 1
        given = {"job": self.job, "nonce": self.nonce, "sequence": self.sequence, **more}
        return packet(kind, worker=worker, secret=secret, **given)

    def join(self, job: int = 77) -> list[int]:
        """Ask for a nonce, then join; kinds of the answers."""
        self.job, self.nonce = job, 0
        what, data = self(self.make(JOIN, count=40))
        assert what == REPLY
        if data[5] == CHALLENGE:
            self.nonce = number(data, 48)
        return [self(self.make(JOIN, w, count=40), w)[1][5] for w in (0, 1)]

    def codes(self, worker: int, codes: bytes, round: int = 0, **more: object) -> bytes:
        return self.make(CODES, worker, codes=codes, round=round, key=KEY, first=3, **more)

    def send(self, worker: int, codes: bytes, round: int = 0) -> tuple[int, bytes]:
        return self(self.codes(worker, codes, round), worker)

    def count(self, name: str) -> int:
        return int(getattr(self.statistics, name))


@pytest.fixture
def joined() -> Keyed:
    switch = Keyed()
    assert switch.join() == [WAITING, WELCOME]
    return switch


def expected(*codes: bytes) -> bytes:
    sums = np.zeros(len(codes[0]), np.int64)
    for own in codes:
        switching.add(np.frombuffer(own, np.uint8), ExponentSpan(2), sums)
    return switching.round_sums(sums, Rng(KEY), 3).tobytes()


def test_a_job_with_a_key_is_summed_and_its_sum_has_a_tag(joined: Keyed) -> None:
    assert joined.send(0, A)[0] == NOTHING
    what, data = joined.send(1, B)
    assert (what, data[5], data[HEADER:]) == (BROADCAST, SUM, expected(A, B))
    assert number(data, 64) == joined.nonce
    assert sealed(data, SECRET, side=1) == data
    assert sealed(data, SECRET, side=0) != data


def test_a_packet_without_the_right_tag_changes_nothing(joined: Keyed) -> None:
    joined.send(0, A)
    before, earlier = joined.state.copy(), joined.count("forged")
    right = joined.codes(1, B)
    wrong = [
        joined.codes(1, B, secret=OTHER),
        joined.codes(1, B, side=1),
        joined.codes(1, B, nonce=joined.nonce + 2)[:80] + right[80:],
        sealed(right),  # a checksum is no tag
        right[:80] + bytes(16) + right[HEADER:],
        packet(JOIN, count=40),
        joined.make(JOIN, 1, OTHER, count=40),
        joined.make(LEAVE, 1, OTHER),
    ]
    for data in wrong:
        assert joined(data, 1)[0] == NOTHING
    assert joined.count("forged") - earlier == len(wrong)
    assert np.array_equal(joined.state, before)
    assert joined(right, 1)[1][HEADER:] == expected(A, B)


def test_damage_anywhere_is_forgery(joined: Keyed) -> None:
    source, right = random.Random(1), joined.codes(1, B)
    before = joined.state.copy()
    for place in range(5, len(right)):
        data = bytearray(right)
        data[place] ^= 1 << source.randrange(8)
        assert joined(bytes(data), 1)[0] == NOTHING
    assert joined.count("forged") == len(right) - 5
    assert np.array_equal(joined.state, before)


def test_an_old_job_cannot_be_replayed_to_a_new_one(joined: Keyed) -> None:
    joined.send(0, A)
    joined.send(1, B)
    joined(joined.make(ALIVE))
    joined(joined.make(LEAVE))
    recorded, first = list(joined.sent), joined.nonce
    for job in (77, 99):  # a job of the same number, too
        assert joined.join(job) == [WAITING, WELCOME]
        assert joined.nonce not in (0, first)
        joined.send(0, B)
        before = joined.state.copy()
        for data, sender in recorded:
            what, answer = joined(data, sender)
            assert what == NOTHING or answer[5] in (REFUSED, CHALLENGE)
        assert np.array_equal(joined.state, before)
        assert joined.send(1, B)[1][HEADER:] == expected(B, B)
        joined(joined.make(LEAVE))
    assert joined.count("jobs") == 3


def test_recorded_joins_do_not_occupy_an_idle_aggregator(joined: Keyed) -> None:
    joined(joined.make(LEAVE))
    before, recorded = joined.state.copy(), list(joined.sent)
    for _ in range(3):
        for data, sender in recorded:
            what, answer = joined(data, sender)
            assert what == NOTHING or answer[5] == CHALLENGE
    assert np.array_equal(joined.state, before)


def test_replays_of_the_same_job_are_counted_and_keep_nothing_alive(joined: Keyed) -> None:
    joined.send(0, A)
    joined(joined.make(ALIVE))
    before, recorded = joined.state.copy(), list(joined.sent)
    joined.now += SECOND
    for data, sender in recorded:
        what, answer = joined(data, sender)
        assert what == NOTHING or answer[5] == CHALLENGE
    assert np.array_equal(joined.state, before)
    assert joined.count("replayed") == len(recorded) - 1  # the first had no nonce yet
    assert joined.count("duplicates") == 0


def test_codes_may_overtake_each_other_within_the_window(joined: Keyed) -> None:
    packets = [joined.codes(0, A, slot=slot % 4) for slot in range(80)]
    assert joined(packets[79])[0] == NOTHING
    assert joined.count("codes") == 5
    assert joined(packets[16])[0] == NOTHING  # 63 before the last: slot 0, not seen yet
    assert joined.count("codes") == 10
    assert joined(packets[16])[0] == NOTHING
    assert joined(packets[14])[0] == NOTHING  # too old to tell
    assert joined.count("replayed") == 2
    assert joined.count("codes") == 10
    what, data = joined(packets[75])  # of the same slot as the last: a repetition, but not a replay
    assert (what, data[5]) == (REPLY, WAITING)
    assert joined.count("duplicates") == 1


def test_a_copy_from_elsewhere_gets_no_word_against_the_job(joined: Keyed) -> None:
    data = joined.codes(0, A)
    assert joined(data, 3)[0] == NOTHING
    assert joined.count("foreign") == 1
    assert joined(data, 0)[0] == NOTHING
    assert joined.count("codes") == 5


def test_the_newest_address_of_a_worker_is_right() -> None:
    """Who is quicker with a copy of a join does not take the worker's place."""
    switch = Keyed()
    switch.join()
    data = switch.make(JOIN, 1, count=40)
    assert switch(data, 3)[1][5] == WELCOME  # the copy
    assert switch(data, 1)[0] == NOTHING
    assert switch(switch.make(JOIN, 1, count=40), 1)[1][5] == WELCOME
    assert switch(data, 3)[0] == NOTHING
    switch.send(0, A)
    assert switch.send(1, B)[0] == BROADCAST


@pytest.mark.parametrize("keyed", [False, True])
def test_signs_of_life_keep_a_job_and_only_its_own(keyed: bool) -> None:
    switch = Keyed()
    if not keyed:
        switch.state = native_switch.state(2, 4, 40, idle=2.0)
    make = switch.make if keyed else lambda kind, **more: packet(kind, **more)
    if keyed:
        switch.join()
    else:
        for worker in (0, 1):
            switch(packet(JOIN, worker=worker, count=40), worker)
    for _ in range(4):
        switch.now += 3 * SECOND // 2
        assert switch(make(ALIVE))[0] == NOTHING
        asked = {"job": 99, "count": 40, **({"nonce": 0} if keyed else {})}
        assert switch(make(JOIN, **asked))[1][5] == REFUSED
    switch.now += 3 * SECOND
    assert switch(make(JOIN, **asked))[1][5] == (CHALLENGE if keyed else WAITING)


def test_an_aggregator_never_takes_what_aggregators_send(joined: Keyed) -> None:
    joined.send(0, A)
    _, data = joined.send(1, B)
    before = joined.state.copy()
    assert joined(data, 1)[0] == NOTHING
    assert joined.count("forged") == 1  # the other direction has another key
    assert np.array_equal(joined.state, before)


def test_nonces_are_new_for_every_state_and_job() -> None:
    found = set()
    for _ in range(3):
        switch = Keyed()
        for job in range(1, 5):
            switch.join(job)
            found.add(switch.nonce)
            switch(switch.make(LEAVE))
    assert len(found) == 12
    assert sealing.subkey(SECRET.root, 77, 0, 0) != sealing.subkey(SECRET.root, 77, 1, 0)
