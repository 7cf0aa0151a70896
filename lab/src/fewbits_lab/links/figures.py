"""Medians, quartiles and ratios with bootstrap intervals of steps that took turns."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

_RESAMPLES = 4000
_SEED = 7


class Times(NamedTuple):
    """Seconds: the median and the quartiles."""

    median: float
    low: float
    high: float


class Ratio(NamedTuple):
    """How many times as fast, and the interval that holds it in 95 of 100 cases."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def times(samples: Sequence[float]) -> Times:
    """The median and the quartiles of some samples."""
    low, median, high = np.quantile(samples, (0.25, 0.5, 0.75))
    return Times(float(median), float(low), float(high))


def ratio(base: Sequence[float], own: Sequence[float]) -> Ratio:
    """The base's median over the own one.

    The interval resamples rounds, not samples: what disturbed a round disturbed both.
    """
    one, two = np.asarray(base, np.float64), np.asarray(own, np.float64)
    rounds = np.random.default_rng(_SEED).integers(one.size, size=(_RESAMPLES, one.size))
    resampled = np.median(one[rounds], axis=1) / np.median(two[rounds], axis=1)
    low, high = np.quantile(resampled, (0.025, 0.975))
    return Ratio(float(np.median(one) / np.median(two)), float(low), float(high))


def of_contender(ranks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One contender's figures from all ranks' samples.

    A step ends when its slowest rank has ended. Seconds and bytes of a step are means over rounds
    and ranks; the busiest rank is the one that sends most.
    """
    samples = [own["samples"] for own in ranks]
    seconds = [max(turn) for turn in zip(*(_column(s, "seconds") for s in samples), strict=True)]
    names = ("codec_seconds", "codec_cpu_seconds", "wire_seconds", "cpu_seconds")
    figures: dict[str, Any] = {
        "step_seconds": times(seconds)._asdict(),
        "samples": seconds,
        **{name: float(np.mean([_column(s, name) for s in samples])) for name in names},
    }
    for name, key in (("interface", "interface_bytes"), ("reported", "sent_bytes")):
        sent = [float(np.mean(_column(s, key))) for s in samples]
        figures[f"{name}_bytes"] = {"mean": float(np.mean(sent)), "busiest": max(sent)}
    hashes = {own["sha256"] for own in ranks}
    figures["replicas_agree"] = len(hashes) == 1
    figures["parameters_sha256"] = hashes.pop() if len(hashes) == 1 else None
    figures["warnings"] = ranks[0]["warnings"]
    return figures


def _column(samples: Sequence[dict[str, float]], name: str) -> list[float]:
    return [sample[name] for sample in samples]
