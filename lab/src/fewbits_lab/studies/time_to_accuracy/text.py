"""Makes the text of README and docs about `time-to-accuracy`."""

import math
from statistics import fmean, stdev

from fewbits_lab.prose import paragraph
from fewbits_lab.record import Item
from fewbits_lab.results import results
from fewbits_lab.studies.time_to_accuracy import show
from fewbits_lab.tables import markdown


def race() -> dict[str, list[Item]]:
    """The runs of the race by contender."""
    return show.by_name(results("time-to-accuracy"))


def mean_seconds(runs: list[Item]) -> float:
    """The mean seconds until the goal."""
    return fmean(run["seconds"] for run in runs)


def standard_error(runs: list[Item]) -> float:
    """The standard error of the mean of seconds."""
    seconds = [run["seconds"] for run in runs]
    return stdev(seconds) / math.sqrt(len(seconds)) if len(seconds) > 1 else math.nan


def race_table() -> str:
    """Seconds until the goal of the race."""
    return markdown(show.race(results("time-to-accuracy")))


def race_verdict() -> str:
    """Tiny against plain, the cast and PowerSGD."""
    runs = race()
    seconds = {name: mean_seconds(own) for name, own in runs.items()}
    steps = {
        name: 1e3 * fmean(run["seconds"] / run["steps"] for run in own)
        for name, own in runs.items()
    }
    tiny, other = "tiny", "powersgd:rank=4"
    gap = seconds[tiny] - seconds[other]
    error = math.hypot(standard_error(runs[tiny]), standard_error(runs[other]))
    doubt = (
        "less than two standard errors, so"
        if abs(gap) < 2 * error
        else "more than two standard errors, and"
    )
    return paragraph(
        f"`tiny` is {seconds['none'] / seconds[tiny]:.1f} times as fast as plain DDP and",
        f"{seconds['fp16-hook'] / seconds[tiny]:.1f} times as fast as the cast. PowerSGD of rank 4 took {abs(gap):.1f} s",
        f"{'less' if gap > 0 else 'more'} than `tiny`, which is {doubt} the seeds",
        f"{'do not decide' if abs(gap) < 2 * error else 'decide'} between them: a step takes",
        f"{steps[tiny]:.0f} and {steps[other]:.0f} ms, most of it on the processors.",
    )  # fmt: skip
