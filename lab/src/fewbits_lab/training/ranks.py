"""Data-parallel training on several ranks of one process: all of the DDP adapter but its transport.

Each rank is a session of its own, with its routing, its collective, its memories and its counted
bytes, in a thread; `LocalComm` carries the bytes. Replicas are equal bit for bit, so there is one
model. `test_feedback_evidence.py` shows that its parameters are those of real processes.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Unpack

import torch
from torch import Tensor, nn

from fewbits.collectives.comm import LocalComm
from fewbits.session import (
    AdapterParts,
    GradientOptions,
    Job,
    ModelParameter,
    ModelParameters,
    Options,
    Report,
    Session,
)
from fewbits.session.defaults import routes
from fewbits.session.routing import Routing
from fewbits.train import data
from fewbits.transport.tensors import TensorValues

_TESTED_AT_ONCE = 500
_PATIENCE = (
    86_400.0  # seconds: a thread does not vanish, but its process may be stopped for a while
)


class Ranks:
    """What turns the ranks' gradients of a model into the mean that all of them get."""

    def __init__(
        self,
        net: nn.Module,
        ranks: int,
        uplink: str,
        downlink: str | None = None,
        **options: Unpack[GradientOptions],
    ) -> None:
        given = [
            ModelParameter(name, tuple(own.shape), own.requires_grad)
            for name, own in net.named_parameters()
        ]
        self._trained = [each for each in given if each.is_trained]
        chosen = Options.of(options)
        self.sessions = [
            Session(
                comm,
                _routing(uplink, downlink, chosen, ModelParameters(given)),
                chosen,
                AdapterParts(has_thread=False),
            )
            for comm in LocalComm.group(ranks, timeout=_PATIENCE)
        ]
        self._threads = ThreadPoolExecutor(ranks)
        list(self._threads.map(Session.start, self.sessions))

    def mean(self, gradients: Sequence[Tensor]) -> Tensor:
        """The mean of flat gradients, one of each rank; they are overwritten."""
        list(self._threads.map(self._reduce, self.sessions, gradients))
        return gradients[0]

    def reports(self) -> list[Report]:
        """Of each rank."""
        return [Report(**session.figures()) for session in self.sessions]

    def sent(self) -> list[int]:
        """Bytes that each rank has sent, headers included."""
        return [own.payload_bytes + own.header_bytes for own in self.reports()]

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()

    def _reduce(self, session: Session, gradient: Tensor) -> None:
        session.submit(Job(0, TensorValues(gradient), self._trained, is_last=True))


def _routing(
    uplink: str, downlink: str | None, options: Options, model: ModelParameters
) -> Routing:
    """What DDP would take."""
    found = routes(uplink, downlink, options, model)
    assert isinstance(found, Routing), "auto measures a link, and here is none"
    return found


def gradient(
    net: nn.Module,
    dataset: data.Dataset,
    chosen: data.DataArray,
    *,
    into: list[float] | None = None,
) -> Tensor:
    """The flat gradient of the chosen samples' loss, which `into` receives."""
    inputs, targets = dataset.batch(dataset.train, chosen)
    net.zero_grad(set_to_none=True)
    loss = nn.functional.cross_entropy(_scores(net, inputs), torch.from_numpy(targets))
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


class Tested(NamedTuple):
    """The mean loss, and the share of predictions that are right."""

    loss: float
    accuracy: float


@torch.no_grad()
def tested(net: nn.Module, dataset: data.Dataset) -> Tested:
    """What the model makes of the test set; norms take the statistics of training."""
    right, loss, count = 0, 0.0, len(dataset.test.targets)
    net.eval()
    for start in range(0, count, _TESTED_AT_ONCE):
        chosen = slice(start, min(start + _TESTED_AT_ONCE, count))
        inputs, own = dataset.batch(dataset.test, chosen)  # type: ignore[arg-type]
        targets, scores = torch.from_numpy(own), _scores(net, inputs)
        loss += float(nn.functional.cross_entropy(scores, targets, reduction="sum"))
        right += int((scores.argmax(1) == targets).sum())
    net.train()
    return Tested(loss / dataset.test.targets.size, right / dataset.test.targets.size)


def _scores(net: nn.Module, inputs: data.DataArray) -> Tensor:
    """Classes in the second dimension, as torch wants them; text has a target at every place."""
    scores: Tensor = net(torch.from_numpy(inputs))
    return scores.movedim(-1, 1)
