"""Workers and aggregators over sockets: losses, doubles, disorder, latecomers and silence."""

import threading
import time

import numpy as np
import pytest

from delays import Watch
from fewbits import Rng
from fewbits.errors import DisagreementError, PeerError, SpecError
from fewbits.reference import switching
from fewbits.reference.switching import ExponentSpan
from fewbits.switch.aggregator import AggregatorSetup
from fewbits.switch.protocol import Address, new_job
from fewbits.switch.worker import SwitchWorker
from switches import Relay, codes_of, exchanged, serving, table

CHUNK = 100
SIZES = (1, 99, 5000, 100, 3333)


def expected(workers: int, sizes: tuple[int, ...] = SIZES) -> list[bytes]:
    """By the reference, without any packets."""
    found = []
    for batch, size in enumerate(sizes):
        sums = np.zeros(size, np.int64)
        for worker in range(workers):
            switching.add(codes_of(worker, batch, size), ExponentSpan(workers), sums)
        found.append(switching.round_sums(sums, Rng.from_seed(batch)).tobytes())
    return found


@pytest.mark.parametrize(("workers", "aggregators", "slots"), [(1, 1, 1), (2, 1, 4), (3, 3, 5)])
def test_all_workers_receive_the_rounded_sums(workers: int, aggregators: int, slots: int) -> None:
    setup = AggregatorSetup(workers, slots, CHUNK)
    with serving(setup) as a, serving(setup) as b, serving(setup) as c:
        addresses = [own.address for own in (a, b, c)][:aggregators]
        assert exchanged(addresses, workers, SIZES, CHUNK) == [expected(workers)] * workers


@pytest.mark.parametrize("share", [0.01, 0.1])
def test_losses_doubles_and_disorder_change_nothing(share: float) -> None:
    with serving(AggregatorSetup(3, 8, CHUNK)) as own:
        relay = Relay(own.address, 7, share)
        try:
            found = exchanged([relay.address], 3, (20_000, 5000), CHUNK)
        finally:
            relay.close()
    assert found == [expected(3, (20_000, 5000))] * 3
    assert relay.lost > 5
    assert relay.doubled > 5
    assert relay.delayed > 5
    assert own.report()["duplicates"] > 0


def test_a_late_worker_is_waited_for() -> None:
    with serving(AggregatorSetup(2, 4, CHUNK)) as own:
        job, sums = new_job(), [np.zeros(500, np.uint8) for _ in range(2)]

        def run(worker: int) -> None:
            with_delay = SwitchWorker(
                [own.address], job, worker=worker, workers=2, chunk=CHUNK, timeout=20
            )
            with_delay.join()
            while worker == 1 and not own.report()["duplicates"]:  # until worker 0 asks again
                time.sleep(0.01)
            key = Rng.from_seed(0).key
            codes = codes_of(worker, 0, 500)
            with_delay.start(table(500, CHUNK, key), codes, sums[worker]).result()
            barrier.wait()
            with_delay.close()

        barrier = threading.Barrier(2, timeout=20)
        other = threading.Thread(target=run, args=(1,))
        other.start()
        run(0)
        other.join()
        assert [one.tobytes() for one in sums] == expected(2, (500,)) * 2


def test_one_after_the_other_jobs_are_served() -> None:
    with serving(AggregatorSetup(2, 4, CHUNK)) as own:
        for _ in range(3):
            assert exchanged([own.address], 2, SIZES, CHUNK) == [expected(2)] * 2
        assert own.report()["jobs"] == 3


def worker_at(address: Address, workers: int = 2, chunk: int = CHUNK) -> SwitchWorker:
    return SwitchWorker([address], new_job(), worker=0, workers=workers, chunk=chunk, timeout=0.5)


def test_nobody_at_the_address_is_an_error_in_time() -> None:
    with serving(AggregatorSetup(2, 4, CHUNK)) as own:
        address = own.address
    lonely, watch = worker_at(address), Watch()
    with pytest.raises(PeerError, match=f"{address}: it did not answer within 0.5 s"):
        lonely.join()
    assert watch.took() < 2
    lonely.close()


def test_a_worker_that_never_comes_is_named() -> None:
    with serving(AggregatorSetup(3, 4, CHUNK)) as own:
        lonely = worker_at(own.address, workers=3)
        with pytest.raises(PeerError, match=r"waits for workers \[1, 2\]"):
            lonely.join()
        lonely.close()


@pytest.mark.parametrize(("workers", "chunk"), [(3, CHUNK), (2, CHUNK + 1)])
def test_an_aggregator_for_something_else_is_a_disagreement(workers: int, chunk: int) -> None:
    with serving(AggregatorSetup(2, 4, CHUNK)) as own:
        other = worker_at(own.address, workers, chunk)
        with pytest.raises(DisagreementError, match=str(own.address)):
            other.join()
        other.close()


@pytest.mark.parametrize("end", ["aggregator", "worker", "restart"])
def test_who_vanishes_is_named_in_time(end: str) -> None:
    """Two of three are there in the middle of a job."""
    with serving(AggregatorSetup(2, 4, CHUNK)) as own:
        job, address = new_job(), own.address
        pair = [
            SwitchWorker([address], job, worker=w, workers=2, chunk=CHUNK, timeout=0.6)
            for w in (0, 1)
        ]
        other = threading.Thread(target=pair[1].join)
        other.start()
        pair[0].join()
        other.join()
        if end == "worker":
            check_fails(pair[0], r"waits for workers \[1\]")
    if end == "aggregator":
        check_fails(pair[0], "has gone")
    if end == "restart":
        with serving(AggregatorSetup(2, 4, CHUNK), address):
            check_fails(pair[0], "does not know this job")
    for worker in pair:
        worker.close()


def check_fails(worker: SwitchWorker, message: str) -> None:
    watch = Watch()
    future = worker.start(
        table(500, CHUNK, bytes(16)), codes_of(0, 0, 500), np.zeros(500, np.uint8)
    )
    with pytest.raises(PeerError, match=message):
        future.result()
    assert watch.took() < 3


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:80", ("localhost", 80)),
        ("10.0.0.1", ("10.0.0.1", 48_320)),
        ("[::1]:9", ("::1", 9)),
        ("::1", ("::1", 48_320)),
    ],
)
def test_addresses_are_read(text: str, address: tuple[str, int]) -> None:
    assert Address.of(text) == address
    assert Address.of(str(Address.of(text))) == address


@pytest.mark.parametrize("text", ["", ":80", "host:port", "host:70000"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(SpecError):
        Address.of(text)


def test_memory_is_what_the_documentation_says() -> None:
    with serving(AggregatorSetup(2, 32, 8192)) as own:
        assert own.slot_bytes == 147_840  # two sums, two packets, 128 bytes
        assert own.memory_bytes < 5.1e6
