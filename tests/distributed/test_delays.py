"""What counts as time between a fault and its error: all but waiting for a busy processor."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from launch import Outcome
from raised import SLACK, check_raised

from delays import Watch, on_the_way

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="the kernel does not tell"
)


@pytest.fixture
def busy() -> Iterator[None]:
    """Programs that never rest, two for each processor."""
    command = ["sh", "-c", "while :; do :; done"]
    others = [subprocess.Popen(command) for _ in range(2 * (os.cpu_count() or 1))]
    yield
    for each in others:
        each.kill()
        each.wait()


@pytest.mark.usefixtures("busy")
def test_a_nap_is_time_and_waiting_for_a_processor_is_not() -> None:
    nap, work = 0.3, 0.1
    watch = Watch()
    time.sleep(nap)
    assert watch.took() > 0.9 * nap
    watch, used = Watch(), time.thread_time()
    while time.thread_time() - used < work:
        pass
    assert 0.9 * work < watch.took() < watch.elapsed()


def test_the_own_wait_and_the_longest_of_others_count() -> None:
    before = {"0": {"7": 10**9}, "1": {"8": 0}, "2": {"9": 0}}
    now = {
        "0": {"7": 3 * 10**9, "77": 10**9},  # a new thread
        "1": {"8": 10**9},
        "2": {"9": 4 * 10**9},
    }
    assert on_the_way(before, now, "0") == pytest.approx(3 + 4)
    assert on_the_way(before, now, "2") == pytest.approx(4 + 3)
    assert on_the_way(before, {}, "0") == 0


@pytest.mark.parametrize(("waited", "late"), [(0.0, True), (0.1, True), (0.5, False)])
def test_a_late_error_fails_unless_processors_were_busy(waited: float, late: bool) -> None:
    own = Outcome(0, 1, "PeerError", "rank 1", elapsed=1.3, waited=waited, result={"steps": 4})
    if late:
        with pytest.raises(AssertionError):
            check_raised([own], "PeerError", SLACK, naming="rank 1")
    else:
        check_raised([own], "PeerError", SLACK, naming="rank 1")
