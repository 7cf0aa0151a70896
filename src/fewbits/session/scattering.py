"""Averages shards: gradients are compressed on the way to the rank that keeps the shard.

Where several ranks keep the same shard, its *replicas*, these average it among each other in a
second job. Then that one is compressed in both directions, and the way to the shards only if the
option `inside` names an operator.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits.collectives.payload import Unit
from fewbits.collectives.progress import RankProgress
from fewbits.collectives.reduction import Reduction, commit, guarded
from fewbits.collectives.replicas import BetweenReplicas
from fewbits.collectives.scatter import Scatter
from fewbits.core.vector import Vector
from fewbits.operators.identity import Identity
from fewbits.reference.tally import Tally
from fewbits.registry import operator
from fewbits.rng import Rng
from fewbits.session.adapter import SessionComm
from fewbits.session.jobs import Job, JobValues, ReplicaJob, ScatterJob
from fewbits.session.options import Options
from fewbits.session.reducer import Compressed, JobPieces
from fewbits.session.routing import Routing

_EXACT = Identity()


class Scattering(Compressed):
    """Reduces and scatters in one hop, and averages shards over their replicas in two."""

    works_alone = True

    def __init__(
        self, routing: Routing, progress: RankProgress, options: Options, rng: Rng
    ) -> None:
        super().__init__(routing, progress, options, rng)
        self._inside = _EXACT if options.inside is None else operator(options.inside)
        self._nonfinite_means = 0  # of this step, which only this rank knows

    @property
    def specs(self) -> tuple[str, str]:
        back = self.routing.downlink
        return self.routing.uplink.spec, "none" if back == _EXACT else back.spec

    def plain_bytes(self, job: Job, ranks: int) -> int:
        """Bytes that a reduce-scatter would send, or an all-reduce over replicas, in a ring."""
        if isinstance(job, ReplicaJob):
            replicas = len(job.peers)
            return 2 * (replicas - 1) * job.values.nbytes // replicas
        assert isinstance(job, ScatterJob)
        if job.goes_on and self.progress.near:  # it does not leave the node
            return 0
        return (len(job.peers or range(ranks)) - 1) * job.result.nbytes

    def start(self, job: Job, comm: SessionComm) -> None:
        """Do the whole reduction of a job, whose result is used at once."""
        if isinstance(job, ReplicaJob):
            self._average(job, comm)
            return
        assert isinstance(job, ScatterJob)
        self._scatter(job, comm)

    def _scatter(self, job: ScatterJob, comm: SessionComm) -> None:
        """Give each rank its row of the sum over the ranks that keep a shard each."""
        remembers = self.feedback is not None and not job.goes_on
        values, pieces = self.prepared(job, comm)
        peers = job.peers or range(comm.size)
        rows, place = values.bits.reshape(len(peers), -1), peers.index(comm.rank)
        rng = self.rng.fork(*job.stream) if job.stream else self.rng

        def arrived(columns: slice, means: npt.NDArray[Any]) -> None:
            width = columns.stop - columns.start
            own = means[place * width : (place + 1) * width]
            guarded(lambda: _written(job.result, columns, own), self.progress)

        for columns, reduction in pieces:
            with self.progress.spent.codec():  # a copy, unless the job is a single piece
                part = np.ascontiguousarray(rows[:, columns]).reshape(-1)
            hops = reduction.hops(part, rng, self.progress)
            self.overlap.add(hops, partial(arrived, columns))
        self.overlap.finish()
        factor = job.factor * (len(peers) if job.sums and remembers else 1)
        if factor != 1:
            job.result.multiply(factor)
        if not job.goes_on:
            self._look_at(job.result)

    def _average(self, job: ReplicaJob, comm: SessionComm) -> None:
        """Replace a shard by its mean or sum over all that keep it."""
        values, pieces = self.prepared(job, comm)

        def arrived(columns: slice, mean: npt.NDArray[Any]) -> None:
            guarded(lambda: _written(job.values, columns, mean), self.progress)

        for columns, reduction in pieces:
            hops = reduction.hops(values.bits[columns], self.rng.fork("replicas"), self.progress)
            self.overlap.add(hops, partial(arrived, columns))
        self.overlap.finish()
        if job.sums:
            job.values.multiply(len(job.peers))
        self._look_at(job.values)

    def _look_at(self, result: JobValues) -> None:
        if self.feedback is not None or self.progress.nonfinite != "propagate":
            self._nonfinite_means += not result.is_finite()

    def end_step(self, comm: SessionComm) -> None:
        """Tell the other ranks whether this rank's means are finite."""
        commit(comm, self.progress, self._nonfinite_means)
        self._nonfinite_means = 0

    def close(self, *, failed: bool) -> None:
        super().close(failed=failed)
        self._nonfinite_means = 0

    def announce(self, job: Job) -> None:
        """Announce nothing, because every rank has other parameters."""

    def widens(self, job: Job) -> bool:
        """Whether values need the format of memories."""
        return super().widens(job) and not (isinstance(job, ScatterJob) and job.goes_on)

    def _pieces(self, job: Job, values: Vector, comm: SessionComm) -> JobPieces:
        """The job's buffers and tables, made anew when other parameters take part."""
        if isinstance(job, ReplicaJob):
            return self._pieces_between(job, values, comm)
        assert isinstance(job, ScatterJob)
        peers = job.peers or range(comm.size)
        layout = job.layout(job.values.count, len(peers))
        divisor = 1 if job.sums else len(peers)

        def reduction(units: Sequence[Unit]) -> Reduction:
            own = [replace(unit, downlink=_EXACT) for unit in units]
            if not job.goes_on:
                return Scatter(replace(self.task(own, values, comm), peers=peers), divisor)
            own = [unit if unit.uplink == _EXACT else replace(unit, uplink=self._inside)
                   for unit in own]  # fmt: skip
            task = replace(self.task(own, values, comm), peers=peers, feedback=None)
            return Scatter(task, divisor)

        def make() -> JobPieces:
            return [(part, reduction(own)) for part, own in layout.pieces(self.routing)]

        return self.kept(job.index, (values.format, layout, job.sums), make)

    def _pieces_between(self, job: ReplicaJob, values: Vector, comm: SessionComm) -> JobPieces:
        """The same of a shard. All ranks cut alike, also those whose shards are shorter."""
        layout, place, peers = job.layout, job.place, job.peers

        def reduction(columns: slice, everyone: Sequence[Unit]) -> Reduction:
            first = place * (columns.stop - columns.start)
            own = [
                replace(unit, start=unit.start - first, shard=peers[job.owner(unit)])
                for unit in everyone
                if unit.shard == place
            ]
            task = replace(self.task(own, values, comm), peers=peers)
            return BetweenReplicas(task, everyone)

        def make() -> JobPieces:
            pieces = layout.pieces(self.routing, len(peers))
            return [(columns, reduction(columns, everyone)) for columns, everyone in pieces]

        return self.kept(-1 - job.index, (values.format, layout, peers), make)


def _written(result: JobValues, columns: slice, own: npt.NDArray[Any]) -> Tally:
    """Copy values. The last shard may be filled up beyond the last unit, where the totals end."""
    end = columns.start + own.size
    result.write(slice(columns.start, end), own)
    if end < columns.stop:
        result.write(slice(end, columns.stop), np.zeros(columns.stop - end, own.dtype))
    return Tally()
