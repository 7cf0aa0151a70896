"""A job with a key among strangers: forged and recorded packets, other keys, silence and death."""

import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fewbits import Rng
from fewbits.errors import PeerError, SpecError
from fewbits.switch.aggregator import Aggregator, AggregatorSetup
from fewbits.switch.keys import SwitchKey
from fewbits.switch.protocol import Address, new_job
from fewbits.switch.worker import SwitchWorker
from switches import HEADER, Relay, codes_of, exchanged, packet, serving, table

CHUNK = 100
SIZES = (1, 99, 5000, 100, 3333)
SECRET = SwitchKey("a key of enough bytes")
OTHER = SwitchKey("a key of other bytes")
JOIN, CODES, SUM, LEAVE = 1, 5, 6, 7


def worker_at(address: Address, key: SwitchKey | None, timeout: float = 0.5) -> SwitchWorker:
    own = {"worker": 0, "workers": 1, "chunk": CHUNK}
    return SwitchWorker([address], new_job(), **own, timeout=timeout, key=key)


def plain() -> list[list[bytes]]:
    """What two workers receive without a key and without strangers."""
    with serving(AggregatorSetup(2, 4, CHUNK)) as own:
        return exchanged([own.address], 2, SIZES, CHUNK)


@pytest.mark.parametrize("aggregators", [1, 3])
def test_a_key_changes_no_bit(aggregators: int) -> None:
    setup = AggregatorSetup(2, 4, CHUNK)
    with (
        serving(setup, key=SECRET) as a,
        serving(setup, key=SECRET) as b,
        serving(setup, key=SECRET) as c,
    ):
        addresses = [own.address for own in (a, b, c)][:aggregators]
        assert exchanged(addresses, 2, SIZES, CHUNK, secret=SECRET) == plain()
        assert a.report()["forged"] == a.report()["replayed"] == 0


@pytest.mark.parametrize("share", [0.01, 0.1])
def test_losses_doubles_and_disorder_change_no_bit(share: float) -> None:
    with serving(AggregatorSetup(2, 4, CHUNK), key=SECRET) as own:
        relay = Relay(own.address, 7, share)
        try:
            found = exchanged([relay.address], 2, SIZES, CHUNK, secret=SECRET)
        finally:
            relay.close()
    assert found == plain()
    assert min(relay.lost, relay.doubled, relay.delayed) > 0
    assert own.report()["forged"] == 0


def test_a_meddler_on_the_way_changes_no_bit() -> None:
    """It adds damaged packets, earlier ones, and what it would like to be sums and leaves."""
    source, kept = random.Random(4), []

    def meddle(data: bytes) -> Sequence[bytes]:
        kept.append(data)
        damaged = bytearray(data)
        damaged[source.randrange(len(data))] ^= 1 << source.randrange(8)
        job, nonce = (int.from_bytes(data[at : at + 8], "little") for at in (8, 64))
        made = {"job": job, "nonce": nonce, "secret": OTHER}
        lies = [packet(kind, worker=worker, **made) for kind in (SUM, LEAVE) for worker in (0, 1)]
        return [bytes(damaged), source.choice(kept), *lies, data[:HEADER]]

    with serving(AggregatorSetup(2, 4, CHUNK), key=SECRET) as own:
        relay = Relay(own.address, 7, 0.02, meddle)
        try:
            found = exchanged([relay.address], 2, SIZES, CHUNK, secret=SECRET)
        finally:
            relay.close()
        counts = own.report()
    assert found == plain()
    assert counts["jobs"] == 1
    assert min(counts["forged"], counts["replayed"]) > 100


@pytest.mark.parametrize(("theirs", "ours"), [(SECRET, OTHER), (SECRET, None), (None, SECRET)])
def test_another_key_is_no_answer(theirs: SwitchKey | None, ours: SwitchKey | None) -> None:
    with serving(AggregatorSetup(1, 4, CHUNK), key=theirs) as own:
        stranger = worker_at(own.address, ours)
        with pytest.raises(PeerError, match="did not answer"):
            stranger.join()
        stranger.close()
        counts = own.report()
    assert counts["jobs"] == 0
    assert counts["malformed" if theirs is None else "forged"] > 1


def test_a_restarted_aggregator_is_noticed() -> None:
    with serving(AggregatorSetup(1, 4, CHUNK), key=SECRET) as own:
        worker, address = worker_at(own.address, SECRET, timeout=5), own.address
        worker.join()
    with serving(AggregatorSetup(1, 4, CHUNK), address, SECRET):
        future = worker.start(table(50, CHUNK, bytes(16)), codes_of(0, 0, 50), np.zeros(50, "u1"))
        with pytest.raises(PeerError, match="does not know this job"):
            future.result()
        worker.close()


@pytest.mark.parametrize("key", [None, SECRET])
def test_a_job_may_be_silent_for_longer_than_idle(key: SwitchKey | None) -> None:
    with serving(AggregatorSetup(1, 4, CHUNK, idle=0.5), key=key) as own:
        quiet = worker_at(own.address, key, timeout=10)
        quiet.join()
        rival = worker_at(own.address, key, timeout=2.0)
        with pytest.raises(PeerError, match="busy"):  # asks for four times the idle time
            rival.join()
        rival.close()
        sums = np.zeros(500, np.uint8)
        quiet.start(table(500, CHUNK, Rng.from_seed(0).key), codes_of(0, 0, 500), sums).result()
        assert sums.any()
        quiet.close()
        assert own.report()["jobs"] == 1


DEAD = """
import os, signal, sys
from fewbits.switch.keys import chosen_key
from fewbits.switch.worker import SwitchWorker
own = SwitchWorker(sys.argv[1:], 77, worker=0, workers=1, chunk=100, timeout=30, key=chosen_key())
own.join()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_dead_job_is_freed() -> None:
    with serving(AggregatorSetup(1, 4, CHUNK, idle=1.0)) as own:
        command = [sys.executable, "-c", DEAD, str(own.address)]
        assert subprocess.run(command, timeout=60).returncode == -9
        heir = worker_at(own.address, None, timeout=20)
        heir.join()
        heir.close()
        assert own.report()["jobs"] == 2


def test_a_job_that_failed_is_freed_though_a_worker_of_it_lives() -> None:
    """One of two workers dies; the other one gets its error, and does not close."""
    with serving(AggregatorSetup(2, 4, CHUNK, idle=0.5)) as own:
        given = {"workers": 2, "chunk": CHUNK, "timeout": 1.0}
        pair = [SwitchWorker([own.address], 77, worker=number, **given) for number in range(2)]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(SwitchWorker.join, pair))
        pair[1]._closing.set()  # as if it had died: no sign of life, and no leave
        lone, sums = table(500, CHUNK, Rng.from_seed(0).key), np.zeros(500, np.uint8)
        failing = pair[0].start(lone, codes_of(0, 0, 500), sums)
        with pytest.raises(PeerError, match="waits for workers"):
            failing.result()
        heirs = [
            SwitchWorker([own.address], 78, worker=number, **given | {"timeout": 10.0})
            for number in range(2)
        ]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(SwitchWorker.join, heirs))
        for each in (*heirs, *pair):
            each.close()
        assert own.report()["jobs"] == 2


def test_nobody_else_is_served_without_a_key() -> None:
    setup = AggregatorSetup(2, 4, CHUNK)
    with pytest.raises(SpecError, match="--insecure"):
        Aggregator(Address("0.0.0.0", 0), setup)
    Aggregator(Address("0.0.0.0", 0), setup, key=SECRET).close()
    Aggregator(Address("0.0.0.0", 0), setup, insecure=True).close()


def forgeries() -> Iterator[bytes]:
    """Packets of somebody without the key, of all kinds."""
    source = random.Random(9)
    made = [
        packet(
            kind,
            job=source.choice([77, source.getrandbits(64)]),
            worker=source.randrange(2),
            codes=bytes(source.randrange(1, 50)) if kind == CODES else b"",
            count=None if kind == CODES else CHUNK,
            nonce=source.getrandbits(64),
            sequence=source.getrandbits(32),
            secret=source.choice([None, OTHER]),
        )
        for kind in (JOIN, CODES, LEAVE, 9, *range(256))
        for _ in range(4)
    ]
    while True:
        yield from made


class Stranger:
    """Sends packets of one sort to an aggregator until it has counted enough of them."""

    def __init__(self, target: Aggregator, packets: Iterator[bytes], names: Sequence[str]) -> None:
        self._target, self._packets, self._names = target, packets, names
        self._begun = self.counted()

    def counted(self) -> int:
        counts = self._target.report()
        return sum(counts[name] for name in self._names)

    def send(self, wanted: int) -> None:
        """More are sent only if the socket's buffer was full and some were lost."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
            while (missing := wanted - (self.counted() - self._begun)) > 0:
                for _ in range(min(missing, 64)):
                    own.sendto(next(self._packets), self._target.address)
                time.sleep(0)


@pytest.mark.parametrize(
    ("forged", "replayed"),
    [(6000, 600), pytest.param(1_500_000, 100_000, marks=pytest.mark.soak)],
)
def test_strangers_change_no_bit_and_are_counted(forged: int, replayed: int) -> None:
    setup = AggregatorSetup(2, 4, CHUNK)
    with serving(setup, key=SECRET) as own:
        relay = Relay(own.address, 1, 0.0)
        exchanged([relay.address], 2, SIZES, CHUNK, secret=SECRET)
        relay.close()
        recorded = [data for data in relay.seen if int.from_bytes(data[64:72], "little")]
        before = own.report()

        def again() -> Iterator[bytes]:
            while True:
                yield from recorded

        strangers = [
            (Stranger(own, forgeries(), ["forged"]), forged),
            (Stranger(own, again(), ["foreign", "replayed"]), replayed),
        ]
        threads = [threading.Thread(target=one.send, args=(many,)) for one, many in strangers]
        for thread in threads:
            thread.start()
        jobs = 0
        while jobs == 0 or any(thread.is_alive() for thread in threads):
            found = exchanged([own.address], 2, SIZES, CHUNK, timeout=60.0, secret=SECRET)
            assert found == plain()
            jobs += 1
        counts = own.report()
    assert counts["jobs"] - before["jobs"] == jobs
    assert counts["forged"] >= forged
    assert counts["foreign"] + counts["replayed"] >= replayed
    assert counts["malformed"] == counts["mismatched"] == 0
