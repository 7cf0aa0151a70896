"""Runs this process as one rank, if the environment says that it is one."""

import json
import os
import sys
from typing import Any

from fewbits.errors import PeerError, SpecError
from fewbits.exits import end_with_parent
from fewbits.train import compare, data
from fewbits.train.extras import check_installed
from fewbits.train.progress import RunsProgress
from fewbits.train.settings import TrainSettings


def is_rank() -> bool:
    """Whether torchrun or our launcher has started this process as a rank."""
    return "RANK" in os.environ


def world_size() -> int:
    return int(os.environ["WORLD_SIZE"])


def run(settings: TrainSettings, *, events: bool) -> compare.ComparisonDocument | None:
    """Train and return the comparison of all runs on rank 0, None on others.

    With `events` rank 0 prints a line of JSON for each event and returns None too. Raises
    `SpecError` if the settings or the data make no sense, and `PeerError` for every other fault.
    """
    try:
        return _run(settings, events=events)
    except SpecError:
        raise
    except Exception as error:  # whatever it is, the user gets one line
        raise PeerError(" ".join(f"{type(error).__name__}: {error}".split())) from error


def _run(settings: TrainSettings, *, events: bool) -> compare.ComparisonDocument | None:
    check_installed("torch")
    check_installed("safetensors")
    dataset = data.load(settings.data)
    from fewbits.train import worker  # torch comes with it: seconds, which bad data need not wait

    if events:
        end_with_parent()
        worker.work(settings, dataset, _emit)
        return None
    progress = RunsProgress(settings.operators)
    ended = worker.work(settings, dataset, progress.show)
    return compare.together(settings, ended) if os.environ["RANK"] == "0" else None


def _emit(event: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()
