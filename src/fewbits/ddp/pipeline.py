"""One background thread for each process reduces buckets in the order in which DDP gives them.

Collectives then leave in the same order on every rank and overlap with the backward pass. Chaining
them from futures' callbacks instead lets ranks enqueue in different orders, and gloo aborts the
process.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

import torch


@dataclass(slots=True)
class Job:
    """One bucket on its way: the tensor to be replaced by the mean, and who waits for it."""

    index: int
    tensor: torch.Tensor
    parameters: Sequence[Any]
    is_last: bool
    future: "torch.futures.Future[torch.Tensor]"
    ready: Any = None  # a CUDA event after which the tensor may be read
    idle: bool = False  # no gradient: this rank only accompanies the others
    unused: Sequence[Any] = ()  # parameters that the backward pass did not reach
    since: float = field(default_factory=time.perf_counter)
    done: threading.Event = field(default_factory=threading.Event)


class Pipeline:
    """The thread. After a failure every further job fails with the same error.

    Buckets are done when the last one of the step is: until then some of them are under way.
    """

    def __init__(self, reduce: Callable[[Job], None]) -> None:
        self.failure: Exception | None = None
        self._reduce = reduce
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._loop, name="fewbits-ddp", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Queue a bucket."""
        self._jobs.put(job)

    def close(self) -> None:
        """Finish what is queued and end the thread."""
        self._jobs.put(None)
        self._thread.join()

    def _loop(self) -> None:
        waiting: list[Job] = []
        while (job := self._jobs.get()) is not None:
            waiting.append(job)
            if self.failure is None:
                try:
                    self._reduce(job)
                except Exception as error:  # raised again where backward() waits
                    self.failure = error
            if job.is_last or self.failure is not None:
                for each in waiting:
                    self._end(each)
                waiting.clear()

    def _end(self, job: Job) -> None:
        if self.failure is None:
            job.future.set_result(job.tensor)
        else:
            job.future.set_exception(self.failure)  # type: ignore[arg-type]
        job.done.set()
