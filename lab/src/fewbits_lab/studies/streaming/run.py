"""Streaming DiLoCo beside DiLoCo: loss, and the bytes of the step that sends most.

    python -m fewbits_lab.studies.streaming.run --data MNIST-DIR --data TEXT-DIR [--jobs 2]

trains the models of `local_sgd` from the same start on the same batches, and appends each run to
`result.json`; what is there already is not run again. Ranks are those of `simulated.py`. Settings
were fixed before the runs.
"""

import argparse
import multiprocessing
import time
import warnings
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fewbits.policy import Default
from fewbits.train import data
from fewbits_lab import runs
from fewbits_lab.studies.local_sgd import run as whole
from fewbits_lab.studies.streaming.arrangements import ARRANGEMENTS
from fewbits_lab.training import simulated

_RESULTS = Path(__file__).with_name("result.json")
_RANKS, _SEEDS, _OPERATOR = 4, 3, "natural:coder=rans"
_METHOD = whole.LOCAL_METHODS["DiLoCo"]
_KEY = ("data", "arrangement", "seed")


@dataclass(frozen=True, slots=True)
class StreamingRun:
    """One run."""

    folder: str
    arrangement: str
    seed: int

    @property
    def key(self) -> list[Any]:
        """What makes it another run."""
        return [Path(self.folder).name, self.arrangement, self.seed]


def main() -> None:
    """Run what is not in the results yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", action="append", default=[], metavar="DIR")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes")
    options = parser.parse_args()
    known = [[own[key] for key in _KEY] for own in runs.read(_RESULTS)]
    wanted = [
        StreamingRun(folder, arrangement, seed)
        for folder in options.data
        for seed in range(_SEEDS)
        for arrangement in ARRANGEMENTS
    ]
    wanted = [job for job in wanted if job.key not in known]
    about = {
        "ranks": _RANKS,
        "operator": _OPERATOR,
        "method": asdict(_METHOD),
        "arrangements": {name: asdict(own) for name, own in ARRANGEMENTS.items()},
        "tasks": {Path(own).name: asdict(_task(own)) for own in options.data},
    }
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for done, row in enumerate(pool.imap_unordered(run, wanted), 1):
            runs.add(_RESULTS, row, about, _KEY)
            print(f"{done}/{len(wanted)} {row}", flush=True)


def _task(folder: str) -> whole.LocalTask:
    """As in `local_sgd`, with less text: a run of it takes minutes otherwise."""
    own = whole.LOCAL_TASKS[Path(folder).name]
    return replace(own, steps=64, batch_size=8, test=100) if own.model == "gpt" else own


def run(job: StreamingRun) -> dict[str, Any]:
    """Train and test once. Bytes of a step are before the last exchange, which sends all."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    began, task, dataset = time.monotonic(), _task(job.folder), data.load(job.folder)
    nets = []
    for _ in range(_RANKS):
        torch.manual_seed(job.seed)
        nets.append(whole.build(task, dataset))
    inner = [whole.optimizer(net, task, _METHOD) for net in nets]
    ranks = simulated.Locals(
        nets, _OPERATOR, local_steps=_METHOD.local_steps, outer=_METHOD.outer, seed=job.seed,
        policy=Default(task.small), **asdict(ARRANGEMENTS[job.arrangement]),
    )  # fmt: skip
    sent, steps = np.zeros(_RANKS), []
    for batch in whole.batches(job.seed, dataset, task):
        for net, own, chosen in zip(nets, inner, batch.reshape(_RANKS, -1), strict=True):
            whole.local_step(net, own, dataset, chosen)
        ranks.step()
        ranks.settle()
        now = np.array([r.payload_bytes + r.header_bytes for r in ranks.reports()], float)
        steps.append(now - sent)
        sent = now
    ranks.sync()
    reports = ranks.reports()
    ranks.close()
    equal = len({whole.digest(net) for net in nets}) == 1
    return {
        "data": Path(job.folder).name, "arrangement": job.arrangement, "seed": job.seed,
        **whole.tested(nets[0], dataset, task.test), "elements": reports[0].elements,
        "peak": float(np.mean(steps, axis=1).max()), "busiest_peak": float(np.max(steps)),
        "sent": float(sent.mean()), "equal": equal, "sha256": whole.digest(nets[0]),
        "seconds": round(time.monotonic() - began, 1),
    }  # fmt: skip


if __name__ == "__main__":
    main()
