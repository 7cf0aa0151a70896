"""Slices of a vector over threads."""

import subprocess
import sys
import threading
import time
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fewbits
from fewbits.backend import cpu, parallel
from fewbits.backend.buffers import Buffer
from fewbits.backend.kinds.joining import JoinedSection


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


@given(st.integers(0, 2**40), st.integers(1, 64))
def test_fine_slices_cover_everything_once_and_are_worth_a_thread(count: int, threads: int) -> None:
    pieces = parallel.fine_slices(count, threads)
    assert pieces[0].start == 0
    assert pieces[-1].stop == count
    assert len(pieces) == 1 or len(pieces) >= parallel.shares(count, threads)
    for piece, following in pairwise(pieces):
        assert piece.stop == following.start
        assert following.start % parallel.THREAD_SLICE == 0
        assert piece.stop - piece.start >= parallel.WORTHWHILE - parallel.THREAD_SLICE
    if threads == 1:
        assert len(pieces) == 1


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_turns_are_taken_by_all_threads_and_results_are_in_order(threads: int) -> None:
    met = threading.Barrier(threads)

    def work(number: int) -> tuple[int, int]:
        if number < threads:  # no thread has the first ones alone
            met.wait(30)
        return number, threading.get_ident()

    results = parallel.in_turns(work, 9, threads)
    assert [number for number, _ in results] == list(range(9))
    assert len({thread for _, thread in results}) == threads
    assert threading.get_ident() in {thread for _, thread in results}


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_of_several_turns_that_fail_the_first_one_is_told(threads: int) -> None:
    ended = threading.Event()

    def work(number: int) -> None:
        if number == 3 and threads > 1:
            assert ended.wait(30)  # although it fails last
        if number == 4:
            ended.set()
        if number in (3, 4):
            raise KeyError(number)

    with pytest.raises(KeyError) as caught:
        parallel.in_turns(work, 8, threads)
    assert caught.value.args == (3,)


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_parts_of_a_section_end_one_after_the_other(order: tuple[int, ...]) -> None:
    # In place at once, moved a little, empty, moved onto itself.
    starts, sizes = (0, 25, 30, 55), (20, 1, 0, 40)
    section = np.zeros(100, np.uint8)
    parts = [np.arange(1, size + 1, dtype=np.uint8) for size in sizes]
    joined = JoinedSection(Buffer.of(section))
    for number in order:
        section[starts[number] : starts[number] + sizes[number]] = parts[number]
        joined.add(number, starts[number], sizes[number])
    assert joined.size == sum(sizes)
    assert np.array_equal(section[: joined.size], np.concatenate(parts))


@pytest.mark.parametrize("size", [0, 7, 400_000, 1_200_003])
def test_a_checksum_does_not_depend_on_threads(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Buffer.of(np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8))
    alone = cpu.crc32c(data, 5)
    monkeypatch.setattr(cpu, "_CHECKED_BYTES", 100_000)
    assert {cpu.crc32c(data, 5, threads=threads) for threads in (2, 3, 4)} == {alone}


@pytest.mark.parametrize(
    "spec",
    [
        "natural:coder=rans",
        "natural-dithering:coder=rans",
        "standard-dithering:block=4096,coder=rans",
        "sparse-dithering:rounding=stochastic",
        "sparse-dithering:block=65536",
        "sign",
    ],
)
def test_slices_of_unequal_sizes_make_the_bytes_of_one_thread(spec: str) -> None:
    rng, part = np.random.default_rng(3), parallel.WORTHWHILE
    noise = [rng.standard_normal(part, np.float32) for _ in range(3)]
    wide = noise[1] * np.exp2(rng.integers(-60, 60, part)).astype(np.float32)
    tail = np.full(12_345, 0.5, np.float32)
    x = np.concatenate([np.zeros(part, np.float32), noise[0], wide, noise[2], tail])
    alone = fewbits.compress(x, spec, seed=1, threads=1)
    values = fewbits.decompress(alone, threads=1).view(np.uint32)
    for threads in (2, 3):
        assert len(parallel.fine_slices(x.size, threads)) > threads
        assert fewbits.compress(x, spec, seed=1, threads=threads) == alone
        again = fewbits.decompress(alone, threads=threads)
        assert np.array_equal(again.view(np.uint32), values)
