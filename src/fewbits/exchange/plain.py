"""Means without compression, by torch's own all-reduce, for links on which nothing pays."""

from typing import Any

from fewbits.exchange import jobs
from fewbits.exchange.jobs import Job
from fewbits.exchange.plan import Planner
from fewbits.exchange.reducer import Reducer
from fewbits.links.torch_comm import TorchComm
from fewbits.schemes.reduction import Progress, commit, give_up


class Plain(Reducer):
    """Without compression."""

    is_light = True

    def __init__(self, planner: Planner, progress: Progress) -> None:
        super().__init__(planner, None, progress)
        self._under_way: list[Any] = []
        self._planned: set[tuple[int, ...]] = set()  # buckets whose parameters the report knows

    @property
    def specs(self) -> tuple[str, str]:
        """Nothing."""
        return "none", "none"

    def start(self, job: Job, comm: TorchComm) -> None:
        """Divide, then sum over all ranks."""
        try:
            bucket = tuple(map(id, job.parameters))
            if bucket not in self._planned:
                self.planner.units(job.parameters)
                self._planned.add(bucket)
            if job.is_last:  # the only header of the step follows
                self._announce(job)
        except Exception as error:
            give_up(comm, self.progress, error)
        host = jobs.to_host(job)
        host /= comm.size
        self._under_way.append((comm.start_sum(host), host, job))
        # By formula, for a ring: torch does not count them.
        self.progress.spent.payload_bytes += 2 * (comm.size - 1) * host.nbytes // comm.size

    def end_step(self, comm: TorchComm) -> None:
        """The ranks' word comes first: it names who failed, and travels while sums are made."""
        commit(comm, self.progress, rest=self._wait)

    def close(self, *, failed: bool) -> None:
        """Nothing is kept."""
        self._under_way = []

    def _wait(self) -> None:
        """The sums that are left."""
        with self.progress.spent.wire():
            for sum_, host, job in self._under_way:
                sum_.wait()
                if host is not job.tensor:
                    job.tensor.copy_(host)
        self._under_way.clear()
