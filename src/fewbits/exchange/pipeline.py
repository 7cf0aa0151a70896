"""One background thread for each exchange reduces jobs in the order in which they are given.

Collectives then leave in the same order on every rank and overlap with computing. Chaining
them from futures' callbacks instead lets ranks enqueue in different orders, and gloo aborts the
process.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

from fewbits.exchange.jobs import Job

Result = TypeVar("Result")


class Pipeline:
    """The thread. After a failure every further job fails with the same error.

    Jobs are done when the last one of the step is: until then some of them are under way.
    """

    def __init__(self, reduce: Callable[[Job], None]) -> None:
        self.failure: Exception | None = None
        self._reduce = reduce
        self._waiting: list[Job] = []  # of this step
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._loop, name="fewbits-exchange", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Queue a job."""
        self._jobs.put(job)

    def start_here(self, job: Job) -> None:
        """Take a job in the calling thread, in a step of which none was queued.

        For work that only begins here and goes on by itself: a change of threads would cost more.
        """
        self._take(job)

    def close(self) -> None:
        """Finish what is queued and end the thread."""
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
                self._end(each)
            self._waiting.clear()

    def _end(self, job: Job) -> None:
        if job.future is not None and self.failure is None:
            job.future.set_result(job.tensor)
        elif job.future is not None:
            job.future.set_exception(self.failure)  # type: ignore[arg-type]
        job.done.set()


class Inline(Pipeline):
    """Without a thread, for whoever needs the result at once; the rest is the same."""

    def __init__(self, reduce: Callable[[Job], None]) -> None:
        self.failure: Exception | None = None
        self._reduce = reduce

    def submit(self, job: Job) -> None:
        """Reduce the job now; what fails is raised."""
        self.call(lambda: self._reduce(job))

    def call(self, work: Callable[[], Result]) -> Result:
        """Do `work` that other ranks wait for too."""
        if self.failure is not None:
            raise self.failure
        try:
            return work()
        except Exception as error:
            self.failure = error
            raise

    def close(self) -> None:
        """Nothing is left to do."""
