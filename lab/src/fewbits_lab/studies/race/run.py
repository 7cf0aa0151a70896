"""Steps until a training loss and an accuracy, by simulated ranks: PowerSGD and what rivals it.

    python -m fewbits_lab.studies.race.run --data MNIST-DIR [--minutes 20] [--quick]

Four ranks of one process train the convolutional network of `time-to-accuracy` on MNIST, all at one
rate. The goals were fixed before the runs. Each run is kept in `result-steps.json` when it is done;
what is there is not run again.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from fewbits.cli.console import say
from fewbits.train import data, references
from fewbits_lab import runs
from fewbits_lab.record import Item
from fewbits_lab.studies.race.powersgd import PowerSgd
from fewbits_lab.studies.time_to_accuracy.run import model
from fewbits_lab.training.ranks import Ranks, step

RACE_STEPS = Path(__file__).with_name("result-steps.json")
RACE_WITH = " with "
TOP_DGC = f"top-k:fraction=0.01|natural{RACE_WITH}dgc:momentum=0.9"
RACE_CONTENDERS = (
    "none", "powersgd:rank=4", "low-rank", "powersgd:rank=1", "tiny", TOP_DGC,
    "low-rank:rank=4|sparse-dithering", "powersgd:rank=2", "powersgd:rank=8",
    "natural:coder=rans", "bfloat16",
)  # fmt: skip
RACE_RATE, RACE_SEEDS = 0.1, (0, 1, 2, 3, 4)
GOAL_LOSS, GOAL_ACCURACY = 0.18, 0.955
RACE_WINDOW = 25  # steps whose mean is compared with the goals
RACE_MOST = 400  # steps: all within the first epoch, so every batch is new when it is judged
_RANKS, _BATCH, _MOMENTUM = 4, 128, 0.9


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", required=True, metavar="DIR", help="the folder of MNIST's files")
    parser.add_argument("--only", nargs="+", default=list(RACE_CONTENDERS), metavar="NAME")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin nothing after them")
    parser.add_argument("--quick", action="store_true", help="40 steps of one seed, kept nowhere")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # who compares on purpose knows of bias
    dataset, began = data.load(options.data), time.monotonic()
    if options.quick:
        for name in options.only:
            say(str(trained(dataset, name, 0, 40)))
        return
    while time.monotonic() - began < 60 * options.minutes:
        wanted = following(runs.read(RACE_STEPS), options.only)
        if wanted is None:
            return
        found = trained(dataset, *wanted)
        keep(found)
        say(", ".join(f"{key} {found[key]}" for key in ("name", "seed", *_GOALS)))


def following(known: list[Item], names: list[str]) -> tuple[str, int] | None:
    """The next run that the file does not have: seeds in turn, so that contenders keep level."""
    there = {(own["name"], own["seed"]) for own in known}
    every = ((name, seed) for seed in RACE_SEEDS for name in names)
    return next((own for own in every if own not in there), None)


def keep(row: Item) -> None:
    """Add a run to the file."""
    about = {
        "ranks": _RANKS, "batch": _BATCH, "momentum": _MOMENTUM, "rate": RACE_RATE,
        "goal_loss": GOAL_LOSS, "goal_accuracy": GOAL_ACCURACY, "window": RACE_WINDOW,
        "most_steps": RACE_MOST, "parameters": row["parameters"],
        "torch": torch.__version__,
    }  # fmt: skip
    runs.add(RACE_STEPS, row, about, ("seed", "name"))


_GOALS = ("loss_steps", "accuracy_steps")


def trained(dataset: data.Dataset, name: str, seed: int, most: int = RACE_MOST) -> Item:
    """One run, until both goals are reached."""
    torch.manual_seed(seed)
    net = model()
    exchange, sent = exchange_of(net, name, seed)
    momentum = 0.0 if RACE_WITH in name else _MOMENTUM  # the memories have it
    optimizer = torch.optim.SGD(net.parameters(), RACE_RATE, momentum)
    losses: list[float] = []
    right: list[float] = []
    reached: dict[str, int | None] = dict.fromkeys(_GOALS)
    seconds = 0.0
    for batch in list(data.order(seed, 0, len(dataset.train.inputs), _BATCH))[:most]:
        own = [judged(net, dataset, share, losses, right) for share in batch.reshape(_RANKS, -1)]
        loss, share = (float(np.mean(each[-RACE_WINDOW * _RANKS :])) for each in (losses, right))
        done = len(losses) // _RANKS
        if done >= RACE_WINDOW:
            arrived = loss <= GOAL_LOSS, share >= GOAL_ACCURACY
            for goal, is_there in zip(_GOALS, arrived, strict=True):
                reached[goal] = reached[goal] or (done - 1 if is_there else None)
        if all(reached.values()) or not np.isfinite(loss):
            break
        began = time.process_time()
        mean = exchange.mean(own)
        seconds += time.process_time() - began
        step(net, optimizer, mean)
    found = sent()
    exchange.close()
    done = len(losses) // _RANKS
    return {
        "name": name, "seed": seed, **reached, "steps": done,
        "last_loss": round(loss, 5) if np.isfinite(loss) else 1e9,
        "last_accuracy": round(share, 5), "sent_bytes_per_step": found / max(done - 1, 1),
        "exchange_cpu_seconds": seconds / _RANKS,
        "parameters": sum(each.numel() for each in net.parameters()),
    }  # fmt: skip


def judged(
    net: nn.Module,
    dataset: data.Dataset,
    chosen: data.DataArray,
    losses: list[float],
    right: list[float],
) -> Tensor:
    """The flat gradient of a rank's batch, which is judged before the model learns from it."""
    inputs, targets = dataset.batch(dataset.train, chosen)
    net.zero_grad(set_to_none=True)
    scores, wanted = net(torch.from_numpy(inputs)), torch.from_numpy(targets)
    loss = nn.functional.cross_entropy(scores, wanted)
    loss.backward()  # type: ignore[no-untyped-call]
    losses.append(loss.item())
    right.append((scores.argmax(1) == wanted).float().mean().item())
    return torch.cat([own.grad.reshape(-1) for own in net.parameters() if own.grad is not None])


class Summed:
    """The mean in float32."""

    def mean(self, gradients: list[Tensor]) -> Tensor:
        """In the order of ranks."""
        total = gradients[0]
        for own in gradients[1:]:
            total = total + own
        return total / len(gradients)

    def close(self) -> None:
        """Nothing to end."""


def exchange_of(net: nn.Module, name: str, seed: int):  # type: ignore[no-untyped-def]
    """What averages gradients, and a function that tells the bytes that a rank has sent so far."""
    shapes = [tuple(own.shape) for own in net.parameters()]
    if references.is_reference(name):
        made = PowerSgd(shapes, references.rank_of(name), _RANKS) if ":" in name else Summed()
        each = references.estimate(name, shapes, _RANKS).bytes_per_step
        count = [0]
        real = made.mean

        def counted(gradients: list[Tensor]) -> Tensor:
            count[0] += 1
            return real(gradients)

        made.mean = counted  # type: ignore[method-assign]
        return made, lambda: each * count[0]
    spec, _, feedback = name.partition(RACE_WITH)
    made_ranks = Ranks(net, _RANKS, spec, feedback=feedback or None, seed=seed)
    return made_ranks, lambda: sum(made_ranks.sent()) / _RANKS


if __name__ == "__main__":
    main()
