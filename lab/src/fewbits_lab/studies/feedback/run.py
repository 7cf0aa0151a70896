"""Accuracy and bytes of operators with their feedback, beside plain training.

    python -m fewbits_lab.studies.feedback.run --data digits --data MNIST-DIR [--only NAME …]

trains the same model from the same start on four ranks with every configuration, every learning
rate of one grid and every seed, and appends each run to `result.json`; what is
there already is not run again. Ranks are those of `simulated.py`. `--try SPEC FEEDBACK` adds a
configuration.
"""

import argparse
import dataclasses
import itertools
import multiprocessing
import time
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from fewbits.train import data, models
from fewbits_lab import runs
from fewbits_lab.training import simulated

_RESULTS = Path(__file__).with_name("result.json")
CNN_RESULTS = _RESULTS.with_stem("result-cnn")
_RANKS, _MOMENTUM = 4, 0.9
MLP = {"digits": (512, 64), "MNIST": (128,)}  # widths of the hidden layers


@dataclass(frozen=True, slots=True)
class FeedbackTask:
    """How a data set is trained; the same for every configuration."""

    model: str
    epochs: int
    batch_size: int
    rates: tuple[float, ...]
    images: int | None = None  # the first of the training set; None for all


TASKS = {
    "digits": FeedbackTask("mlp", epochs=20, batch_size=64, rates=(0.02, 0.05, 0.1)),
    "mnist": FeedbackTask("mlp", epochs=5, batch_size=128, rates=(0.02, 0.05, 0.1), images=12_800),
}
CNN_TASKS = {
    "digits": FeedbackTask("cnn", epochs=15, batch_size=64, rates=(0.02, 0.05, 0.1)),
    "mnist": FeedbackTask("cnn", epochs=2, batch_size=128, rates=(0.02, 0.05, 0.1), images=12_800),
}


@dataclass(frozen=True, slots=True)
class Configuration:
    """A configuration; `corrected` moves the momentum from the optimizer into the feedback."""

    operator: str
    feedback: str | None = None
    corrected: bool = False


_CONFIGURATIONS = {
    "plain": Configuration("none"),
    "natural-dithering": Configuration("natural-dithering"),
    "sparse-dithering": Configuration("sparse-dithering", "ef14"),
    "top-k": Configuration("top-k:fraction=0.01|natural", "ef14"),
    "top-k-sign": Configuration("top-k:fraction=0.0025|sign", "ef14"),
    "sparse-dithering-10": Configuration("sparse-dithering:nu=10,scale=least-squares", "ef14"),
}


@dataclass(frozen=True, slots=True)
class FeedbackRun:
    """One run."""

    data: str
    name: str
    lr: float
    seed: int
    configuration: Configuration
    task: FeedbackTask

    @property
    def key(self) -> tuple[str, str, float, int]:
        """The key that tells runs apart."""
        return Path(self.data).name, self.name, self.lr, self.seed


def main() -> None:
    """Run what is asked for and not in the results yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--data", action="append", metavar="DATA", help="digits or the folder of MNIST's files")
    add("--only", action="append", default=[], metavar="NAME", help="these configurations only")
    add("--try", dest="trials", nargs=2, action="append", default=[], metavar=("SPEC", "FEEDBACK"),
        help="a configuration; FEEDBACK - for none, corrected for momentum inside")  # fmt: skip
    add("--seeds", type=int, default=5, metavar="N")
    add("--rates", type=float, nargs="+", metavar="X", help="of the grid, these only")
    add("--model", choices=("mlp", "cnn"), default="mlp", help="cnn is that of fewbits train")
    add("--results", type=Path, metavar="FILE", help="default: result.json, result-cnn.json")
    add("--jobs", type=int, default=2, metavar="N", help="processes")
    options = parser.parse_args()
    tasks = CNN_TASKS if options.model == "cnn" else TASKS
    if options.results is None:
        options.results = CNN_RESULTS if options.model == "cnn" else _RESULTS
    wanted, began = jobs(options, tasks), time.monotonic()
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for done, row in enumerate(pool.imap_unordered(run, wanted), 1):
            keep(row, options.results, tasks)
            left = (time.monotonic() - began) / done * (len(wanted) - done) / 60
            print(
                f"{done}/{len(wanted)} {row['data']} {row['name']} lr {row['lr']} seed "
                f"{row['seed']}: {100 * row['accuracy']:.2f} %, {row['bytes_per_step']:,.0f} "
                f"bytes, {row['seconds']:.0f} s; {left:.1f} min left",
                flush=True,
            )


def jobs(options: argparse.Namespace, tasks: dict[str, FeedbackTask]) -> list[FeedbackRun]:
    """The missing runs, seeds outermost, so that all configurations grow together."""
    named = options.only or ([] if options.trials else list(_CONFIGURATIONS))
    chosen = {name: _CONFIGURATIONS[name] for name in named}
    for spec, feedback in options.trials:
        method = {"-": None, "corrected": "ef14"}.get(feedback, feedback)
        chosen[f"{spec} {feedback}"] = Configuration(spec, method, feedback == "corrected")
    known = {
        (row["data"], row["name"], row["lr"], row["seed"]) for row in runs.read(options.results)
    }
    found = [
        FeedbackRun(folder, name, lr, seed, one, tasks[Path(folder).name])
        for folder in options.data or ["digits"]
        for seed in range(options.seeds)
        for name, one in chosen.items()
        for lr in options.rates or tasks[Path(folder).name].rates
    ]
    return [job for job in found if job.key not in known]


def keep(row: dict[str, Any], results: Path, tasks: dict[str, FeedbackTask]) -> None:
    """Add a run to the file."""
    described = {name: dataclasses.asdict(task) for name, task in tasks.items()}
    head = {"ranks": _RANKS, "momentum": _MOMENTUM, "mlp": MLP, "tasks": described}
    runs.add(results, row, head, ("data", "name", "lr", "seed"))


def run(job: FeedbackRun) -> dict[str, Any]:
    """Train and test once."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dataset, task = loaded(job.data, job.task.images), job.task
    began = time.monotonic()
    torch.manual_seed(job.seed)
    net, one = build(task.model, dataset), job.configuration
    momentum = 0.0 if one.corrected else _MOMENTUM
    optimizer = torch.optim.SGD(net.parameters(), job.lr, momentum)
    method = f"{one.feedback}:momentum={_MOMENTUM}" if one.corrected else one.feedback
    ranks = None
    if one.operator != "none":
        ranks = simulated.Ranks(net, _RANKS, one.operator, feedback=method, seed=job.seed)
    losses: list[float] = []
    for epoch in range(task.epochs):
        for batch in data.order(job.seed, epoch, len(dataset.train.inputs), task.batch_size):
            shares = [batch] if ranks is None else list(batch.reshape(_RANKS, -1))
            found = [simulated.gradient(net, dataset, own, into=losses) for own in shares]
            simulated.step(net, optimizer, found[0] if ranks is None else ranks.mean(found))
    return {
        "data": Path(job.data).name, "name": job.name, "lr": job.lr, "seed": job.seed,
        "operator": one.operator, "feedback": method,
        "accuracy": simulated.tested(net, dataset),
        "loss": finite(float(np.mean(losses[-len(losses) // task.epochs :]))),
        **counted(net, ranks), "seconds": round(time.monotonic() - began, 1),
    }  # fmt: skip


def counted(net: nn.Module, ranks: simulated.Ranks | None) -> dict[str, float]:
    """Bytes of a step in both directions, of the busiest rank and of all on average."""
    elements = sum(own.numel() for own in net.parameters())
    plain = 4.0 * elements * 2 * (_RANKS - 1) / _RANKS
    figures: dict[str, float] = {"elements": elements, "fp32_bytes_per_step": plain}
    if ranks is None:
        return figures | {"bytes_per_step": plain, "mean_bytes_per_step": plain}
    reports, sent = ranks.reports(), ranks.sent()
    steps = reports[0].steps
    ranks.close()
    return figures | {
        "bytes_per_step": max(sent) / steps,
        "mean_bytes_per_step": sum(sent) / _RANKS / steps,
        "exact_elements": sum(reports[0].exact.values()),
        "codec_cpu_ms": round(1e3 * sum(own.codec_cpu_seconds for own in reports) / 4 / steps, 3),
    }


def finite(value: float) -> float | None:
    """JSON has no word for what a run that diverged ends with."""
    return value if np.isfinite(value) else None


def build(model: str, dataset: data.Dataset) -> nn.Module:
    """A fresh model: the convolutional one of `fewbits train`, or fully connected layers."""
    if model == "cnn":
        return models.build("cnn", dataset)
    widths = [int(np.prod(dataset.train.inputs.shape[1:])), *MLP[dataset.name]]
    hidden = [
        layer for a, b in itertools.pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())
    ]
    last = nn.Linear(widths[-1], dataset.classes)
    return nn.Sequential(Standard(dataset), nn.Flatten(), *hidden, last)


class Standard(nn.Module):
    """Pixels with mean 0 and variance 1 over the training set."""

    def __init__(self, dataset: data.Dataset) -> None:
        super().__init__()
        pixels, _ = dataset.batch(dataset.train, np.arange(min(5000, len(dataset.train.inputs))))
        self.mean, self.deviation = float(pixels.mean()), float(pixels.std())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - self.mean) / self.deviation


@cache
def loaded(folder: str, images: int | None) -> data.Dataset:
    """The data, once in each process."""
    dataset = data.load(folder)
    train = data.LabelledSamples(dataset.train.inputs[:images], dataset.train.targets[:images])
    return dataclasses.replace(dataset, train=train)


if __name__ == "__main__":
    main()
