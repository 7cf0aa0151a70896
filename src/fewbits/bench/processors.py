"""Binds threads to processors: some systems put the threads of a process on as few as they can."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from fewbits.backend import parallel

_PATIENCE = 5.0  # seconds


@contextmanager
def bound(threads: int) -> Iterator[None]:
    """The calling thread on one processor, those of the pool on the others; then as before.

    Nothing is bound for one thread, for more threads than processors, or where this system cannot.
    """
    if threads < 2 or not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    if threads > len(allowed):
        yield
        return
    first = {min(allowed)}
    _bind(len(allowed), allowed - first, first)
    try:
        yield
    finally:
        _bind(len(allowed), allowed, allowed)


def _bind(pool: int, others: set[int], own: set[int]) -> None:
    """Every thread of the pool: all wait for each other, so none is bound twice.

    A pool that is smaller than that is left as it is.
    """
    together = threading.Barrier(pool + 1, timeout=_PATIENCE)

    def bind(number: int) -> None:
        together.wait()
        os.sched_setaffinity(0, own if number == pool else others)

    with suppress(threading.BrokenBarrierError):
        parallel.each(bind, pool + 1)
