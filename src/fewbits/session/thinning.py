"""Reduces matrices as factors, those of many jobs in the same messages.

Factors of millions of values are a few kilobytes, and every exchange of messages costs a header and
a wait. So jobs wait for others until there is enough to send, in any case for the last one.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy.typing as npt

from fewbits.collectives.factored import Factored, exchange_of
from fewbits.collectives.reduction import give_up
from fewbits.core.vector import Vector
from fewbits.low_rank import LowRank
from fewbits.session.adapter import SessionComm
from fewbits.session.jobs import Job
from fewbits.session.joining import digest_of
from fewbits.session.reducer import Compressed
from fewbits.session.routing import ModelParameter

THIN_BATCH = 262_144  # values of factors and vectors that need not wait for more

_Array = npt.NDArray[Any]


class _Held(NamedTuple):
    """A job whose thin part waits, with its values, its digest and the size of that part."""

    job: Job
    values: Vector
    digest: int
    thin: int

    @property
    def identity(self) -> object:
        return self.values.format, self.values.count, tuple(self.job.parameters)


class Thinning(Compressed):
    """Averages matrices as factors and small tensors beside them; the rest as `Compressed` does."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._held: tuple[_Held, ...] = ()
        self._factored: dict[int, tuple[object, Factored | None]] = {}
        self._counts: dict[tuple[ModelParameter, ...], int] = {}

    def start(self, job: Job, comm: SessionComm) -> None:
        """Begin with what is no factor; with factors, once there are enough."""
        if self._held and self._held[0].job.values.dtype != job.values.dtype:
            self._start_held(comm)
        values, pieces = self.prepared(job, comm)
        held = _Held(job, values, self.progress.parameter_digest, self._thin_values(job))
        self.begin(job, values, pieces)
        self._held = *self._held, held
        if job.is_last or sum(own.thin for own in self._held) >= THIN_BATCH:
            self._start_held(comm)

    def end_step(self, comm: SessionComm) -> None:
        """Finish all hops, of jobs that still wait too."""
        self._start_held(comm)
        super().end_step(comm)

    def close(self, *, failed: bool) -> None:
        """Forget the buffers and the jobs that wait."""
        super().close(failed=failed)
        self._held = ()
        self._factored = {}

    def _thin_values(self, job: Job) -> int:
        """How many values of factors and vectors a job has; counted once."""
        parameters = tuple(job.parameters)
        if parameters not in self._counts:
            matrices = self.routing.matrices(parameters)
            vectors = self.routing.vectors(parameters)
            thin = sum(self._low_rank.rank * (each.rows + each.columns) for each in matrices)
            self._counts[parameters] = thin + sum(each.unit.count for each in vectors)
        return self._counts[parameters]

    @property
    def _low_rank(self) -> LowRank:
        assert self.routing.low_rank is not None
        return self.routing.low_rank

    def _start_held(self, comm: SessionComm) -> None:
        """Begin with the factors of the jobs that wait."""
        held, self._held = self._held, ()
        if not held:
            return
        try:
            factored = self._factored_of(held, comm)
        except Exception as error:  # too little memory for the buffers
            give_up(comm, self.progress, error)
        if factored is None:
            return
        self.progress.parameter_digest = digest_of([own.digest for own in held])
        self.progress.without_inputs = all(own.job.without_inputs for own in held)
        self.progress.unused = frozenset(name for own in held for name in own.job.unused)
        bits = [own.values.bits for own in held]
        self.overlap.add(factored.hops(bits, self.rng, self.progress), _writing(held, self))

    def _factored_of(self, held: Sequence[_Held], comm: SessionComm) -> Factored | None:
        """The exchange of these jobs' factors, that of the last step if they are the same."""
        first, identity = held[0].job.index, tuple(own.identity for own in held)
        known = self._factored.get(first)
        if known is None or known[0] != identity:
            known = self._factored[first] = identity, self._made(held, comm)
        return known[1]

    def _made(self, held: Sequence[_Held], comm: SessionComm) -> Factored | None:
        routing, parts = self.routing, [own.job.parameters for own in held]
        matrices = [each for at, own in enumerate(parts) for each in routing.matrices(own, at)]
        vectors = [each for at, own in enumerate(parts) for each in routing.vectors(own, at)]
        if not matrices and not vectors:
            return None
        exchange = exchange_of(comm.size, self._collective)
        task = self.task([], held[0].values, comm)
        return Factored(task, matrices, self._low_rank, exchange, vectors)


def _writing(held: Sequence[_Held], reducer: Compressed) -> Callable[[Sequence[_Array]], None]:
    """What writes the means of jobs to where their values came from."""

    def arrived(means: Sequence[_Array]) -> None:
        with reducer.progress.spent.codec():
            for own, mean in zip(held, means, strict=True):
                own.job.values.write(slice(0, mean.size), mean)

    return arrived
