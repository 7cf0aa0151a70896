"""LocalSGD and DiLoCo, compressed beside uncompressed: loss, bytes, replicas.

    python -m fewbits_lab.studies.local_sgd.run --data MNIST-DIR --data TEXT-DIR [--jobs 2]

trains the same model from the same start on the same batches on four ranks, with every method,
operator and seed, and appends each run to `result.json`; what is there
already is not run again. Ranks are those of `simulated.py`. Settings were fixed before the runs;
`ef14` was added when others had been seen.
"""

import argparse
import multiprocessing
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import fewbits
from fewbits.policy import SMALL, Default
from fewbits.train import data, models
from fewbits_lab import runs
from fewbits_lab.training import simulated

_RESULTS = Path(__file__).with_name("result.json")
_RANKS, LOCAL_SEEDS = 4, 3
_PLAIN, _WITH = "identity", " with "
_OPERATORS = (_PLAIN, "natural", "natural:coder=rans", "natural:coder=rans with ef14")
FRAMES_EVERY = 4  # rounds between two in which the operator's own frames are measured


@dataclass(frozen=True, slots=True)
class LocalTask:
    """How a data set is trained."""

    model: str
    steps: int
    batch_size: int  # of all ranks
    sgd_lr: float
    adam_lr: float
    test: int  # samples of the test set
    small: int = SMALL  # matrices with fewer elements travel exactly
    operators: tuple[str, ...] = _OPERATORS


@dataclass(frozen=True, slots=True)
class LocalMethod:
    """How ranks work together."""

    local_steps: int
    outer: str
    inner: str


LOCAL_TASKS = {
    "mnist": LocalTask("mlp", 300, 128, 0.05, 0.001, 10_000),
    # Without `natural`, which gives the same values as its coded form.
    "tinyshakespeare": LocalTask(
        "gpt", 160, 32, 0.0, 0.002, 400, small=4096, operators=(_PLAIN, "natural:coder=rans")
    ),
}
LOCAL_METHODS = {
    "LocalSGD": LocalMethod(8, "sgd", "sgd"),
    "DiLoCo": LocalMethod(16, "nesterov", "adamw"),
}


@dataclass(frozen=True, slots=True)
class LocalRun:
    """One run."""

    folder: str
    method: str
    operator: str
    seed: int

    @property
    def key(self) -> list[Any]:
        """What makes it another run."""
        return [Path(self.folder).name, self.method, self.operator, self.seed]


def main() -> None:
    """Run what is not in the results yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", action="append", default=[], metavar="DIR")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin nothing after them")
    options = parser.parse_args()
    known = [
        [run[k] for k in ("data", "method", "operator", "seed")] for run in runs.read(_RESULTS)
    ]
    wanted = [
        LocalRun(folder, method, operator, seed)
        for seed in range(LOCAL_SEEDS)
        for folder in options.data
        for operator in LOCAL_TASKS[Path(folder).name].operators
        for method in LOCAL_METHODS
    ]
    wanted = [job for job in wanted if job.key not in known]
    began = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for done, row in enumerate(pool.imap_unordered(run, wanted), 1):
            keep(row)
            print(f"{done}/{len(wanted)} {row}", flush=True)
            if time.monotonic() - began > 60 * options.minutes:
                pool.terminate()
                break


def keep(row: dict[str, Any]) -> None:
    """Add a run to the file."""
    about = {
        "ranks": _RANKS,
        "tasks": {name: asdict(task) for name, task in LOCAL_TASKS.items()},
        "methods": {name: asdict(method) for name, method in LOCAL_METHODS.items()},
    }
    runs.add(_RESULTS, row, about, ("data", "method", "operator", "seed"))


def run(job: LocalRun) -> dict[str, Any]:
    """Train and test once."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    began, name = time.monotonic(), Path(job.folder).name
    task, method, dataset = LOCAL_TASKS[name], LOCAL_METHODS[job.method], data.load(job.folder)
    nets = []
    for _ in range(_RANKS):
        torch.manual_seed(job.seed)
        nets.append(build(task, dataset))
    inner = [optimizer(net, task, method) for net in nets]
    operator, _, feedback = job.operator.partition(_WITH)
    ranks = simulated.Locals(
        nets, operator, local_steps=method.local_steps, outer=method.outer, seed=job.seed,
        policy=Default(task.small), feedback=feedback or None,
    )  # fmt: skip
    frames, losses, start = Frames(operator), [], vector(nets[0], task)
    for number, batch in enumerate(batches(job.seed, dataset, task), 1):
        for net, own, chosen in zip(nets, inner, batch.reshape(_RANKS, -1), strict=True):
            losses.append(local_step(net, own, dataset, chosen))
        if number % (FRAMES_EVERY * method.local_steps) == 0:
            frames.measure(
                [{k: start[k] - v for k, v in vector(net, task).items()} for net in nets]
            )
        if ranks.step():
            start = vector(nets[0], task)
    ranks.sync()
    reports = ranks.reports()
    ranks.close()
    equal = all(torch.equal(a, b) for net in nets[1:] for a, b in zip(
        net.parameters(), nets[0].parameters(), strict=True))  # fmt: skip
    sent = [own.payload_bytes + own.header_bytes for own in reports]
    return {
        "data": name, "method": job.method, "operator": job.operator, "seed": job.seed,
        **tested(nets[0], dataset, task.test),
        "training_loss": float(np.mean(losses[-4 * _RANKS * method.local_steps :])),
        "rounds": reports[0].steps, "elements": reports[0].elements,
        "exact_elements": sum(reports[0].exact.values()),
        "sent": sum(sent) / _RANKS, "busiest": max(sent), "headers": reports[0].header_bytes,
        "plain": reports[0].plain_bytes, "bits_of_frames": frames.bits, "equal": equal,
        "sha256": digest(nets[0]), "seconds": round(time.monotonic() - began, 1),
    }  # fmt: skip


def build(task: LocalTask, dataset: data.Dataset) -> nn.Module:
    """A hidden layer of 128, or a GPT of two layers."""
    if task.model == "mlp":
        pixels = int(np.prod(dataset.train.inputs.shape[1:]))
        return nn.Sequential(
            nn.Flatten(), nn.Linear(pixels, 128), nn.ReLU(), nn.Linear(128, dataset.classes)
        )
    net = models.build("gpt", dataset)
    net.layers = net.layers[:2]  # type: ignore[index]
    return net


def optimizer(net: nn.Module, task: LocalTask, method: LocalMethod) -> torch.optim.Optimizer:
    """SGD with momentum; AdamW for DiLoCo and for the language model."""
    if method.inner == "adamw" or task.model == "gpt":
        return torch.optim.AdamW(net.parameters(), task.adam_lr, betas=(0.9, 0.95))
    return torch.optim.SGD(net.parameters(), task.sgd_lr, momentum=0.9)


def batches(seed: int, dataset: data.Dataset, task: LocalTask) -> list[data.DataArray]:
    """Every step's samples, the same for every method and operator."""
    found: list[data.DataArray] = []
    epoch = 0
    while len(found) < task.steps:
        found += list(data.order(seed, epoch, len(dataset.train.inputs), task.batch_size))
        epoch += 1
    return found[: task.steps]


def local_step(
    net: nn.Module, own: torch.optim.Optimizer, dataset: data.Dataset, chosen: data.DataArray
) -> float:
    """One step of one rank."""
    inputs, targets = dataset.batch(dataset.train, chosen)
    own.zero_grad(set_to_none=True)
    logits = net(torch.from_numpy(inputs)).flatten(0, -2)
    loss = nn.functional.cross_entropy(logits, torch.from_numpy(targets).flatten())
    loss.backward()  # type: ignore[no-untyped-call]
    own.step()
    return loss.item()


@torch.no_grad()
def tested(net: nn.Module, dataset: data.Dataset, count: int) -> dict[str, float]:
    """Mean loss and accuracy on the first test samples."""
    loss = right = total = 0.0
    for start in range(0, count, 500):
        chosen = np.arange(start, min(start + 500, count))
        inputs, targets = dataset.batch(dataset.test, chosen)
        logits = net(torch.from_numpy(inputs)).flatten(0, -2)
        wanted = torch.from_numpy(targets).flatten()
        loss += nn.functional.cross_entropy(logits, wanted, reduction="sum").item()
        right += int((logits.argmax(1) == wanted).sum())
        total += wanted.numel()
    return {"test_loss": loss / total, "accuracy": right / total}


def vector(net: nn.Module, task: LocalTask) -> dict[str, np.ndarray]:
    """Those parameters that are compressed."""
    return {
        name: own.detach().numpy().copy()
        for name, own in net.named_parameters()
        if own.dim() > 1 and own.numel() >= task.small
    }


class Frames:
    """What the operator itself makes of changes and of their mean, by `fewbits.compress`."""

    def __init__(self, operator: str) -> None:
        self._operator, self._bits, self._values = operator, 0, 0

    def measure(self, changes: list[dict[str, np.ndarray]]) -> None:
        """Of one rank's changes, and of the mean of all ranks'."""
        mean = {name: np.mean([own[name] for own in changes], axis=0) for name in changes[0]}
        for own in (changes[0], mean):
            for values in own.values():
                self._bits += 8 * len(fewbits.compress(values, self._operator))
                self._values += values.size

    @property
    def bits(self) -> float | None:
        """A value."""
        return self._bits / self._values if self._values else None


def digest(net: nn.Module) -> str:
    """Of all parameters."""
    import hashlib

    state = hashlib.sha256()
    for parameter in net.parameters():
        state.update(parameter.detach().numpy().tobytes())
    return state.hexdigest()


if __name__ == "__main__":
    main()
