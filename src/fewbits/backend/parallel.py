"""Runs work on slices of a vector in a few threads; the bytes never depend on their number."""

import os
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

# Values; every thread's slice starts at a multiple, where any code width is at a whole byte and a
# coder block begins.
THREAD_SLICE = 65_536
WORTHWHILE = 4 * THREAD_SLICE  # values a thread must have for its start to pay
_TURNS = 4  # fine slices for each thread


Result = TypeVar("Result")


def available_threads() -> int:
    """The number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def shares(count: int, threads: int) -> int:
    """The number of threads that pay on `count` values."""
    return max(1, min(threads, count // WORTHWHILE))


def slices(count: int, threads: int, unit: int = 0) -> list[slice]:
    """[0, count) for at most `threads` threads, about equal and cut at multiples of a unit.

    Without a unit, at multiples of `THREAD_SLICE`.
    """
    parts, unit = shares(count, threads), unit or THREAD_SLICE
    if parts == 1:
        return [slice(0, count)]
    cuts = [count * part // parts // unit * unit for part in range(parts)]
    return [slice(start, stop) for start, stop in pairwise([*cuts, count]) if start < stop]


def fine_slices(count: int, threads: int, unit: int = 0) -> list[slice]:
    """The same, but several for each thread, where each would be worth a thread.

    Threads that take turns at them end at about the same time, also if a processor has other work.
    """
    if shares(count, threads) == 1:
        return [slice(0, count)]
    return slices(count, _TURNS * threads, unit)


def run(work: Callable[[slice], Result], count: int, threads: int) -> list[Result]:
    """`work` on every slice of [0, count); results in order."""
    if shares(count, threads) == 1:
        return [work(slice(0, count))]
    parts = slices(count, threads)
    return each(lambda number: work(parts[number]), len(parts))


def each(work: Callable[[int], Result], count: int) -> list[Result]:
    """`work` on 0 to `count - 1` at the same time, the last in the calling thread; in order.

    All are in the calling thread where the interpreter ends and the pool is closed.
    """
    if count == 1:
        return [work(0)]
    futures = _submitted(work, count - 1)
    try:
        own = [work(number) for number in range(len(futures), count)]
    finally:
        # Wait for all before any error leaves: the others still write into the caller's buffers.
        errors = [future.exception() for future in futures]
    for error in errors:
        if error is not None:
            raise error
    return [*(future.result() for future in futures), *own]


def in_turns(work: Callable[[int], Result], count: int, threads: int) -> list[Result]:
    """`work` on 0 to `count - 1`, by threads that each take the next; results in order.

    If some fail, the error of the first of them is raised.
    """
    if threads == 1 or count <= threads:
        return each(work, count) if threads > 1 else [work(number) for number in range(count)]
    turns = iter(range(count))
    results: dict[int, Result] = {}
    errors: dict[int, Exception] = {}

    def take(_: int) -> None:
        for number in turns:
            try:
                results[number] = work(number)
            except Exception as error:
                errors[number] = error
                return

    each(take, threads)
    if errors:
        raise errors[min(errors)]
    return [results[number] for number in range(count)]


def _submitted(work: Callable[[int], Result], count: int) -> list["Future[Result]"]:
    """`work` on 0 to `count - 1` in the pool, or on fewer: an interpreter that ends takes none."""
    futures: list[Future[Result]] = []
    try:
        for number in range(count):
            futures.append(_pool(os.getpid()).submit(work, number))  # noqa: PERF401 (kept if one fails)
    except RuntimeError as error:
        if "shutdown" not in str(error):
            raise
    return futures


@cache
def _pool(_process: int) -> "ThreadPoolExecutor":
    """The pool, made at first use, and anew in a forked child, which inherits no threads."""
    from concurrent.futures import ThreadPoolExecutor  # slow to import

    return ThreadPoolExecutor(max_workers=max(1, available_threads()), thread_name_prefix="fewbits")
