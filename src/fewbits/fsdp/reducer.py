"""The mean of a rank's shards: compressed on the way to the rank that keeps them."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fewbits.core import vector
from fewbits.exchange.jobs import Job
from fewbits.exchange.reducer import Compressed, Pieces
from fewbits.fsdp.shards import Layout
from fewbits.kernels.units import Tally
from fewbits.links.torch_comm import TorchComm
from fewbits.schemes.reduction import guarded
from fewbits.schemes.scatter import Scatter


@dataclass(slots=True)
class Shards(Job):
    """A vector with a row for each rank: this rank's row of the mean, or sum, goes to `output`."""

    output: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    find: Any = None  # finds the layout of a vector of so many elements
    sums: bool = False
    factor: float = 1.0  # of the result


class Scattering(Compressed):
    """With an operator, in one hop."""

    @property
    def specs(self) -> tuple[str, str]:
        """Nothing is sent back."""
        return self.planner.worker.spec, "none"

    def start(self, job: Job, comm: TorchComm) -> None:
        """The whole reduction of a group: FSDP uses the result at once."""
        assert isinstance(job, Shards)
        _, values, pieces = self.prepared(job, comm)
        rows = values.bits.reshape(comm.size, -1)

        def arrived(place: torch.Tensor, means: npt.NDArray[Any]) -> None:
            first = comm.rank * place.numel()
            own = torch.from_numpy(means[first : first + place.numel()])
            guarded(lambda: _copy(place, own), self.progress)

        for columns, reduction in pieces:
            with self.progress.spent.codec():  # a copy, unless the group is a single piece
                part = np.ascontiguousarray(rows[:, columns]).reshape(-1)
            hops = reduction.hops(part, self._rng, self.progress)
            self._overlap.add(hops, partial(arrived, job.output[columns]))
        self._overlap.finish()
        factor = job.factor * (comm.size if job.sums and self.loop else 1)
        if factor != 1:
            job.output.mul_(factor)

    def _announce(self, job: Job) -> None:
        """Nothing: every rank has other parameters."""

    def _pieces(self, job: Job, values: vector.Vector, comm: TorchComm) -> Pieces:
        """The group's buffers and tables, made anew when other parameters take part."""
        assert isinstance(job, Shards)
        layout: Layout = job.find(job.tensor.numel(), comm.size)
        identity = (values.format, layout, job.sums)
        known = self._known.get(job.index)
        if known is None or known[0] != identity:
            divisor = 1 if job.sums else comm.size
            format, threads, loop = values.format, self._threads, self.loop
            pieces = [
                (columns, Scatter(units, format, comm, threads, loop, divisor))
                for columns, units in layout.pieces(self.planner)
            ]
            known = self._known[job.index] = identity, pieces
        return known[1]


def _copy(place: torch.Tensor, values: torch.Tensor) -> Tally:
    """Copy values; to 16 bits an overflow becomes infinite.

    The last shard may be filled up beyond the last unit, where the totals end.
    """
    count = values.numel()
    place[:count].copy_(values)
    place[count:].zero_()
    return Tally()
