"""One run: a model, its optimizer and its exchange of gradients, on one of the ranks."""

import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from fewbits.train import checkpoint, data, exchange, local, models
from fewbits.train.clock import StepClock
from fewbits.train.history import Epoch, History
from fewbits.train.settings import TrainSettings

Emit = Callable[[dict[str, Any]], None]
_TELL_EVERY = 0.2  # seconds between two words on progress
_TEST_BATCH = 500


class Trial:
    """The state of a run, from its first epoch or from a checkpoint."""

    def __init__(
        self, settings: TrainSettings, spec: str, dataset: data.Dataset, emit: Emit
    ) -> None:
        self.settings, self.spec, self.dataset, self.emit = settings, spec, dataset, emit
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        torch.manual_seed(settings.seed)
        self.net = models.build(settings.model, dataset)
        self.optimizer = _optimizer(self.net, settings)
        self.history = self._restored()
        self._before = _totals(self.history)
        self.clock = StepClock(self.net)
        self.model, self.exchange = self._connected()

    def run(self) -> None:
        for epoch in range(len(self.history.epochs), self.settings.epochs):
            self._train(epoch)
            self.exchange.sync()
            self._record(*self._test())
            self._save()
            self._tell("epoch", epoch, accuracy=self.history.epochs[-1].accuracy)

    def digest(self) -> str:
        """SHA-256 of all parameters in order: equal for runs that are equal bit for bit."""
        state = hashlib.sha256()
        for parameter in self.net.parameters():
            state.update(parameter.detach().numpy().tobytes())
        return state.hexdigest()

    def replicas_agree(self) -> bool:
        mine = torch.tensor([int(self.digest()[:15], 16)])
        low, high = mine.clone(), mine.clone()
        dist.all_reduce(low, dist.ReduceOp.MIN)
        dist.all_reduce(high, dist.ReduceOp.MAX)
        return bool(low == high)

    def close(self) -> None:
        self.exchange.close()

    def _connected(self) -> tuple[nn.Module, exchange.Exchange]:
        settings, spec, memories = self.settings, self.spec, self._memories()
        if settings.local_steps is not None:
            return self.net, local.attach(self.net, self.optimizer, spec, settings, memories)
        model, steps = exchange.wrapped(self.net, spec), len(self.history.losses)
        return model, exchange.attach(model, spec, settings, steps_done=steps, memories=memories)

    def _restored(self) -> History:
        folder = self.settings.folder(self.spec)
        tensors = checkpoint.read(folder) if folder and self.settings.resume else {}
        if not tensors:
            return History()
        common = self.settings.common(self.spec)
        return checkpoint.restore(tensors, self.net, self.optimizer, common)

    def _memories(self) -> Path | None:
        """The folder of all ranks' memories for the checkpoint of this step; None at the start."""
        folder, steps = self.settings.folder(self.spec), len(self.history.losses)
        return folder / f"memories-{steps}" if folder and steps else None

    def _save(self) -> None:
        """Save all ranks' memories, then rank 0's checkpoint, which refers to them."""
        folder, memories = self.settings.folder(self.spec), self._memories()
        if folder is None or memories is None:
            return
        if self.exchange.save is not None:
            self.exchange.save(memories)
            dist.barrier()
        if self.rank == 0:
            common = self.settings.common(self.spec)
            checkpoint.write(folder, self.net, self.optimizer, self.history, common)
        if self.exchange.save is not None:
            dist.barrier()
            checkpoint.forget(folder, memories)

    def _train(self, epoch: int) -> None:
        count, seed = len(self.dataset.train.inputs), self.settings.seed
        batches = data.order(seed, epoch, count, self.settings.batch_size)
        losses: list[float] = []
        before, told = len(self.clock.seconds), 0.0
        for batch in batches:
            losses.append(self._step(data.share(batch, self.rank, self.ranks)))
            if time.monotonic() > told + _TELL_EVERY:
                told = time.monotonic()
                self._tell("step", epoch, step=len(losses), steps=len(batches), loss=losses[-1])
        mean = torch.tensor(losses, dtype=torch.float64) / self.ranks
        dist.all_reduce(mean)
        self.history.losses += mean.tolist()
        self.history.seconds += self.clock.seconds[before:]
        self.history.blocked += self.clock.blocked[before:]
        self.history.worked += self.clock.worked[before:]

    def _step(self, chosen: data.DataArray) -> float:
        self.clock.start()
        inputs, targets = self._tensors(self.dataset.train, chosen)
        self.optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(self.model(inputs).flatten(0, -2), targets.flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        self.clock.backward_done()
        self.optimizer.step()
        self.clock.standing(self.exchange.step)
        self.clock.stop()
        return loss.item()

    @torch.no_grad()
    def _test(self) -> tuple[float, float]:
        sums = torch.zeros(3, dtype=torch.float64)
        for chosen in self._test_share():
            inputs, targets = self._tensors(self.dataset.test, chosen)
            logits, wanted = self.net(inputs).flatten(0, -2), targets.flatten()
            loss = nn.functional.cross_entropy(logits, wanted, reduction="sum")
            right = (logits.argmax(1) == wanted).sum()
            sums += torch.tensor([loss.item(), right.item(), wanted.numel()], dtype=torch.float64)
        dist.all_reduce(sums)
        loss_sum, right_sum, total = sums.tolist()
        return loss_sum / total, right_sum / total

    def _test_share(self) -> Iterator[data.DataArray]:
        own = np.arange(self.rank, len(self.dataset.test.inputs), self.ranks)
        for start in range(0, len(own), _TEST_BATCH):
            yield own[start : start + _TEST_BATCH]

    def _tensors(
        self, split: data.LabelledSamples, chosen: data.DataArray
    ) -> tuple[Tensor, Tensor]:
        inputs, targets = self.dataset.batch(split, chosen)
        return torch.from_numpy(inputs), torch.from_numpy(targets)

    def _record(self, test_loss: float, accuracy: float) -> None:
        """Close the epoch with the busiest rank's bytes and seconds, because all wait for it."""
        counts = self.exchange.counts(len(self.clock.seconds))
        done = self.history.epochs
        own = [counts.sent, counts.plain, counts.codec_seconds, counts.wire_seconds]
        totals = torch.tensor(own, dtype=torch.float64)
        dist.all_reduce(totals, dist.ReduceOp.MAX)
        totals += self._before
        steps = len(self.history.losses) // (len(done) + 1)
        loss = sum(self.history.losses[-steps:]) / steps
        done.append(Epoch(loss, test_loss, accuracy, *totals.tolist()))
        self.history.exchange = counts.about

    def _tell(self, event: str, epoch: int, **more: Any) -> None:
        if self.rank == 0:
            self.emit({"event": event, "epoch": epoch + 1, "epochs": self.settings.epochs, **more})


def _totals(history: History) -> Tensor:
    """Bytes and seconds of the epochs before this process began."""
    if not history.epochs:
        return torch.zeros(4, dtype=torch.float64)
    last = history.epochs[-1]
    known = [last.sent, last.plain, last.codec_seconds, last.wire_seconds]
    return torch.tensor(known, dtype=torch.float64)


def _optimizer(net: nn.Module, settings: TrainSettings) -> torch.optim.Optimizer:
    """SGD with momentum; for the language model, which hardly learns with it, AdamW."""
    if settings.model == "gpt":
        return torch.optim.AdamW(net.parameters(), settings.lr, betas=(settings.momentum, 0.95))
    return torch.optim.SGD(net.parameters(), settings.lr, settings.momentum)
