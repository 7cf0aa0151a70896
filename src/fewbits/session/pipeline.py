"""One background thread for each session reduces jobs in the order in which they are given.

Collectives then leave in the same order on every rank and overlap with computing. Chaining
them from futures' callbacks instead lets ranks enqueue in different orders, and gloo aborts the
process.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

from fewbits.session.jobs import Job

_Result = TypeVar("_Result")


class Pipeline:
    """Reduces jobs in the calling thread, for adapters that need the result at once.

    After a failure every further job fails with the same error.
    """

    def __init__(self, reduce: Callable[[Job], None]) -> None:
        self.failure: Exception | None = None
        self._reduce = reduce

    def submit(self, job: Job) -> None:
        """Queue a job or reduce it now."""
        self.call(lambda: self._reduce(job))
        job.done.set()

    def start_here(self, job: Job) -> None:
        """Take a job in the calling thread, in a step of which none was queued.

        This is for work that only begins here and continues by itself, for which a change of
        threads would cost more.
        """
        self.submit(job)

    def close(self) -> None:
        """Finish all jobs."""

    def call(self, work: Callable[[], _Result]) -> _Result:
        """Do `work` now in the calling thread; no job may be queued."""
        if self.failure is not None:
            raise self.failure
        try:
            return work()
        except Exception as error:
            self.failure = error
            raise


class Background(Pipeline):
    """Reduces jobs in a background thread.

    The jobs of a step are done when its last one is; until then some are under way.
    """

    def __init__(self, reduce: Callable[[Job], None]) -> None:
        super().__init__(reduce)
        self._waiting: list[Job] = []  # of this step
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._loop, name="fewbits-session", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        self._jobs.put(job)

    def start_here(self, job: Job) -> None:
        self._take(job)

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()

    def _loop(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._take(job)

    def _take(self, job: Job) -> None:
        self._waiting.append(job)
        if self.failure is None:
            try:
                self._reduce(job)
            except Exception as error:  # raised again where somebody waits
                self.failure = error
        if job.is_last or self.failure is not None:
            for each in self._waiting:
                each.ended(self.failure)
                each.done.set()
            self._waiting.clear()
