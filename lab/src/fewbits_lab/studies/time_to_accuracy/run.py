"""Seconds until a convolutional model knows 98 % of MNIST's test images, on a slow link.

    python -m fewbits_lab.studies.time_to_accuracy.run tune --data MNIST-DIR
    python -m fewbits_lab.studies.time_to_accuracy.run race --data MNIST-DIR

`tune` counts the steps of every contender, learning rate of one grid and seed, on links that are
not shaped: how many it takes does not depend on the link. `race` trains anew with each contender's
best rate on shaped links (root, Linux) and takes the time. Four ranks, each in a network namespace
of its own. Runs are kept in `result.json`, and what is there already
is not run again.
"""

import argparse
import itertools
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from fewbits.train import data
from fewbits_lab import runs as kept
from fewbits_lab.links import contenders, tools
from fewbits_lab.links.network import Network
from fewbits_lab.links.program import LINK_PATIENCE, interface_bytes, join, launched, leave, tell
from fewbits_lab.links.setting import ShapedLink
from fewbits_lab.record import Item

_RESULTS = Path(__file__).with_name("result.json")
_CONTENDERS = (
    "none", "fp16-hook", "bfloat16", "powersgd:rank=4", "natural:coder=rans", "tiny",
)  # fmt: skip
_CASTS = ("fp16-hook", "bfloat16")
RATES, _SEEDS = (0.02, 0.05, 0.1), (0, 1, 2)
_RANKS, _BATCH, _MOMENTUM = 4, 128, 0.9
GOAL, MOST_STEPS = 0.98, 938  # two epochs
FIRST = 120  # steps until the first test
EVERY, _NEAR, EVERY_NEAR = 20, 0.97, 10  # between two tests, and once the goal is near
_LINK = 100e6  # bits a second


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", choices=("tune", "race"))
    parser.add_argument("--data", required=True, metavar="DIR", help="the folder of MNIST's files")
    parser.add_argument("--only", nargs="+", default=list(_CONTENDERS), metavar="NAME")
    parser.add_argument("--runs", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        rank(options.data, options.rank, options.runs)
    tools.check_ready()
    link = ShapedLink(None if options.part == "tune" else _LINK)
    wanted = missing(options.part, options.only)
    print(f"{len(wanted)} runs on {link}")
    if not wanted:
        return
    arguments = (options.part, "--data", options.data, "--runs", json.dumps(wanted))
    with Network(_RANKS, link) as network:
        for row in launched(network, __file__, *arguments):
            keep({"part": options.part, **row})
            print(
                f"{row['name']}, rate {row['lr']}, seed {row['seed']}: {row['steps']} steps, "
                f"{row['seconds']:.1f} s, {100 * row['accuracy']:.2f} %",
                flush=True,
            )


def missing(part: str, names: list[str]) -> list[Item]:
    """The runs that the file does not have."""
    rows = kept.read(_RESULTS)
    known = {(row["part"], row["name"], row["lr"], row["seed"]) for row in rows}
    pairs = [
        (name, lr)
        for name in names
        for lr in (RATES if part == "tune" else (best_rate(rows, name),))
    ]
    # Seeds outermost: contenders take turns, and what disturbs the machine disturbs all of them.
    return [
        {"name": name, "lr": lr, "seed": seed}
        for seed, (name, lr) in itertools.product(_SEEDS, pairs)
        if (part, name, lr, seed) not in known
    ]


def best_rate(rows: list[Item], name: str) -> float:
    """The rate of the grid with the fewest steps on average; who never arrives counts with all.

    Casts change next to nothing, and have plain training's.
    """
    name = "none" if name in _CASTS else name
    means = {lr: [row["steps"] for row in rows if selected(row, "tune", name, lr)] for lr in RATES}
    if any(len(steps) < len(_SEEDS) for steps in means.values()):
        sys.exit(f"{name}: tune first")
    return min(means, key=lambda lr: sum(means[lr]))


def selected(row: Item, part: str, name: str, lr: float) -> bool:
    """Whether the run is one of these."""
    return (row["part"], row["name"], row["lr"]) == (part, name, lr)


def keep(row: Item) -> None:
    """Add a run to the file."""
    about = {
        "ranks": _RANKS, "batch": _BATCH, "momentum": _MOMENTUM, "goal": GOAL, "rates": RATES,
        "most_steps": MOST_STEPS, "link_bits_per_second": _LINK, "parameters": row["parameters"],
    }  # fmt: skip
    kept.add(_RESULTS, row, about)


def rank(folder: str, work: str, runs: list[Item]) -> None:
    """What one rank does: all runs, one after the other."""
    number, _ = join(work)
    dataset = data.load(folder)
    for run in runs:
        tell(number, trained(dataset, number, **run))
    leave()


def trained(dataset: data.Dataset, number: int, name: str, lr: float, seed: int) -> Item:
    """Steps and their seconds until the goal; tests do not count."""
    torch.manual_seed(seed)
    net = model()
    wrapped, compression, _ = contenders.wrap(net, name, LINK_PATIENCE)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr, _MOMENTUM)
    seconds, steps, accuracy = 0.0, 0, 0.0
    sent = interface_bytes()
    tested_bytes = 0
    for chosen in batches(dataset, number, seed):
        began = time.perf_counter()
        inputs, targets = dataset.batch(dataset.train, chosen)
        optimizer.zero_grad()
        guess = wrapped(torch.from_numpy(inputs))
        nn.functional.cross_entropy(guess, torch.from_numpy(targets)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        seconds += time.perf_counter() - began
        steps += 1
        if steps >= FIRST and steps % (EVERY_NEAR if accuracy > _NEAR else EVERY) == 0:
            before = interface_bytes()
            accuracy = tested(net, dataset, number)
            tested_bytes += interface_bytes() - before
            if accuracy >= GOAL:
                break
    own = torch.tensor([seconds])
    dist.all_reduce(own, dist.ReduceOp.MAX)
    if compression is not None:
        compression.close()
    return {
        "name": name,
        "lr": lr,
        "seed": seed,
        "reached": accuracy >= GOAL,
        "steps": steps,
        "seconds": own.item(),
        "accuracy": accuracy,
        "interface_bytes": interface_bytes() - sent - tested_bytes,
        "parameters": sum(own.numel() for own in net.parameters()),
    }


def model() -> nn.Module:
    """Two convolutions and a hidden layer of 256: 0.4 M parameters, little to compute."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(32 * 7 * 7, 256), nn.ReLU(), nn.Linear(256, 10),
    )  # fmt: skip


def batches(dataset: data.Dataset, number: int, seed: int) -> Iterator[data.DataArray]:
    """The rank's part of every step's batch."""
    for epoch in itertools.count():
        for place, batch in enumerate(data.order(seed, epoch, len(dataset.train.inputs), _BATCH)):
            if epoch * (len(dataset.train.inputs) // _BATCH) + place >= MOST_STEPS:
                return
            yield data.share(batch, number, _RANKS)


@torch.no_grad()
def tested(net: nn.Module, dataset: data.Dataset, number: int) -> float:
    """The share of all test images that the model gets right; each rank looks at a part."""
    right, count = 0, len(dataset.test.targets)
    for start in range(500 * number, count, 500 * _RANKS):
        chosen = slice(start, start + 500)
        inputs, targets = dataset.batch(dataset.test, chosen)  # type: ignore[arg-type]
        right += int((net(torch.from_numpy(inputs)).argmax(1).numpy() == targets).sum())
    total = torch.tensor([right])
    dist.all_reduce(total)
    return total.item() / count


if __name__ == "__main__":
    main()
