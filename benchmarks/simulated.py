"""Training on several ranks in one process: all of the adapters but torch's transport.

Each rank is a `Compression` or a `LocalSGD` of its own, with its plan, its scheme, its memories and
its counted bytes, in a thread; `LocalComm` carries the bytes. Under DDP replicas are equal bit for
bit, so there is one model; ranks that train alone have one each. `test_feedback_evidence.py`
and `test_local_sgd_evidence.py` show that parameters are those of real processes.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor, nn

from fewbits.ddp import Compression
from fewbits.exchange.jobs import Job
from fewbits.exchange.pipeline import Pipeline
from fewbits.localsgd import LocalReport, LocalSGD
from fewbits.schemes.comm import LocalComm
from fewbits.train import data


class Ranks:
    """What turns the ranks' gradients of a model into the mean that all of them get."""

    def __init__(self, net: nn.Module, ranks: int, operator: str, **options: Any) -> None:
        self.parameters = [own for own in net.parameters() if own.requires_grad]
        self.sides = [
            Compression(operator, names=net.named_parameters(), **options) for _ in range(ranks)
        ]
        for comm, side in zip(LocalComm.group(ranks), self.sides, strict=True):
            side._comm = comm  # type: ignore[assignment]  # in place of torch's group
            side.planner.share(ranks)
        self._threads = ThreadPoolExecutor(ranks)

    def mean(self, gradients: Sequence[Tensor]) -> Tensor:
        """The mean of flat gradients, one of each rank; they are overwritten."""
        list(self._threads.map(self._reduce, self.sides, gradients))
        return gradients[0]

    def sent(self) -> list[int]:
        """Bytes that each rank has sent, headers included."""
        reports = [side.report() for side in self.sides]
        return [own.payload_bytes + own.header_bytes for own in reports]

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()

    def _reduce(self, side: Compression, gradient: Tensor) -> None:
        side._reduce(Job(0, gradient, self.parameters, is_last=True))


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


def gradient(
    net: nn.Module, dataset: data.Dataset, chosen: data.Array, *, into: list[float] | None = None
) -> Tensor:
    """The flat gradient of the chosen samples' loss, which `into` receives."""
    inputs, targets = dataset.batch(dataset.train, chosen)
    net.zero_grad(set_to_none=True)
    loss = nn.functional.cross_entropy(net(torch.from_numpy(inputs)), torch.from_numpy(targets))
    loss.backward()  # type: ignore[no-untyped-call]
    if into is not None:
        into.append(loss.item())
    return torch.cat([own.grad.reshape(-1) for own in net.parameters() if own.grad is not None])


def step(net: nn.Module, optimizer: torch.optim.Optimizer, mean: Tensor) -> None:
    """One step along the mean gradient."""
    start = 0
    for own in net.parameters():
        own.grad = mean[start : start + own.numel()].view_as(own)
        start += own.numel()
    optimizer.step()


@torch.no_grad()
def tested(net: nn.Module, dataset: data.Dataset) -> float:
    """The share of the test set that the model gets right."""
    right, count = 0, len(dataset.test.targets)
    for start in range(0, count, 1000):
        chosen = slice(start, min(start + 1000, count))
        inputs, targets = dataset.batch(dataset.test, chosen)  # type: ignore[arg-type]
        right += int((net(torch.from_numpy(inputs)).argmax(1).numpy() == targets).sum())
    return right / count
