"""One run: a model trained on several ranks of this process, measured after every epoch."""

import math
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from fewbits.policy import Default
from fewbits.train import data
from fewbits_lab.training import models, plan, ranks
from fewbits_lab.training.plan import TrainingContender, TrainingRun, TrainingTask
from fewbits_lab.training.ranks import Ranks

_MOMENTUM = 0.9
_DRAWN = 1  # the seed of the subset, whatever that of the run


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Where a run is after an epoch: everything is since the start, and of one rank on average.

    Seconds are processor time. `finite` is False where the run diverged and was ended.
    """

    parameters: int
    epoch: int
    train_loss: float | None
    test_loss: float | None
    accuracy: float
    sent_bytes: int
    busiest_bytes: int
    steps: int
    compute_seconds: float
    codec_seconds: float

    @property
    def finite(self) -> bool:
        """Whether the losses are numbers."""
        return self.train_loss is not None and self.test_loss is not None


def run(job: TrainingRun) -> list[CurvePoint]:
    """Train once, on one thread; equal jobs give equal points but for the seconds."""
    dataset = loaded(job.source, job.task.samples, job.task.tested)
    with _one_thread():
        torch.manual_seed(job.seed)
        net = models.build(job.task.model, dataset)
        exchange = _exchange(net, job.contender, job.seed)
        try:
            return list(_epochs(Trainer(net, dataset, job, exchange)))
        finally:
            if exchange is not None:
                exchange.close()


def _epochs(trainer: "Trainer") -> Iterator[CurvePoint]:
    for epoch in range(trainer.task.epochs):
        point = trainer.epoch(epoch)
        yield point
        if not point.finite:
            return


class Trainer:
    """A model, its optimizer and what was spent so far."""

    def __init__(
        self, net: nn.Module, dataset: data.Dataset, job: TrainingRun, exchange: Ranks | None
    ) -> None:
        self.net, self.dataset, self.task, self.seed = net, dataset, job.task, job.seed
        self._exchange = exchange
        steps = self.task.epochs * (len(dataset.train.inputs) // self.task.batch)
        self._optimizer = _optimizer(net, self.task, job.contender.slower)
        self._schedule = torch.optim.lr_scheduler.LambdaLR(
            self._optimizer, lambda done: 1 - done / steps
        )
        self._steps, self._seconds = 0, 0.0

    def epoch(self, number: int) -> CurvePoint:
        """All steps of one epoch, then the test."""
        losses: list[float] = []
        count = len(self.dataset.train.inputs)
        for batch in data.order(self.seed, number, count, self.task.batch):
            self._step(batch, losses)
            if not math.isfinite(losses[-1]):
                break
        found = ranks.tested(self.net, self.dataset)
        mean, busiest, codec = self._spent()
        return CurvePoint(
            models.parameters(self.net), number + 1, _finite(float(np.mean(losses))),
            _finite(found.loss), found.accuracy, mean, busiest, self._steps,
            round(self._seconds / plan.RANKS, 3), round(codec, 3),
        )  # fmt: skip

    def _step(self, batch: data.DataArray, losses: list[float]) -> None:
        """Each rank's gradient in turn; the optimizer's work is what every rank has to do."""
        began = time.thread_time()
        shares = batch.reshape(plan.RANKS, -1)
        own = [ranks.gradient(self.net, self.dataset, share, into=losses) for share in shares]
        self._seconds += time.thread_time() - began
        mean = _sum(own) / plan.RANKS if self._exchange is None else self._exchange.mean(own)
        began = time.thread_time()
        ranks.step(self.net, self._optimizer, mean)
        self._seconds += plan.RANKS * (time.thread_time() - began)
        self._schedule.step()
        self._steps += 1

    def _spent(self) -> tuple[int, int, float]:
        """Bytes of a rank on average, of the busiest one, and seconds of coding."""
        if self._exchange is None:
            sent = plain_bytes(models.parameters(self.net)) * self._steps
            return sent, sent, 0.0
        sides = self._exchange.sent()
        codec = sum(own.codec_cpu_seconds for own in self._exchange.reports())
        return sum(sides) // plan.RANKS, max(sides), codec / plan.RANKS


def plain_bytes(parameters: int) -> int:
    """What a rank sends for a ring all-reduce of float32: a formula, the only one among bytes."""
    return round(4 * parameters * 2 * (plan.RANKS - 1) / plan.RANKS)


def _sum(gradients: list[Tensor]) -> Tensor:
    total = torch.zeros_like(gradients[0])
    for own in gradients:
        total += own
    return total


def _exchange(net: nn.Module, contender: TrainingContender, seed: int) -> Ranks | None:
    if contender.name == plan.TRAINING_PLAIN:
        return None
    # The paper compresses everything. Vectors, under one per cent of the values, go exact here.
    return Ranks(
        net,
        plan.RANKS,
        contender.worker,
        contender.master,
        policy=Default(small=0),
        feedback=contender.feedback,
        seed=seed,
    )


def _optimizer(net: nn.Module, task: TrainingTask, slower: float) -> torch.optim.Optimizer:
    rate = task.rate * slower
    if task.optimizer == "adam":
        return torch.optim.AdamW(net.parameters(), rate)
    return torch.optim.SGD(net.parameters(), rate, _MOMENTUM, weight_decay=task.decay)


@cache
def loaded(source: str, samples: int, tested: int) -> data.Dataset:
    """So many samples of both sets, read once in each process."""
    whole = data.load(source)
    return replace(whole, train=_some(whole.train, samples), test=_some(whole.test, tested))


def _some(split: data.LabelledSamples, count: int) -> data.LabelledSamples:
    """Drawn once for all runs: files may be sorted by class."""
    chosen = np.random.default_rng(_DRAWN).permutation(len(split.inputs))[:count]
    return data.LabelledSamples(split.inputs[chosen], split.targets[chosen])


def _finite(value: float) -> float | None:
    return round(value, 5) if math.isfinite(value) else None


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums have one order then; warnings of bias are not for whoever compares on purpose."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_num_threads(before)
