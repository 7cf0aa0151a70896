"""How long threads could have run and others had the processors; Linux counts it."""

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

Waits = dict[str, int]  # nanoseconds of each thread


def waits(process: int) -> Waits:
    """What the threads of a process have waited for a processor so far."""
    found = {}
    for file in Path(f"/proc/{process}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError, IndexError):  # it has ended, or the kernel does not tell
            found[file.parent.name] = int(file.read_text().split()[1])
    return found


def since(before: Mapping[str, int], now: Mapping[str, int]) -> float:
    """The seconds that all threads together have waited between two looks."""
    return 1e-9 * sum(waited - before.get(thread, 0) for thread, waited in now.items())


def on_the_way(before: Mapping[str, Waits], now: Mapping[str, Waits], own: str) -> float:
    """The most that a rank's error was late because processors were busy, in seconds.

    Word of a fault goes from thread to thread: out of the rank that met it, into the own one. So
    this is what the own threads waited and what those of the rank that waited most did. A thread
    that sleeps, for a time-out or for bytes, waits for no processor: that counts as time.
    """
    waited = {rank: since(before.get(rank, {}), threads) for rank, threads in now.items()}
    return waited.pop(own, 0.0) + max(waited.values(), default=0.0)


class Watch:
    """Tells the seconds since it was made."""

    def __init__(self) -> None:
        self._began, self._before = time.monotonic(), waits(os.getpid())

    def elapsed(self) -> float:
        return time.monotonic() - self._began

    def took(self) -> float:
        """All but those in which threads of this process could have run and had no processor."""
        return self.elapsed() - since(self._before, waits(os.getpid()))
