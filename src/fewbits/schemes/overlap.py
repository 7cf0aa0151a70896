"""Several reductions at once, each a hop behind the one before it.

While the messages of one are on their way, the next one is encoded and the last one decoded. What
is sent in which order follows from the batches alone, never from who is faster, so all ranks send
in the same order and a fault reaches all of them in the same exchange.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy.typing as npt

from fewbits.schemes.reduction import Hops

Done = Callable[[npt.NDArray[Any]], None]


class _Running(NamedTuple):
    hops: Hops
    done: Done


class Overlap:
    """Reductions under way, the newest first; `done` is called with each one's mean.

    After an error nothing may be added: what is under way stays here, because other ranks may still
    write to its buffers.
    """

    def __init__(self) -> None:
        self._running: deque[_Running] = deque()

    def add(self, hops: Hops, done: Done) -> None:
        """Begin a reduction, then let each of the others go one hop further."""
        self._running.appendleft(_Running(hops, done))
        self.advance()

    def advance(self) -> None:
        """One hop for each, the newest first: what it sends need not wait for the others'."""
        for running in list(self._running):
            try:
                next(running.hops)
            except StopIteration as end:
                self._running.remove(running)
                running.done(end.value)

    def finish(self) -> None:
        """All hops of all of them."""
        while self._running:
            self.advance()
