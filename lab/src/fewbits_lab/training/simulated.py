"""Training on several ranks in one process: all of the adapters but torch's transport.

Under DDP the ranks are those of `ranks`. Ranks that train alone have a model each: a `LocalSGD` of
its own, with its routing and its counted bytes, in a thread; `LocalComm` carries the
bytes. `test_local_sgd_evidence.py` shows that parameters are those of real processes.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from torch import nn

from fewbits.collectives.comm import LocalComm
from fewbits.localsgd import LocalReport, LocalSGD
from fewbits.train import data
from fewbits_lab.training import ranks
from fewbits_lab.training.ranks import Ranks, gradient, step

__all__ = ["Locals", "Ranks", "gradient", "step", "tested"]


class Locals:
    """The LocalSGD objects of all ranks, for one model each."""

    def __init__(self, nets: Sequence[nn.Module], operator: str, **options: Any) -> None:
        comms = LocalComm.group(len(nets))
        self.sides = [
            LocalSGD(net, operator, comm=comm, **options)
            for net, comm in zip(nets, comms, strict=True)
        ]
        self._threads = ThreadPoolExecutor(len(nets))
        list(self._threads.map(self._begin, self.sides))

    def step(self) -> bool:
        """A local step was taken on every rank; whether a round has ended."""
        first, *_ = self._threads.map(LocalSGD.step, self.sides)
        return first

    def sync(self) -> None:
        """End the round."""
        list(self._threads.map(LocalSGD.sync, self.sides))

    def settle(self) -> None:
        """Wait until what is under way has arrived, so that reports count it."""
        list(self._threads.map(LocalSGD.state_dict, self.sides))

    def reports(self) -> list[LocalReport]:
        """The reports of each rank."""
        return [side.report() for side in self.sides]

    def close(self) -> None:
        """End the threads."""
        for side in self.sides:
            side.close()
        self._threads.shutdown()

    @staticmethod
    def _begin(side: LocalSGD) -> None:
        side.start()
        side.share_start()


def tested(net: nn.Module, dataset: data.Dataset) -> float:
    """The share of the test set that the model gets right."""
    return ranks.tested(net, dataset).accuracy
