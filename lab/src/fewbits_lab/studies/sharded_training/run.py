"""Sharded training (FSDP2) with compressed gradients beside the same training without.

    python -m fewbits_lab.studies.sharded_training.run --data MNIST-DIR --data TEXT-DIR

trains on four ranks over gloo, every configuration with every seed from the same start and on the
same batches, and appends each run to `result.json`; what is there
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
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.multiprocessing.spawn import spawn

import fewbits.fsdp
from fewbits.train import data, models
from fewbits_lab import runs

_RESULTS = Path(__file__).with_name("result.json")
_RANKS, _SEEDS = 4, 3
_PLAIN = "none"
_HIDDEN, _WIDE = 256, 2048  # of the perceptron, which is wider with replicas: they halve a shard
TESTED = 2000  # samples


@dataclass(frozen=True, slots=True)
class ShardedTask:
    """How a data set is trained; the same for every configuration."""

    optimizer: str
    lr: float
    steps: int
    batch_size: int


_TASKS = {
    "MNIST": ShardedTask("SGD", 0.1, steps=200, batch_size=128),
    "text": ShardedTask("Adam", 2e-3, steps=120, batch_size=32),
}


@dataclass(frozen=True, slots=True)
class ShardedRun:
    """One run; `repeat` 1 is one that was run before.

    With two `replicas` of two shards (HSDP) what replicas exchange is compressed.
    """

    data: str
    worker: str
    seed: int
    repeat: int = 0
    replicas: int = 1


def wanted(names: list[str]) -> list[ShardedRun]:
    """All runs of some data sets, those that are compared first."""
    pairs = [(name, seed) for name in names for seed in range(_SEEDS)]
    first = [
        ShardedRun(name, worker, seed) for name, seed in pairs for worker in (_PLAIN, "natural")
    ]
    again = [ShardedRun(name, "natural", 0, repeat=1) for name in names]
    coded = [ShardedRun(name, "natural:coder=rans", 0) for name in names]
    alone = first + again + coded
    return alone + [replace(run, replicas=2) for run in first + coded]


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
    spawn(rank_main, (port, options.data, deadline), _RANKS)  # type: ignore[no-untyped-call]


def rank_main(rank: int, port: int, folders: list[str], deadline: float) -> None:
    """The life of one rank: all runs one after the other."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", rank=rank, world_size=_RANKS)
    sets = {found.name: found for found in map(data.load, folders)}
    known = {
        tuple(row[key] for key in asdict(ShardedRun("", "", 0))) for row in runs.read(_RESULTS)
    }
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


def trained(run: ShardedRun, dataset: data.Dataset) -> dict[str, Any]:
    """Train and test once."""
    began, task, rank = time.monotonic(), _TASKS[run.data], dist.get_rank()
    torch.manual_seed(run.seed)
    net = sharded(built(dataset, _WIDE if run.replicas > 1 else _HIDDEN), run.replicas)
    compression = None
    if run.worker != _PLAIN:
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
        loss(net, dataset, dataset.train, data.share(batch, rank, _RANKS)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    row = asdict(run) | {"loss": tested(net, dataset), "shards": digest(net)}
    if compression is not None:
        report = compression.report()
        row |= {
            "sent_bytes": report.payload_bytes + report.header_bytes,
            "payload_bytes": report.payload_bytes,
            "plain_bytes": report.plain_bytes,
            "inside_bytes": report.inside_bytes,
            "gathered_bytes": report.gathered_bytes,
            "compressed_share": report.compressed_share,
            "elements": report.elements,
        }
        compression.close()
    return row | {"seconds": round(time.monotonic() - began, 1)}


def built(dataset: data.Dataset, hidden: int) -> torch.nn.Module:
    """A GPT of two layers for text, a perceptron with a hidden layer for images."""
    if dataset.is_text:
        gpt = models.Gpt(dataset.classes)
        gpt.layers = torch.nn.Sequential(*list(gpt.layers)[:2])
        return gpt
    pixels, classes = math.prod(dataset.train.inputs.shape[1:]), dataset.classes
    return torch.nn.Sequential(
        torch.nn.Flatten(),
        torch.nn.Linear(pixels, hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, classes),
    )


def sharded(net: torch.nn.Module, replicas: int) -> torch.nn.Module:
    """A group of parameters for each layer of a GPT, and one for the rest."""
    names = ("replicate", "shard")
    shape = (replicas, _RANKS // replicas) if replicas > 1 else (_RANKS,)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=names[-len(shape) :])
    for layer in net.layers if isinstance(net, models.Gpt) else ():
        fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    return net


def loss(net: Any, dataset: data.Dataset, split: data.LabelledSamples, chosen: Any) -> torch.Tensor:
    """The mean cross entropy of the chosen samples."""
    inputs, targets = (torch.from_numpy(part) for part in dataset.batch(split, chosen))
    return torch.nn.functional.cross_entropy(net(inputs).flatten(0, -2), targets.flatten())


def tested(net: Any, dataset: data.Dataset) -> float:
    """The loss on the first test samples, of which each rank takes its share."""
    count = min(TESTED, len(dataset.test.inputs)) // _RANKS * _RANKS
    own = np.arange(count).reshape(_RANKS, -1)[dist.get_rank()]
    with torch.no_grad():
        total = torch.stack([loss(net, dataset, dataset.test, part) for part in own.reshape(5, -1)])
    mean = total.mean()
    dist.all_reduce(mean)
    return mean.item() / _RANKS


def digest(net: Any) -> str:
    """A digest of all ranks' shards."""
    net.reshard()  # the test left the root's parameters whole
    hasher = hashlib.sha256()
    for parameter in net.parameters():
        hasher.update(parameter.full_tensor().detach().numpy().tobytes())
    return hasher.hexdigest()[:16]


def keep(row: dict[str, Any]) -> None:
    """Add a run to the file."""
    head = {"ranks": _RANKS, "tasks": {name: asdict(task) for name, task in _TASKS.items()}}
    runs.add(_RESULTS, row, head, ("data", "worker", "seed", "repeat", "replicas"))


if __name__ == "__main__":
    main()
