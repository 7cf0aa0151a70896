"""A few threads over disjoint slices of a vector; the bytes never depend on their number."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import TypeVar

GRAIN = (
    65_536  # elements; every slice starts at a multiple, where any code width is at a whole byte
)
WORTHWHILE = 4 * GRAIN  # elements a thread must have for its start to pay


Result = TypeVar("Result")


def available_threads() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def slices(count: int, threads: int) -> list[slice]:
    """[0, count) in at most `threads` pieces of about equal size, cut at multiples of the grain."""
    pieces = max(1, min(threads, count // WORTHWHILE))
    cuts = [count * piece // pieces // GRAIN * GRAIN for piece in range(pieces)] + [count]
    return [slice(start, stop) for start, stop in pairwise(cuts)]


def run(work: Callable[[slice], Result], count: int, threads: int) -> list[Result]:
    """`work` on every slice of [0, count); results in order."""
    pieces = slices(count, threads)
    return each(lambda number: work(pieces[number]), len(pieces))


def each(work: Callable[[int], Result], count: int) -> list[Result]:
    """`work` on 0 to `count - 1` at the same time, the last in the calling thread; in order."""
    futures = [_pool(os.getpid()).submit(work, number) for number in range(count - 1)]
    try:
        own = work(count - 1)
    finally:
        # Wait for all before any error leaves: the others still write into the caller's buffers.
        errors = [future.exception() for future in futures]
    for error in errors:
        if error is not None:
            raise error
    return [*(future.result() for future in futures), own]


@cache
def _pool(_process: int) -> ThreadPoolExecutor:
    """Made at first use, and anew in a forked child, which inherits no threads."""
    return ThreadPoolExecutor(max_workers=max(1, available_threads()), thread_name_prefix="fewbits")
