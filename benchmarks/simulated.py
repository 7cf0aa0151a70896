"""Training on several ranks in one process: all of the adapters but torch's transport.

Under DDP the ranks are those of `fewbits.lab.ranks`. Ranks that train alone have a model each: a
`LocalSGD` of its own, with its plan, its scheme and its counted bytes, in a thread; `LocalComm`
carries the bytes. `test_local_sgd_evidence.py` shows that parameters are those of real processes.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from torch import nn

from fewbits.exchange.pipeline import Pipeline
from fewbits.lab import ranks
from fewbits.lab.ranks import Ranks, gradient, step
from fewbits.localsgd import LocalReport, LocalSGD
from fewbits.schemes.comm import LocalComm
from fewbits.train import data

__all__ = ["Locals", "Ranks", "gradient", "step", "tested"]


class Locals:
    """What `fewbits.localsgd.attach` gives every rank, for one model of each."""

    def __init__(self, nets: Sequence[nn.Module], operator: str, **options: Any) -> None:
        self.sides = [LocalSGD(net, operator, **options) for net in nets]
        self._threads = ThreadPoolExecutor(len(nets))
        list(self._threads.map(self._begin, self.sides, LocalComm.group(len(nets))))

    def step(self) -> bool:
        """A local step was taken on every rank; whether a round has ended."""
        first, *_ = self._threads.map(LocalSGD.step, self.sides)
        return first

    def sync(self) -> None:
        """End the round."""
        list(self._threads.map(LocalSGD.sync, self.sides))

    def reports(self) -> list[LocalReport]:
        """Of each rank."""
        return [side.report() for side in self.sides]

    def close(self) -> None:
        """End the threads."""
        for side in self.sides:
            side._pipeline.close()  # type: ignore[union-attr]
        self._threads.shutdown()

    @staticmethod
    def _begin(side: LocalSGD, comm: LocalComm) -> None:
        side._comm = comm  # type: ignore[assignment]  # in place of torch's group
        side._begin(comm)  # type: ignore[arg-type]
        side._pipeline = Pipeline(side._reduce)
        side.share_start()


def tested(net: nn.Module, dataset: data.Dataset) -> float:
    """The share of the test set that the model gets right."""
    return ranks.tested(net, dataset).accuracy
