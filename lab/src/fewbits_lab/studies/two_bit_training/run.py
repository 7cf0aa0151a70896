"""A GPT trained with `two-bit` in both directions, and without compression.

    python -m fewbits_lab.studies.two_bit_training.run --data TEXT-DIR

trains on four ranks in this process, every seed from the same start and on the same batches, and
adds each run to `result.json`; what is there already is not run again. Ranks of one process end
with the bits of DDP's (`test_feedback_evidence.py`).
"""

import argparse
import itertools
import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import nn

import fewbits
from fewbits.presets import PRESETS
from fewbits.train import data
from fewbits.train.models import Gpt
from fewbits_lab import runs
from fewbits_lab.record import Item
from fewbits_lab.training import ranks
from fewbits_lab.training.ranks import Ranks

_RESULTS = Path(__file__).with_name("result.json")
TWO_BIT_PLAIN, PRESET = "none", "two-bit"
PLANNED_SEEDS = 3


@dataclass(frozen=True, slots=True)
class TextTask:
    """The model and its training, the same for both; the rate falls linearly to zero."""

    width: int = 256
    layers: int = 2
    ranks: int = 4
    steps: int = 160
    batch_size: int = 8
    rate: float = 1e-3
    tested: int = 400  # blocks of text


TEXT_TASKS = (TextTask(), TextTask(steps=640))
TASK = TEXT_TASKS[-1]


def trained(operator: str, seed: int, dataset: data.Dataset, task: TextTask) -> Item:
    """Train and test once."""
    began = time.process_time()
    torch.manual_seed(seed)
    net = Gpt(dataset.classes, width=task.width, layers=task.layers)
    exchange = None if operator == TWO_BIT_PLAIN else Ranks(net, task.ranks, operator, seed=seed)
    _train(net, dataset, seed, task, exchange)
    test = data.LabelledSamples(
        dataset.test.inputs[: task.tested], dataset.test.targets[: task.tested]
    )
    found = ranks.tested(net, replace(dataset, test=test))
    row: Item = {
        "operator": operator, "seed": seed, "steps": task.steps,
        "loss": found.loss, "accuracy": found.accuracy,
    }  # fmt: skip
    if exchange is not None:
        row |= sent(exchange)
        exchange.close()
    return row | {"cpu_seconds": round(time.process_time() - began, 1)}


def _train(
    net: nn.Module, dataset: data.Dataset, seed: int, task: TextTask, exchange: Ranks | None
) -> None:
    optimizer = torch.optim.AdamW(net.parameters(), task.rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: 1 - done / task.steps)
    order = data.order(seed, 0, len(dataset.train.inputs), task.batch_size)
    for batch in order[: task.steps]:
        shares = batch.reshape(task.ranks, -1)
        own = [ranks.gradient(net, dataset, share) for share in shares]
        mean = torch.stack(own).mean(0) if exchange is None else exchange.mean(own)
        ranks.step(net, optimizer, mean)
        schedule.step()


def sent(exchange: Ranks) -> Item:
    """Bytes of all ranks, and those of compressed units alone.

    Exact values travel as they are, so their bytes are known: each of them goes from every other
    rank to its owner and back.
    """
    reports = exchange.reports()
    first = reports[0]
    payload = sum(own.payload_bytes for own in reports)
    ways = 2 * (first.ranks - 1) * first.steps
    exact = 4 * ways * (first.elements - first.compressed_elements)
    return {
        "elements": first.elements,
        "compressed_elements": first.compressed_elements,
        "steps": first.steps,
        "sent_bytes": payload + sum(own.header_bytes for own in reports),
        "payload_bytes": payload,
        "compressed_unit_bytes": payload - exact,
        "plain_bytes": 4 * ways * first.elements,
        "plain_bytes_of_compressed_units": 4 * ways * first.compressed_elements,
    }


def main() -> None:
    """Run what is not in the results yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, metavar="DIR", help="a folder with a text")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dataset = data.load(options.data)
    head = {"fewbits": fewbits.__version__, "torch": torch.__version__, "task": asdict(TASK),
            "spec": PRESETS[PRESET].operator}  # fmt: skip
    known = {(row["operator"], row["seed"], row["steps"]) for row in runs.read(_RESULTS)}
    for task, seed in itertools.product(TEXT_TASKS, range(PLANNED_SEEDS)):
        for operator in (TWO_BIT_PLAIN, PRESET):
            if (operator, seed, task.steps) not in known:
                row = trained(operator, seed, dataset, task)
                runs.add(_RESULTS, row, head, ("steps", "operator", "seed"))
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
