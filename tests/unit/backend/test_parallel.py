"""Slices of a vector over threads."""

import subprocess
import sys
import threading
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewbits.backend import parallel


@given(st.integers(0, 2**40), st.integers(1, 300))
def test_slices_cover_everything_once_and_start_at_whole_bytes(count: int, threads: int) -> None:
    pieces = parallel.slices(count, threads)
    assert 1 <= len(pieces) <= threads
    assert pieces[0].start == 0
    assert pieces[-1].stop == count
    for piece, following in pairwise(pieces):
        assert piece.stop == following.start
    for piece in pieces:
        assert piece.start % parallel.THREAD_SLICE == 0
        assert piece.start < piece.stop or count == 0
    if len(pieces) > 1:
        sizes = [piece.stop - piece.start for piece in pieces]
        assert max(sizes) - min(sizes) <= 2 * parallel.THREAD_SLICE
        assert min(sizes) >= parallel.WORTHWHILE - parallel.THREAD_SLICE


def test_small_vectors_stay_in_the_calling_thread() -> None:
    names = parallel.run(lambda _: threading.current_thread().name, 1000, 8)
    assert names == [threading.current_thread().name]


def test_large_vectors_use_more_than_one_thread_and_keep_order() -> None:
    count = 4 * parallel.WORTHWHILE
    results = parallel.run(lambda piece: (piece.start, threading.get_ident()), count, 4)
    assert [start for start, _ in results] == sorted(start for start, _ in results)
    assert len(results) == 4
    assert len({thread for _, thread in results}) > 1
    assert results[-1][1] == threading.get_ident()


@pytest.mark.parametrize("culprit", [0, 1, 2])
def test_errors_leave_only_after_every_thread_has_ended(culprit: int) -> None:
    count, ended = 3 * parallel.WORTHWHILE, []
    starts = [piece.start for piece in parallel.slices(count, 3)]

    def work(piece: slice) -> None:
        if piece.start == starts[culprit]:
            raise KeyError(culprit)
        time.sleep(0.05)
        ended.append(piece.start)

    with pytest.raises(KeyError) as caught:
        parallel.run(work, count, 3)
    assert caught.value.args == (culprit,)
    assert sorted(ended) == sorted(set(starts) - {starts[culprit]})


FORKING = """
import os, sys
import numpy as np, fewbits
x = np.random.default_rng(0).standard_normal(700_000).astype(np.float32)
before = fewbits.compress(x, "natural", seed=1, threads=2)
child = os.fork()
if child == 0:
    same = fewbits.compress(x, "natural", seed=1, threads=2) == before
    fewbits.decompress(before, threads=2)
    os._exit(0 if same else 1)
_, status = os.waitpid(child, 0)
assert fewbits.compress(x, "natural", seed=1, threads=2) == before
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has no fork")
def test_a_forked_child_has_threads_of_its_own() -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING]
    assert subprocess.run(command, timeout=60, check=False).returncode == 0


LEAVING = """
import sys, threading, time
import numpy as np, fewbits
x = np.random.default_rng(0).standard_normal(700_000).astype(np.float32)
expected = fewbits.compress(x, "natural", seed=1, threads=1)
if sys.argv[1] == "warm":
    fewbits.compress(x, "natural", seed=1, threads=2)
def work():
    while threading.main_thread().is_alive():
        time.sleep(0.01)
    same = fewbits.compress(x, "natural", seed=1, threads=2) == expected
    totals = fewbits.decompress(expected, threads=2)
    print("same" if same and totals.shape == x.shape else "different", flush=True)
threading.Thread(target=work).start()
"""


@pytest.mark.parametrize("pool", ["cold", "warm"])
def test_a_thread_that_outlives_the_main_one_still_compresses(pool: str) -> None:
    command = [sys.executable, "-c", LEAVING, pool]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("same\n", "", 0)


def test_other_errors_of_the_pool_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def submit(self, *_: object) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(parallel, "_pool", lambda _: Full())
    with pytest.raises(RuntimeError, match="start new thread"):
        parallel.each(lambda number: number, 2)
