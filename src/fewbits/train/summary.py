"""The last lines of a comparison on a link: how much sooner, how accurate, and where not."""

import math
from typing import Any

from fewbits.presets import AUTO
from fewbits.theory.quantities import rate_text
from fewbits.train import links, verdict
from fewbits.train.references import PLAIN_DDP, is_reference

_Run = dict[str, Any]
_SHARED = 1.25  # where computing takes more than so many times its processor's time


def lines(document: dict[str, Any]) -> list[str]:
    """The summary; empty without a link, or if plain DDP or fewbits has no run."""
    runs = document["runs"]
    found = compared(runs)
    if "link" not in document or found is None:
        return []
    best, plain = found
    said = [_gain(best, plain, document), _accuracy(best, plain, document["test_samples"])]
    said += [_auto(run) for run in runs if run.get("auto")]
    return said + _shared(plain) + _where_not(best["operator"], document.get("loopback") or [])


def compared(runs: list[_Run]) -> tuple[_Run, _Run] | None:
    """The fastest of our runs and the plain one; None if one is missing or the first diverged."""
    plain = verdict.run_named(runs, PLAIN_DDP)
    best = min((run for run in runs if _is_ours(run)), key=_milliseconds, default=None)
    if plain is None or best is None or best["loss"] is None or plain["loss"] is None:
        return None
    return best, plain


def _gain(best: _Run, plain: _Run, document: dict[str, Any]) -> str:
    link = document["link"]
    how = " (modelled)" if link["kind"] == links.MODELLED_LINK else ""
    times = _milliseconds(plain) / _milliseconds(best)
    text = f"On a link of {link['text']}{how} a step with {best['operator']} is {times:.1f}× as "
    text += f"fast as plain DDP: {best['steps']} steps in {best['seconds']:.1f} s"
    text += f" instead of {plain['seconds']:.1f} s"
    others = [run for run in document["runs"] if is_reference(run["operator"]) and run is not plain]
    for run in others:
        text += f"; {_milliseconds(run) / _milliseconds(best):.1f}× as fast as {run['operator']}"
    return f"{text}."


def _accuracy(best: _Run, plain: _Run, samples: int) -> str:
    ours, others = best["accuracy"], plain["accuracy"]
    margin = verdict.accuracy_margin(ours, others, samples)
    figures = f"{100 * ours:.1f} % against {100 * others:.1f} %"
    difference = f"{100 * (ours - others):+.1f} ± {100 * margin:.1f} points"
    told = "cannot tell them apart" if abs(ours - others) <= margin else "tell them apart"
    return f"Accuracy is {figures}: {difference}, {samples:,} test samples {told}."


def _auto(run: _Run) -> str:
    auto = run["auto"]
    return f"{run['operator']} chose {auto['chosen']} after {auto['step']} of {run['steps']} steps."


def _shared(plain: _Run) -> list[str]:
    """A line if plain DDP, which leaves processors idle, had to wait for them nevertheless."""
    took, worked = plain["step_ms"]["compute"], plain["busy_ms"].get("compute")
    if not worked or took <= _SHARED * worked:
        return []
    text = (
        f"The processors were shared: a step of plain DDP computed for {took:.1f} ms, of which a "
    )
    text += f"processor worked {worked:.1f} ms. With processors to themselves all steps are "
    return [f"{text}shorter, compressed ones most, because coding needs a processor too."]


def _where_not(operator: str, loopback: list[_Run]) -> list[str]:
    """From which rate on nothing is gained, by the steps that were measured on the loopback."""
    plain, own = verdict.run_named(loopback, PLAIN_DDP), verdict.run_named(loopback, operator)
    if plain is None or own is None:
        return []
    ends = {run["operator"]: verdict.gain_below(run, plain) for run in loopback if _is_ours(run)}
    last = max(ends, key=lambda name: ends[name])
    text = f"{operator} {_end(ends[operator])}"
    if ends[last] > ends[operator]:
        text += f", {last} {_end(ends[last])}"
    text += " (model: bytes saved against time added on the loopback)."
    ours, others = _milliseconds(own), _milliseconds(plain)
    which = "do not compress there" if ours >= others else "even there it gains"
    there = f"a step took {ours:.1f} ms with {operator} and {others:.1f} ms without"
    return [text, f"On this machine's loopback, faster than most networks, {there}: {which}."]


def _end(gbit: float) -> str:
    """Where the gain ends, which must not be read as more than what a noisy machine can tell."""
    if gbit == 0:
        return "pays on no link"
    if math.isinf(gbit):
        return "added no time here that could be measured"
    return f"does not pay from about {rate_text(1e9 * gbit)} on"


def _is_ours(run: _Run) -> bool:
    return run["operator"] != AUTO and not is_reference(run["operator"])


def _milliseconds(run: _Run) -> float:
    return float(run["step_ms"]["total"])
