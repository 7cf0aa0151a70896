"""Training that keeps the gradients of some steps, layer by layer. Needs torch."""

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from fewbits.train import data, models
from fewbits_lab.vectors import VectorValues

BATCH = 64  # images
TEXTS = 16  # sequences
_RATE, _TEXT_RATE, _MOMENTUM = 0.05, 1e-3, 0.9

Batches = Iterator[tuple[Tensor, Tensor]]


class RecordedStep(NamedTuple):
    """A step of training: its loss, and its gradients by parameter where they were asked for."""

    number: int
    loss: float
    gradients: dict[str, VectorValues]

    @property
    def vector(self) -> VectorValues:
        """All gradients, parameters in the model's order."""
        return np.concatenate([own.ravel() for own in self.gradients.values()])


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, batches: Batches, keep: Collection[int]
) -> Iterator[RecordedStep]:
    """Every step up to the last of `keep`; the parameters change when the next one is asked for."""
    for number in range(1, max(keep) + 1):
        inputs, targets = next(batches)
        optimizer.zero_grad()
        # Text has a target for every place: classes go to the second dimension, as torch wants.
        loss = nn.functional.cross_entropy(model(inputs).movedim(-1, 1), targets)
        loss.backward()  # type: ignore[no-untyped-call]
        yield RecordedStep(number, loss.item(), _gradients(model) if number in keep else {})
        optimizer.step()


def _gradients(model: nn.Module) -> dict[str, VectorValues]:
    return {
        name: own.grad.numpy().copy()
        for name, own in model.named_parameters()
        if own.grad is not None
    }


def record(
    model: str, dataset: data.Dataset, keep: Collection[int], seed: int
) -> list[RecordedStep]:
    """The steps of `keep` of one of the models of `fewbits train`."""
    threads, state = torch.get_num_threads(), torch.random.get_rng_state()
    # One thread: sums have one order, so that equal settings give equal gradients.
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    try:
        net = models.build(model, dataset)
        steps = train(net, _optimizer(net, dataset), shuffled(dataset, seed), keep)
        return [step for step in steps if step.gradients]
    finally:
        torch.set_num_threads(threads)
        torch.random.set_rng_state(state)


def _optimizer(net: nn.Module, dataset: data.Dataset) -> torch.optim.Optimizer:
    if dataset.is_text:
        return torch.optim.AdamW(net.parameters(), _TEXT_RATE)
    return torch.optim.SGD(net.parameters(), _RATE, momentum=_MOMENTUM)


def shuffled(dataset: data.Dataset, seed: int, size: int | None = None) -> Batches:
    """Batches without end, in another order each time through."""
    size = size or (TEXTS if dataset.is_text else BATCH)
    epoch = 0
    while True:
        for chosen in data.order(seed, epoch, len(dataset.train.inputs), size):
            inputs, targets = dataset.batch(dataset.train, chosen)
            yield torch.from_numpy(inputs), torch.from_numpy(targets)
        epoch += 1


def bundled_text(letters: int) -> str:
    """The source of Python's standard library, modules in order of name, up to so many letters."""
    parts, length = [], 0
    for path in sorted(Path(os.__file__).parent.glob("*.py")):
        parts.append(path.read_text(encoding="utf-8", errors="replace"))
        length += len(parts[-1])
        if length >= letters:
            break
    return "".join(parts)[:letters]
