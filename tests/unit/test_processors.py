"""Threads that are measured have processors of their own, and are free afterwards."""

import os
import threading

import pytest

from fewbits.backend import parallel
from fewbits.bench import processors

needs_binding = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or parallel.available_threads() < 2,
    reason="needs two processors, and a system that binds threads to them",
)


def _places(count: int) -> list[set[int]]:
    """Where the threads of the pool may run, the calling one last."""
    together = threading.Barrier(count, timeout=60)

    def place(_: int) -> set[int]:
        together.wait()
        return os.sched_getaffinity(0)

    return parallel.each(place, count)


@needs_binding
def test_no_thread_of_the_pool_shares_the_callers_processor():
    before = os.sched_getaffinity(0)
    with processors.bound(2):
        *pool, own = _places(len(before) + 1)
        assert len(own) == 1
        assert all(place == before - own for place in pool)
    assert all(place == before for place in _places(len(before) + 1))


@needs_binding
@pytest.mark.parametrize("threads", [1, 1_000_000])
def test_nothing_is_bound_where_it_cannot_help(threads):
    before = os.sched_getaffinity(0)
    with processors.bound(threads):
        assert os.sched_getaffinity(0) == before


@needs_binding
def test_a_pool_that_is_smaller_is_left_alone(monkeypatch):
    monkeypatch.setattr(processors, "_PATIENCE", 0.05)
    monkeypatch.setattr(processors.parallel, "each", lambda work, count: [work(0)])
    before = os.sched_getaffinity(0)
    with processors.bound(2):
        assert os.sched_getaffinity(0) == before
