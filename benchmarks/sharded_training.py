"""Sharded training (FSDP2) with compressed gradients beside the same training without.

    python benchmarks/sharded_training.py --data MNIST-DIR --data TEXT-DIR [--seconds 420]

trains on four ranks over gloo, every configuration with every seed from the same start and on the
same batches, and appends each run to `benchmarks/results/sharded-training.json`; what is there
already is not run again.
"""

import argparse
import hashlib
import json
import math
import os
import socket
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

import fewbits.fsdp
from fewbits.train import data, models

RESULTS = Path(__file__).parent / "results" / "sharded-training.json"
RANKS, SEEDS = 4, 3
PLAIN = "none"
TESTED = 2000  # samples


@dataclass(frozen=True, slots=True)
class Task:
    """How a data set is trained; the same for every configuration."""

    optimizer: str
    lr: float
    steps: int
    batch_size: int


TASKS = {
    "MNIST": Task("SGD", 0.1, steps=200, batch_size=128),
    "text": Task("Adam", 2e-3, steps=120, batch_size=32),
}


@dataclass(frozen=True, slots=True)
class Run:
    """One run; `repeat` 1 is one that was run before."""

    data: str
    worker: str
    seed: int
    repeat: int = 0


def wanted(names: list[str]) -> list[Run]:
    """All runs of some data sets, those that are compared first."""
    pairs = [(name, seed) for name in names for seed in range(SEEDS)]
    first = [Run(name, worker, seed) for name, seed in pairs for worker in (PLAIN, "natural")]
    again = [Run(name, "natural", 0, repeat=1) for name in names]
    return first + again + [Run(name, "natural:coder=rans", 0) for name in names]


def main() -> None:
    """Run what is asked for and not in the results yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", action="append", required=True, metavar="DIR")
    parser.add_argument("--seconds", type=float, default=420.0, help="after which no run begins")
    options = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    deadline = time.monotonic() + options.seconds
    torch.multiprocessing.spawn(rank_main, (port, options.data, deadline), RANKS)


def rank_main(rank: int, port: int, folders: list[str], deadline: float) -> None:
    """The life of one rank: all runs one after the other."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    sets = {found.name: found for found in map(data.load, folders)}
    known = {tuple(row[key] for key in asdict(Run("", "", 0))) for row in read()}
    for run in wanted(list(sets)):
        if tuple(asdict(run).values()) in known:
            continue
        late = torch.tensor([float(time.monotonic() > deadline)])
        dist.broadcast(late, 0)
        if late.item():
            break
        row = trained(run, sets[run.data])
        if rank == 0:
            keep(row)
            print(json.dumps(row), flush=True)
        dist.barrier()
    dist.destroy_process_group()


def trained(run: Run, dataset: data.Dataset) -> dict[str, Any]:
    """Train and test once."""
    began, task, rank = time.monotonic(), TASKS[run.data], dist.get_rank()
    torch.manual_seed(run.seed)
    net = sharded(built(dataset))
    compression = None
    if run.worker != PLAIN:
        compression = fewbits.fsdp.attach(net, run.worker, seed=run.seed)
    optimizer = getattr(torch.optim, task.optimizer)(net.parameters(), task.lr)
    count = len(dataset.train.inputs)
    batches = np.concatenate(
        [
            data.order(run.seed, epoch, count, task.batch_size)
            for epoch in range(-(-task.steps * task.batch_size // count) + 1)
        ]
    )[: task.steps]
    for batch in batches:
        optimizer.zero_grad()
        loss(net, dataset, dataset.train, data.share(batch, rank, RANKS)).backward()
        optimizer.step()
    row = asdict(run) | {"loss": tested(net, dataset), "shards": digest(net)}
    if compression is not None:
        report = compression.report()
        row |= {
            "sent_bytes": report.payload_bytes + report.header_bytes,
            "payload_bytes": report.payload_bytes,
            "plain_bytes": report.plain_bytes,
            "gathered_bytes": report.gathered_bytes,
            "compressed_share": report.compressed_share,
            "elements": report.elements,
        }
        compression.close()
    return row | {"seconds": round(time.monotonic() - began, 1)}


def built(dataset: data.Dataset) -> torch.nn.Module:
    """A GPT of two layers for text, a perceptron with a hidden layer of 256 for images."""
    if dataset.is_text:
        gpt = models.Gpt(dataset.classes)
        gpt.layers = gpt.layers[:2]
        return gpt
    pixels, classes = math.prod(dataset.train.inputs.shape[1:]), dataset.classes
    hidden = torch.nn.Linear(pixels, 256)
    return torch.nn.Sequential(
        torch.nn.Flatten(), hidden, torch.nn.ReLU(), torch.nn.Linear(256, classes)
    )


def sharded(net: torch.nn.Module) -> FSDPModule:
    """A group of parameters for each layer of a GPT, and one for the rest."""
    mesh = init_device_mesh("cpu", (RANKS,))
    for layer in net.layers if isinstance(net, models.Gpt) else ():
        fully_shard(layer, mesh=mesh)
    whole: FSDPModule = fully_shard(net, mesh=mesh)
    return whole


def loss(net: Any, dataset: data.Dataset, split: data.Split, chosen: Any) -> torch.Tensor:
    """The mean cross entropy of the chosen samples."""
    inputs, targets = (torch.from_numpy(part) for part in dataset.batch(split, chosen))
    return torch.nn.functional.cross_entropy(net(inputs).flatten(0, -2), targets.flatten())


def tested(net: Any, dataset: data.Dataset) -> float:
    """The loss on the first test samples, of which each rank takes its share."""
    count = min(TESTED, len(dataset.test.inputs)) // RANKS * RANKS
    own = np.arange(count).reshape(RANKS, -1)[dist.get_rank()]
    with torch.no_grad():
        total = torch.stack([loss(net, dataset, dataset.test, part) for part in own.reshape(5, -1)])
    mean = total.mean()
    dist.all_reduce(mean)
    return mean.item() / RANKS


def digest(net: Any) -> str:
    """Of all ranks' shards."""
    net.reshard()  # the test left the root's parameters whole
    hasher = hashlib.sha256()
    for parameter in net.parameters():
        hasher.update(parameter.full_tensor().detach().numpy().tobytes())
    return hasher.hexdigest()[:16]


def read() -> list[dict[str, Any]]:
    """The runs so far."""
    rows: list[dict[str, Any]] = json.loads(RESULTS.read_text())["runs"] if RESULTS.exists() else []
    return rows


def keep(row: dict[str, Any]) -> None:
    """Add a run to the file: all of it or nothing."""
    head = {"ranks": RANKS, "tasks": {name: asdict(task) for name, task in TASKS.items()}}
    order = sorted(
        [*read(), row], key=lambda run: [run[key] for key in ("data", "worker", "seed", "repeat")]
    )
    lines = ",\n".join(json.dumps(run) for run in order)
    unfinished = RESULTS.with_suffix(".tmp")
    unfinished.write_text(f'{json.dumps(head)[:-1]},\n"runs": [\n{lines}\n]}}\n')
    unfinished.replace(RESULTS)


if __name__ == "__main__":
    main()
