"""Computes the figures that are compared from a run's history, as plain JSON values."""

import json
import math
import os
import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean, median
from typing import Any

from fewbits.train.history import History
from fewbits.train.settings import TrainSettings

RESULT_FORMAT = "fewbits-train"
RESULT_VERSION = 1
_POINTS = 60  # of a curve: as many as a figure can show

_Result = dict[str, Any]


def of_run(history: History, counted: Mapping[str, Any]) -> _Result:
    """One run; `counted` comes from the exchange and the model. Bytes are the busiest rank's."""
    steps, last = len(history.losses), history.epochs[-1]
    return {
        **counted,
        "steps": steps,
        "accuracy": finite(last.accuracy),
        "test_loss": finite(last.test_loss),
        "loss": finite(last.loss),
        "seconds": sum(history.seconds),
        "bytes_per_step": last.sent / steps,
        "fp32_bytes_per_step": last.plain / steps,
        "ratio": last.plain / last.sent if last.sent else 1.0,
        "step_ms": _split(history, local=bool(counted.get("local_steps"))),
        "busy_ms": {
            "codec": 1e3 * last.codec_seconds / steps,
            "wire": 1e3 * last.wire_seconds / steps,
            "compute": 1e3 * median(history.worked) if history.worked else None,
        },
        "curve": _curve(history),
        "epochs": [
            {name: finite(value) for name, value in asdict(epoch).items()}
            for epoch in history.epochs
        ],
    }


def document(settings: TrainSettings, about: Mapping[str, Any], runs: Sequence[_Result]) -> _Result:
    """The whole comparison, with the settings to repeat it."""
    return {
        "format": RESULT_FORMAT,
        "version": RESULT_VERSION,
        "command": shlex.join(["fewbits", "train", *settings.arguments()]),
        "settings": _settings(settings),
        **about,
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in ("fewbits", "torch", "numpy")},
        },
        "machine": {
            "system": platform.system(),
            "architecture": platform.machine(),
            "processors": os.cpu_count(),
        },
        "runs": list(runs),
    }


def _settings(settings: TrainSettings) -> _Result:
    """The settings under the names that version 1 of the format has."""
    names = {"downlink": "master", "collective": "scheme"}
    return {names.get(name, name): value for name, value in asdict(settings).items()}


def write(document: _Result, path: Path) -> None:
    unfinished = path.with_name(path.name + ".tmp")
    unfinished.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    unfinished.replace(path)


def finite(value: float) -> float | None:
    """The value, or None if JSON cannot hold it because the run diverged."""
    return value if math.isfinite(value) else None


def _split(history: History, *, local: bool) -> dict[str, float]:
    """A typical step and its parts, which add up to it.

    These are medians, because other programs on the machine disturb some steps badly, and means if
    only some steps exchange. The time that a step waits is divided between codec and wire in the
    ratio of their busy seconds.
    """
    typical, skipped = fmean if local else median, _undecided(history)
    first = skipped * len(history.losses) // len(history.epochs)
    total, blocked = (1e3 * typical(own[first:]) for own in (history.seconds, history.blocked))
    before = history.epochs[skipped - 1] if skipped else None
    coding, wire = (
        getattr(history.epochs[-1], name) - (getattr(before, name) if before else 0.0)
        for name in ("codec_seconds", "wire_seconds")
    )
    codec = blocked * coding / (coding + wire) if coding + wire else 0.0
    return {"total": total, "compute": total - blocked, "codec": codec, "wire": blocked - codec}


def _undecided(history: History) -> int:
    """How many epochs to leave out because `auto` tried operators in most of them; 0 if in all."""
    auto, epochs = history.exchange.get("auto"), len(history.epochs)
    trying = round(auto["step"] * epochs / len(history.losses)) if auto else 0
    return trying if trying < epochs else 0


def _curve(history: History) -> list[dict[str, float | None]]:
    """Training loss against steps, bytes and seconds, averaged over windows of steps."""
    steps, per_step = len(history.losses), history.epochs[-1].sent / len(history.losses)
    window = max(1, math.ceil(steps / _POINTS))
    points: list[dict[str, float | None]] = []
    seconds = 0.0
    for start in range(0, steps, window):
        stop = min(steps, start + window)
        seconds += sum(history.seconds[start:stop])
        points.append(
            {
                "step": stop,
                "loss": finite(fmean(history.losses[start:stop])),
                "bytes": per_step * stop,
                "seconds": seconds,
            }
        )
    return points


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
