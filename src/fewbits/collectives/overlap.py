"""Several reductions at once, each a hop behind the one before it.

While the messages of one travel, the next one is encoded and the last one decoded. The batches
alone decide the order of messages, never the speed of ranks. So all ranks send in the same order,
and a fault reaches all of them in the same exchange.
"""

from collections import deque
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

Hopping = Generator[None, None, Any]
Done = Callable[[Any], None]


class _Running(NamedTuple):
    hops: Hopping
    done: Done


class Overlap:
    """Reductions under way, the newest first; `done` is called with each one's mean.

    After an error nothing may be added. Reductions under way stay here, because other ranks may
    still write to their buffers.
    """

    def __init__(self) -> None:
        self._running: deque[_Running] = deque()

    def add(self, hops: Hopping, done: Done) -> None:
        """Begin a reduction, then let each of the others go one hop further."""
        self._running.appendleft(_Running(hops, done))
        self.advance()

    def advance(self) -> None:
        """Take one hop of each, the newest first, whose messages need not wait for the others."""
        for running in list(self._running):
            try:
                next(running.hops)
            except StopIteration as end:
                self._running.remove(running)
                running.done(end.value)

    def finish(self) -> None:
        while self._running:
            self.advance()
