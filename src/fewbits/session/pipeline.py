"""One background thread for each session reduces jobs in the order in which they are given.

Collectives then leave in the same order on every rank and overlap with computing. Chaining
them from futures' callbacks instead lets ranks enqueue in different orders, and gloo aborts the
process.

Nobody waits for the thread for ever. It may die, hang, or be left behind by a fork, so whoever
waits looks whether it lives and moves.
"""

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TypeVar

from fewbits.errors import PeerError, SpecError
from fewbits.session.jobs import Job

LOOK = 1.0  # seconds after which whoever waits looks at the thread
GRACE = 10.0  # seconds beyond the time-outs of the exchange itself
PARTING = 1.0  # seconds that a program which ends leaves to an exchange that is under way

_ADVICE = "call close() on all ranks and continue from the last state"
_LOG = logging.getLogger(__name__)
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Watch:
    """How to see that an exchange goes on: `beat` changes, at least every `patience` seconds.

    `abort` ends whatever waits for other ranks, without asking them.
    """

    beat: Callable[[], object]
    patience: float
    abort: Callable[[], None]


class Pipeline:
    """Reduces jobs in the calling thread, for adapters that need the result at once.

    After a failure every further job fails with the same error.
    """

    def __init__(self, reduce: Callable[[Job], None]) -> None:
        self.failure: Exception | None = None
        self._reduce = reduce
        self._process = os.getpid()

    @property
    def is_left_behind(self) -> bool:
        """Whether this process is a fork of the one that exchanges."""
        return os.getpid() != self._process

    def check_process(self) -> None:
        """Raise `SpecError` in a fork, which has neither the thread nor the connections."""
        if self.is_left_behind:
            raise SpecError(
                f"process {self._process} attached, and this fork of it cannot exchange: fork "
                "first, then attach in the process that trains"
            )

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

    def wait(self, job: Job) -> None:
        """Wait until a job is done or has failed; here it is."""

    def close(self) -> None:
        """Finish all jobs."""

    def call(self, work: Callable[[], _Result]) -> _Result:
        """Do `work` now in the calling thread; no job may be queued."""
        if self.failure is not None:
            raise self.failure
        try:
            return work()
        except BaseException as error:
            self.failure = _typed(error)
            raise


def _typed(error: BaseException) -> Exception:
    """The error itself, or one for what is none, such as `SystemExit`."""
    if isinstance(error, Exception):
        return error
    typed = PeerError(f"this rank left its exchange by {type(error).__name__} {error}: {_ADVICE}")
    typed.__cause__ = error
    return typed


class Background(Pipeline):
    """Reduces jobs in a background thread.

    The jobs of a step are done when its last one is; until then some are under way.
    """

    def __init__(self, reduce: Callable[[Job], None], watch: Watch) -> None:
        super().__init__(reduce)
        self._watch = watch
        self._waiting: list[Job] = []  # of this step
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._loop, name="fewbits-session", daemon=True)
        self._thread.start()
        atexit.register(self._end)

    def submit(self, job: Job) -> None:
        self._jobs.put(job)

    def start_here(self, job: Job) -> None:
        self._take(job)
        cause = self.failure.__cause__ if self.failure is not None else None
        if cause is not None and not isinstance(cause, Exception):
            raise cause  # this is the thread that was interrupted

    def wait(self, job: Job) -> None:
        self._look_until(job.done.wait)

    def close(self) -> None:
        atexit.unregister(self._end)
        self._jobs.put(None)
        self._look_until(self._has_ended)

    def _end(self) -> None:
        """End the thread before the interpreter does.

        It would end a daemon thread at its next step, in the middle of torch's code, which then
        aborts the process.
        """
        if self.is_left_behind:
            return
        self._jobs.put(None)
        if not self._has_ended(PARTING):
            self._watch.abort()
            self._has_ended(PARTING)

    def _has_ended(self, seconds: float) -> bool:
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _look_until(self, wait: Callable[[float], bool]) -> None:
        """Call `wait` until it is true; fails if the thread is gone or does not move."""
        watch = self._watch
        seen, since = watch.beat(), time.monotonic()
        while not wait(LOOK):
            if not self._thread.is_alive() and not wait(0):
                self._fail(f"this rank's background thread has ended: {_ADVICE}")
                return
            now = watch.beat()
            if now != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > watch.patience:
                self._fail(f"no exchange has moved here for {watch.patience:g} s: {_ADVICE}")
                watch.abort()
                return

    def _fail(self, why: str) -> None:
        self.failure = self.failure or PeerError(why)

    def _loop(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._take(job)

    def _take(self, job: Job) -> None:
        self._waiting.append(job)
        if self.failure is None:
            try:
                self._reduce(job)
            except BaseException as error:  # raised again where somebody waits
                self.failure = self.failure or _typed(error)
                _LOG.error("the exchange has failed: %s", error)
                if not isinstance(error, Exception):  # nobody has told the other ranks
                    self._watch.abort()
        if job.is_last or self.failure is not None:
            for each in self._waiting:
                each.ended(self.failure)
                each.done.set()
            self._waiting.clear()
