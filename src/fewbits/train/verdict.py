"""One sentence on whether an operator helped, computed from the measurements."""

import math
from collections.abc import Sequence
from typing import Any

from fewbits.theory.quantities import rate_text
from fewbits.train.references import PLAIN_DDP

_DRIFT = 0.1  # of the time for computing that is no cause for doubt


def add_verdicts(
    runs: Sequence[dict[str, Any]], test_samples: int, loopback: Sequence[dict[str, Any]] = ()
) -> None:
    """Add a verdict to every run, against the run without compression.

    Where an operator and plain DDP have run on the loopback too, those steps say where it gains.
    """
    baseline = run_named(runs, PLAIN_DDP)
    for run in runs:
        run["gain_below_gbit"] = None
        if baseline is None:
            run["verdict"] = "nothing to compare with: add --operator none"
        elif run is baseline:
            run["verdict"] = "what the others are compared with"
        else:
            pair = run_named(loopback, run["operator"]), run_named(loopback, PLAIN_DDP)
            judged = (run, baseline) if pair[0] is None or pair[1] is None else (pair[0], pair[1])
            below = gain_below(*judged)
            # JSON has no infinity: None stands for both ends, and the sentence says which.
            run["gain_below_gbit"] = below if 0 < below < math.inf else None
            time = _time(run, baseline, below, _disturbance(*judged))
            run["verdict"] = f"{_bytes(run)} {_accuracy(run, baseline, test_samples)}; {time}"


def run_named(runs: Sequence[dict[str, Any]], operator: str) -> dict[str, Any] | None:
    """The run of this operator, if there is one."""
    return next((run for run in runs if run["operator"] == operator), None)


def gain_below(run: dict[str, Any], baseline: dict[str, Any]) -> float:
    """The link speed in Gbit/s below which the saved bytes outweigh the added time.

    It is 0 if that never happens and infinity if it always does.

    The added time is the additional waiting of a step on this link, or the codec's seconds if they
    are more: a codec that overlaps with computing here need not do so elsewhere.
    """
    saved = baseline["bytes_per_step"] - run["bytes_per_step"]
    if saved <= 0:
        return 0.0
    ours, plain = (r["step_ms"]["total"] - r["step_ms"]["compute"] for r in (run, baseline))
    added = max(ours - plain, run["busy_ms"]["codec"])
    return 8e-6 * saved / added if added > 0 else math.inf


def accuracy_margin(ours: float, plain: float, test_samples: int) -> float:
    """A difference of two shares up to which it cannot be told from chance."""
    variance = (ours * (1 - ours) + plain * (1 - plain)) / test_samples
    return 2 * math.sqrt(variance) + 1 / test_samples  # two standard errors and one sample


def _bytes(run: dict[str, Any]) -> str:
    about = "about " if run["bytes_kind"] == "estimated" else ""
    if run["ratio"] >= 1.005:
        return f"sent {about}{run['ratio']:.1f}× fewer bytes"
    more = 1 / run["ratio"] if run["ratio"] else math.inf
    return f"saved no bytes (sent {about}{more:.2f}× as many)"


def _accuracy(run: dict[str, Any], baseline: dict[str, Any], test_samples: int) -> str:
    ours, plain = run["accuracy"], baseline["accuracy"]
    if run["loss"] is None:
        return "but diverged"
    figures = f"({100 * ours:.1f} % vs {100 * plain:.1f} %)"
    if abs(ours - plain) <= accuracy_margin(ours, plain, test_samples):
        # That is no proof of equality, so the size of the test is said beside it.
        return f"at an accuracy that {test_samples:,} test samples cannot tell apart {figures}"
    return f"{'and was more' if ours > plain else 'but was less'} accurate {figures}"


def _time(run: dict[str, Any], baseline: dict[str, Any], below: float, doubt: str) -> str:
    ours, plain = run["step_ms"]["total"], baseline["step_ms"]["total"]
    more = "less" if ours < plain else "more"
    times = f"{ours / plain - 1:+.0%}" if ours > plain else f"{plain / ours:.1f}× as fast"
    here = f"on this link a step took {abs(ours - plain):.1f} ms {more} ({times})"
    if below == 0:
        return f"{here}: expect no gain on any link"
    if math.isinf(below) and ours > plain:
        return f"{here}, though it waited less: too noisy to tell where it gains"
    where = "on any link" if math.isinf(below) else f"below about {rate_text(1e9 * below)}"
    return f"{here}: expect a gain {where}{doubt}"


def _disturbance(run: dict[str, Any], baseline: dict[str, Any]) -> str:
    """A warning if computing, the same work in both runs, took another time."""
    change = run["step_ms"]["compute"] / baseline["step_ms"]["compute"] - 1
    if abs(change) <= _DRIFT:
        return ""
    than = f"{abs(change):.0%} {'longer' if change > 0 else 'less'}"
    return f" (computing, the same work, took {than}: processors were shared, so times are rough)"
