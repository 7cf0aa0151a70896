"""Four islands that meet every 32 steps: DiLoCo, and what sends 50 times less.

    python -m fewbits_lab.studies.race.islands --data TEXT-DIR [--minutes 10]

trains the GPT of `local-sgd` from the same start on the same batches with every contender and seed.
Each run is kept in `result-islands.json`; what is there is not run again.
"""

import argparse
import time
import warnings
from dataclasses import replace
from pathlib import Path

import torch

from fewbits import presets
from fewbits.cli.console import say
from fewbits.policy import Default
from fewbits.train import data
from fewbits_lab import runs
from fewbits_lab.record import Item
from fewbits_lab.studies.local_sgd import run as local
from fewbits_lab.training import simulated

ISLANDS = Path(__file__).with_name("result-islands.json")
SPARSE = presets.PRESETS[presets.SPARSE_LOCO]
_NESTEROV, _SGD = "nesterov", "sgd"
ISLAND_CONTENDERS = {  # operator, feedback, outer step
    "DiLoCo": ("identity", None, _NESTEROV),
    "sparse-loco": (SPARSE.operator, SPARSE.feedback, _SGD),
    "sparse-loco, nesterov": (SPARSE.operator, SPARSE.feedback, _NESTEROV),
    "DiLoCo, natural:coder=rans": ("natural:coder=rans", None, _NESTEROV),
    "LocalSGD": ("identity", None, _SGD),
    "sparse-loco without decay, nesterov": (SPARSE.operator, "ef14", _NESTEROV),
}
ISLAND_SEEDS = (0, 1, 2)
_ISLANDS, _EVERY, _STEPS = 4, 32, 384
_TASK = replace(local.LOCAL_TASKS["tinyshakespeare"], steps=_STEPS)
_METHOD = replace(local.LOCAL_METHODS["DiLoCo"], local_steps=_EVERY)


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", required=True, metavar="DIR", help="a folder with a text")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin nothing after them")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dataset, began = data.load(options.data), time.monotonic()
    known = [(own["name"], own["seed"]) for own in runs.read(ISLANDS)]
    for seed in ISLAND_SEEDS:
        for name in ISLAND_CONTENDERS:
            if (name, seed) not in known and time.monotonic() - began < 60 * options.minutes:
                found = trained(dataset, name, seed)
                keep(found)
                say(f"{name}, seed {seed}: {found['test_loss']:.4f}, {found['sent']:.0f} bytes")


def keep(row: Item) -> None:
    """Add a run to the file."""
    about = {
        "islands": _ISLANDS, "local_steps": _EVERY, "steps": _STEPS,
        "contenders": ISLAND_CONTENDERS,
    }  # fmt: skip
    runs.add(ISLANDS, row, about, ("seed", "name"))


def trained(dataset: data.Dataset, name: str, seed: int) -> Item:
    """Train and test once."""
    operator, feedback, outer = ISLAND_CONTENDERS[name]
    nets = []
    for _ in range(_ISLANDS):
        torch.manual_seed(seed)
        nets.append(local.build(_TASK, dataset))
    inner = [local.optimizer(net, _TASK, _METHOD) for net in nets]
    ranks = simulated.Locals(
        nets, operator, local_steps=_EVERY, outer=outer, seed=seed, feedback=feedback,
        policy=Default(_TASK.small) if operator == "identity" else _policy,
    )  # fmt: skip
    for batch in local.batches(seed, dataset, _TASK):
        for net, own, chosen in zip(nets, inner, batch.reshape(_ISLANDS, -1), strict=True):
            local.local_step(net, own, dataset, chosen)
        ranks.step()
    ranks.sync()
    reports = ranks.reports()
    ranks.close()
    return {
        "name": name, "seed": seed, **local.tested(nets[0], dataset, _TASK.test),
        "rounds": reports[0].steps, "elements": reports[0].elements,
        "sent": sum(own.payload_bytes + own.header_bytes for own in reports) / _ISLANDS,
        "plain": reports[0].plain_bytes, "sha256": local.digest(nets[0]),
    }  # fmt: skip


def _policy(name: str, shape: tuple[int, ...]) -> str | None:
    """Vectors and small tensors, sent exactly, would be most of the bytes of so small a model."""
    return "natural:coder=rans" if Default(_TASK.small)(name, shape) else None


if __name__ == "__main__":
    main()
