"""The mean of jobs over all ranks: compressed in overlapping pieces, or by plain all-reduce."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy.typing as npt
import torch

from fewbits.core import vector
from fewbits.exchange import jobs
from fewbits.exchange.jobs import Job
from fewbits.exchange.plan import Planner, cut
from fewbits.exchange.switching import SWITCH, Switching
from fewbits.links.torch_comm import TorchComm
from fewbits.rng import Rng
from fewbits.schemes.correction import Loop
from fewbits.schemes.gather import Gather
from fewbits.schemes.overlap import Overlap
from fewbits.schemes.owned import Sharded, Star
from fewbits.schemes.promises import Promises
from fewbits.schemes.reduction import Progress, Reduction, commit, give_up
from fewbits.schemes.switched import Switched
from fewbits.schemes.units import total_format

Pieces = Sequence[tuple[slice, Reduction]]
"""Parts of a job that are reduced one after the other."""

SCHEMES: dict[str, Callable[..., Reduction]] = {
    "sharded": Sharded,
    "star": Star,
    "gather": Gather,
    SWITCH: Switched,
}


class Reducer(ABC):
    """Takes the jobs of a step one after the other; the means are in place after `end_step`."""

    is_light = False  # `start` only begins what then goes on by itself

    def __init__(self, planner: Planner, loop: Loop | None, progress: Progress) -> None:
        self.planner, self.loop, self.progress = planner, loop, progress
        self.promises = Promises()

    @property
    def specs(self) -> tuple[str, str]:
        """What compresses on the way there and back."""
        return self.planner.worker.spec, self.planner.master.spec

    @abstractmethod
    def start(self, job: Job, comm: TorchComm) -> None:
        """Begin with a job."""

    @abstractmethod
    def end_step(self, comm: TorchComm) -> None:
        """Wait for all jobs of the step and for all ranks' word that they got this far."""

    @abstractmethod
    def close(self, *, failed: bool) -> None:
        """Forget what belongs to a group that is gone."""

    def prepare(self, comm: TorchComm) -> None:
        """Get ready for a group."""
        self.promises = Promises()  # those of an earlier group went with it
        self.planner.share(comm.size)

    def _announce(self, job: Job) -> None:
        self.progress.replica = jobs.replica(job)
        self.progress.idle = job.idle
        self.progress.unused = frozenset(map(self.planner.names, job.unused))


class Compressed(Reducer):
    """With an operator for each direction, over one of the schemes."""

    def __init__(
        self,
        planner: Planner,
        loop: Loop | None,
        progress: Progress,
        scheme: str,
        threads: int,
        rng: Rng,
        switching: Switching | None = None,
    ) -> None:
        super().__init__(planner, loop, progress)
        self._scheme, self._threads, self._rng = SCHEMES[scheme], threads, rng
        self._switching = switching
        self._known: dict[int, tuple[Any, Pieces]] = {}
        self._overlap = Overlap()
        self._abandoned: list[Overlap] = []  # other ranks may still write to their buffers

    def prepare(self, comm: TorchComm) -> None:
        """Get ready for a group, and join its aggregators."""
        super().prepare(comm)
        if self._switching is not None and comm.size > 1:
            self._scheme = partial(Switched, **self._switching.join(comm))

    def start(self, job: Job, comm: TorchComm) -> None:
        """Begin the reduction of a job, piece by piece, and go on with those before it."""
        host, values, pieces = self.prepared(job, comm)
        in_place = host.element_size() >= 4 and values.format == total_format(values.format)

        def arrived(part: slice, mean: npt.NDArray[Any]) -> None:
            if not in_place:  # to 16 bits: an overflow must become infinite
                with self.progress.spent.codec():
                    host[part].copy_(torch.from_numpy(mean))
            if host is not job.tensor:
                job.tensor[part].copy_(host[part])

        for part, reduction in pieces:
            hops = reduction.hops(values.bits[part], self._rng, self.progress)
            self._overlap.add(hops, partial(arrived, part))
        self._overlap.advance()  # the second hop of the last piece need not wait for more jobs

    def prepared(self, job: Job, comm: TorchComm) -> tuple[torch.Tensor, vector.Vector, Pieces]:
        """The job's tensor on the host, its values, with 32 bits for memories, and its pieces."""
        try:
            host = jobs.to_host(job)
            # Memories have 32 bits or more, and so have the gradients that they are added to.
            wide = host.float() if self.loop and host.element_size() < 4 else host
            values, _ = vector.from_array(wide)
            pieces = self._pieces(job, values, comm)
            self._announce(job)
        except Exception as error:  # a user's policy, or too little memory for the buffers
            give_up(comm, self.progress, error)
        return host, values, pieces

    def end_step(self, comm: TorchComm) -> None:
        """The hops that are left, then the ranks' word."""
        self._overlap.finish()
        commit(comm, self.progress)

    def close(self, *, failed: bool) -> None:
        """Forget the buffers, or after a failure keep those that may still be written to."""
        if failed:
            self._abandoned.append(self._overlap)
        self._overlap = Overlap()
        self._known.clear()
        if self._switching is not None:
            self._switching.leave()

    def _pieces(self, job: Job, values: vector.Vector, comm: TorchComm) -> Pieces:
        """The job's buffers and tables, made anew when DDP rebuilds its buckets."""
        identity = (values.format, tuple(map(id, job.parameters)))
        known = self._known.get(job.index)
        if known is None or known[0] != identity:
            pieces = [
                (part, self._scheme(units, values.format, comm, self._threads, self.loop))
                for part, units in cut(self.planner.units(job.parameters), comm.size)
            ]
            known = self._known[job.index] = identity, pieces
        return known[1]
