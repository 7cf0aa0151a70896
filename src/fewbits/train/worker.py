"""The work of a rank: it joins the group and does one run after the other."""

from datetime import timedelta
from typing import Any

import torch.distributed as dist

from fewbits.train import results
from fewbits.train.data import Dataset
from fewbits.train.settings import TrainSettings
from fewbits.train.trial import Emit, Trial

_TIMEOUT = timedelta(seconds=120)


def work(settings: TrainSettings, dataset: Dataset, emit: Emit) -> list[dict[str, Any]]:
    """Do all runs of the settings and return the `result` events, which rank 0 also emits."""
    dist.init_process_group("gloo", timeout=_TIMEOUT)
    ended = []
    for spec in settings.operators:
        trial = Trial(settings, spec, dataset, emit)
        trial.run()
        ended.append(_result(trial))
        trial.close()
        if trial.rank == 0:
            emit(ended[-1])
    # Not destroyed: gloo's threads may abort the process where other ranks leave meanwhile, as DDP
    # still holds the group. All results are known here, so no rank needs another one any more.
    dist.barrier()
    return ended


def _result(trial: Trial) -> dict[str, Any]:
    counted = {
        "operator": trial.spec,
        **trial.history.exchange,
        "local_steps": trial.settings.local_steps,
        "parameters_sha256": trial.digest(),
        "replicas_agree": trial.replicas_agree(),
    }
    return {
        "event": "result",
        "data": trial.dataset.name,
        "parameters": sum(p.numel() for p in trial.net.parameters()),
        "test_samples": int(trial.dataset.test.targets.size),
        "run": results.of_run(trial.history, counted),
    }
