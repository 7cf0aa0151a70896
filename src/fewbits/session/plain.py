"""Means without compression, by the transport's own all-reduce, for links on which none pays."""

from fewbits.collectives.comm import Pending
from fewbits.collectives.progress import RankProgress
from fewbits.collectives.reduction import commit, give_up
from fewbits.session.adapter import SessionComm
from fewbits.session.jobs import Job
from fewbits.session.reducer import Reducer
from fewbits.session.routing import ModelParameter, Routing


class Plain(Reducer):
    """Averages jobs without compression."""

    is_light = True

    def __init__(self, routing: Routing, progress: RankProgress) -> None:
        super().__init__(routing, progress)
        self._under_way: list[tuple[Pending, Job]] = []
        self._routed: set[tuple[int, tuple[ModelParameter, ...]]] = set()  # what the report knows

    @property
    def specs(self) -> tuple[str, str]:
        return "none", "none"

    def start(self, job: Job, comm: SessionComm) -> None:
        try:
            batch = job.values.count, tuple(job.parameters)
            if batch not in self._routed:
                self.routing.units(job.parameters, job.values.count)
                self._routed.add(batch)
            if job.is_last:  # the only header of the step follows
                self.announce(job)
        except Exception as error:
            give_up(comm, self.progress, error)
        values = job.values.read(wide=False)
        self._under_way.append((comm.start_mean(values), job))
        # By formula, for a ring: the transport does not count them.
        self.progress.spent.payload_bytes += self.plain_bytes(job, comm.size)

    def end_step(self, comm: SessionComm) -> None:
        """Exchange headers first: they name a rank that failed, and travel while sums are made."""
        commit(comm, self.progress, rest=self._wait)

    def close(self, *, failed: bool) -> None:
        """Forget the sums that were under way."""
        self._under_way = []

    def _wait(self) -> None:
        for mean, job in self._under_way:
            with self.progress.spent.wire():
                mean.wait()
                job.values.write_back()
        self._under_way.clear()
