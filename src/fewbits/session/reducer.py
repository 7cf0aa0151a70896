"""The mean of jobs over all ranks, compressed in overlapping pieces."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy.typing as npt

from fewbits.collectives.correction import FeedbackState
from fewbits.collectives.gather import Gather
from fewbits.collectives.hierarchical import Hierarchical
from fewbits.collectives.overlap import Overlap
from fewbits.collectives.owned import Sharded, Star
from fewbits.collectives.progress import RankProgress
from fewbits.collectives.promises import Promises
from fewbits.collectives.reduction import Reduction, ReductionTask, commit, give_up
from fewbits.core.vector import Vector
from fewbits.errors import SpecError
from fewbits.feedback.store import Store
from fewbits.rng import Rng
from fewbits.session.adapter import SessionComm
from fewbits.session.jobs import Job
from fewbits.session.joining import Joiner
from fewbits.session.options import Options
from fewbits.session.routing import Routing, cut
from fewbits.session.sizes import ExchangeSizes
from fewbits.switch.job import Switching

JobPieces = Sequence[tuple[slice, Reduction]]
"""Parts of a job that are reduced one after the other."""

_REDUCTIONS: dict[str, Callable[[ReductionTask], Reduction]]
_REDUCTIONS = {"sharded": Sharded, "star": Star, "gather": Gather}


class Reducer(ABC):
    """Takes the jobs of a step one after the other; the means are in place after `end_step`."""

    is_light = False  # `start` only begins what then goes on by itself
    works_alone = False  # also where there is one rank only

    def __init__(self, routing: Routing, progress: RankProgress) -> None:
        self.routing, self.progress = routing, progress
        self.feedback = FeedbackState(routing.feedback, Store()) if routing.feedback else None
        self.promises = Promises()

    @property
    def specs(self) -> tuple[str, str]:
        """The specs of uplink and downlink."""
        return self.routing.specs

    def plain_bytes(self, job: Job, ranks: int) -> int:
        """Bytes that each rank would send for a job without compression, in a ring.

        With nodes, what it would send to other nodes if these averaged their means in a ring.
        """
        if (nodes := self.routing.nodes) is not None:
            return 2 * (nodes.count - 1) * job.values.nbytes // (nodes.count * nodes.width)
        return 2 * (ranks - 1) * job.values.nbytes // ranks

    @abstractmethod
    def start(self, job: Job, comm: SessionComm) -> None:
        """Begin with a job."""

    @abstractmethod
    def end_step(self, comm: SessionComm) -> None:
        """Wait for all jobs of the step and for the last header of all ranks."""

    @abstractmethod
    def close(self, *, failed: bool) -> None:
        """Forget the buffers and promises of a group that is gone."""

    def prepare(self, comm: SessionComm) -> None:
        """Get ready for a group."""
        self.promises = Promises()  # those of an earlier group went with it
        self.routing.share(comm.size)

    def announce(self, job: Job) -> None:
        """Put this rank's knowledge of a job into the next headers."""
        self.progress.parameter_digest = job.digest()
        self.progress.without_inputs = job.without_inputs
        self.progress.unused = frozenset(job.unused)


class Compressed(Reducer):
    """Averages with an operator for each direction, by one of the collectives."""

    def __init__(
        self,
        routing: Routing,
        progress: RankProgress,
        options: Options,
        rng: Rng,
        switching: Switching | None = None,
    ) -> None:
        super().__init__(routing, progress)
        self.threads, self.rng, self.overlap = options.threads, rng, Overlap()
        self._collective = options.collective
        self._reduction = _REDUCTIONS.get(options.collective)
        self._switching = switching
        self._known: dict[int, tuple[object, JobPieces]] = {}
        self._joiner, self.sizes = Joiner(), ExchangeSizes()
        self._abandoned: list[Overlap] = []  # other ranks may still write to their buffers

    def prepare(self, comm: SessionComm) -> None:
        """Get ready for a group, and join its aggregators."""
        super().prepare(comm)
        self.sizes = ExchangeSizes()  # of another link
        if self._switching is not None and comm.size > 1:
            self._reduction = self._switching.join(comm, comm.timeout)

    def start(self, job: Job, comm: SessionComm) -> None:
        """Begin the reduction of a job, if it need not wait for others, and continue the rest."""
        for own in self._joiner.add(job, self.sizes.join):
            self._start(own, comm)

    def _start(self, job: Job, comm: SessionComm) -> None:
        """Begin the reduction of a job, piece by piece, and continue those before it."""
        self.begin(job, *self.prepared(job, comm))

    def begin(self, job: Job, values: Vector, pieces: JobPieces) -> None:
        """Begin with the pieces of a job, and continue those before it."""

        def arrived(part: slice, mean: npt.NDArray[Any]) -> None:
            with self.progress.spent.codec():
                job.values.write(part, mean)

        for part, reduction in pieces:
            hops = reduction.hops(values.bits[part], self.rng, self.progress)
            self.overlap.add(hops, partial(arrived, part))
        self.overlap.advance()  # the second hop of the last piece need not wait for more jobs

    def prepared(self, job: Job, comm: SessionComm) -> tuple[Vector, JobPieces]:
        """The job's values, with 32 bits or more for memories, and its pieces."""
        try:
            self._refuse_unused(job)
            values = job.values.read(wide=self.widens(job))
            pieces = self._pieces(job, values, comm)
            self.announce(job)
        except Exception as error:  # a user's policy, or too little memory for the buffers
            give_up(comm, self.progress, error)
        return values, pieces

    def widens(self, job: Job) -> bool:
        """Whether a job's values need the format of memories."""
        return self.feedback is not None

    def end_step(self, comm: SessionComm) -> None:
        """Finish all hops, then exchange the last headers."""
        for job in self._joiner.rest():
            self._start(job, comm)
        self.overlap.finish()
        batches, joiner = self.progress.sequence, self._joiner
        commit(comm, self.progress)
        values = joiner.values
        joiner.end_step()
        if self._switching is None and self.sizes.end_step(comm, self.progress, values, batches):
            self._known.clear()  # cut and joined otherwise

    def close(self, *, failed: bool) -> None:
        """Forget the buffers, or after a failure keep those that may still be written to."""
        if failed:
            self._abandoned.append(self.overlap)
        self.overlap = Overlap()
        self._joiner = Joiner()
        self._known.clear()
        if self._switching is not None:
            self._switching.leave()

    def _pieces(self, job: Job, values: Vector, comm: SessionComm) -> JobPieces:
        """The job's buffers and tables, made anew when it has other parameters."""
        routing = self.routing
        reduction = self._reduction if routing.nodes is None else Hierarchical
        assert reduction is not None

        def make() -> JobPieces:
            units = routing.units(job.parameters, values.count)
            pieces = cut(units, comm.size, routing.unit, self.sizes.piece)
            return [(part, reduction(self.task(own, values, comm))) for part, own in pieces]

        return self.kept(job.index, (values.format, values.count, tuple(job.parameters)), make)

    def task(self, units: Sequence[Any], values: Vector, comm: SessionComm) -> ReductionTask:
        nodes = self.routing.nodes
        return ReductionTask(units, values.format, comm, self.threads, self.feedback, nodes=nodes)

    def _refuse_unused(self, job: Job) -> None:
        """Refuse what a node cannot know: whether any of its ranks has a gradient to remember."""
        if self.routing.nodes is None or self.feedback is None or job.without_inputs:
            return
        for name in job.unused:
            raise SpecError(
                f"{name} has no gradient on this rank: with across= and feedback every parameter "
                "needs one on every rank; use an unbiased operator without feedback"
            )

    def kept(self, index: int, identity: object, make: Callable[[], JobPieces]) -> JobPieces:
        """The pieces of a job from the last step, or new ones if its identity has changed."""
        known = self._known.get(index)
        if known is None or known[0] != identity:
            known = self._known[index] = identity, make()
        return known[1]
