"""Averages shards: gradients are compressed on the way to the rank that keeps the shard."""

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits.collectives.progress import RankProgress
from fewbits.collectives.reduction import commit, guarded
from fewbits.collectives.scatter import Scatter
from fewbits.core.vector import Vector
from fewbits.reference.tally import Tally
from fewbits.rng import Rng
from fewbits.session.adapter import SessionComm
from fewbits.session.jobs import Job, JobValues, ScatterJob
from fewbits.session.options import Options
from fewbits.session.reducer import Compressed, JobPieces
from fewbits.session.routing import Routing


class Scattering(Compressed):
    """Reduces and scatters with one operator, in one hop."""

    works_alone = True

    def __init__(
        self, routing: Routing, progress: RankProgress, options: Options, rng: Rng
    ) -> None:
        super().__init__(routing, progress, options, rng)
        self._nonfinite_means = 0  # of this step, which only this rank knows

    @property
    def specs(self) -> tuple[str, str]:
        return self.routing.uplink.spec, "none"

    def plain_bytes(self, job: Job, ranks: int) -> int:
        """Bytes that a reduce-scatter would send, in a ring."""
        return (ranks - 1) * _scatter(job).result.nbytes

    def start(self, job: Job, comm: SessionComm) -> None:
        """Do the whole reduction of a job, whose result is used at once."""
        job = _scatter(job)
        values, pieces = self.prepared(job, comm)
        rows = values.bits.reshape(comm.size, -1)

        def arrived(columns: slice, means: npt.NDArray[Any]) -> None:
            width = columns.stop - columns.start
            own = means[comm.rank * width : (comm.rank + 1) * width]
            guarded(lambda: _written(job.result, columns, own), self.progress)

        for columns, reduction in pieces:
            with self.progress.spent.codec():  # a copy, unless the job is a single piece
                part = np.ascontiguousarray(rows[:, columns]).reshape(-1)
            hops = reduction.hops(part, self.rng, self.progress)
            self.overlap.add(hops, partial(arrived, columns))
        self.overlap.finish()
        factor = job.factor * (comm.size if job.sums and self.feedback else 1)
        if factor != 1:
            job.result.multiply(factor)
        if self.feedback is not None or self.progress.nonfinite != "propagate":
            self._nonfinite_means += not job.result.is_finite()

    def end_step(self, comm: SessionComm) -> None:
        """Tell the other ranks whether this rank's means are finite."""
        commit(comm, self.progress, self._nonfinite_means)
        self._nonfinite_means = 0

    def close(self, *, failed: bool) -> None:
        super().close(failed=failed)
        self._nonfinite_means = 0

    def announce(self, job: Job) -> None:
        """Announce nothing, because every rank has other parameters."""

    def _pieces(self, job: Job, values: Vector, comm: SessionComm) -> JobPieces:
        """The job's buffers and tables, made anew when other parameters take part."""
        job = _scatter(job)
        layout = job.layout(job.values.count, comm.size)
        divisor = 1 if job.sums else comm.size

        def make() -> JobPieces:
            pieces = layout.pieces(self.routing)
            return [(part, Scatter(self.task(own, values, comm), divisor)) for part, own in pieces]

        return self.kept(job.index, (values.format, layout, job.sums), make)


def _scatter(job: Job) -> ScatterJob:
    assert isinstance(job, ScatterJob)
    return job


def _written(result: JobValues, columns: slice, own: npt.NDArray[Any]) -> Tally:
    """Copy values. The last shard may be filled up beyond the last unit, where the totals end."""
    end = columns.start + own.size
    result.write(slice(columns.start, end), own)
    if end < columns.stop:
        result.write(slice(end, columns.stop), np.zeros(columns.stop - end, own.dtype))
    return Tally()
