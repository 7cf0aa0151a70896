"""Which candidate `auto` goes on with, given what the clock says."""

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("torch")

from fewbits import SpecError, ddp
from fewbits.exchange import auto
from fewbits.exchange.auto import Auto, Figures
from fewbits.exchange.factory import Factory
from fewbits.exchange.plan import Names
from fewbits.policy import Default
from fewbits.schemes.reduction import Progress

SAMPLE = np.random.default_rng(1).standard_normal(65_536, np.float32)
VALUES = 10_000_000
TRIAL = auto.WARM + auto.TIMED


def candidates(*, allow_bias: bool = True) -> Auto:
    """The real candidates, for a model of ten million values on two ranks."""
    factory = Factory("sharded", 1, 0, Default(), Names(), Progress())
    made = Auto(factory.candidates(allow_bias=allow_bias), ranks=2)
    for reducer in made.candidates.values():
        reducer.planner.sizes["weight"] = VALUES
    return made


def measured(step: float, *, compute: float = 0.02, sent: float = 0.0) -> Figures:
    return Figures(step, step - compute, 0.001, sent)


def drive(
    chooser: Auto, times: dict[str, float], steps: int, largest: Callable[..., list[float]] = list
) -> list[str]:
    """The candidate of each step; plain all-reduce sends 40 MB."""
    used = []
    for step in range(steps):
        used.append(chooser.current)
        now = times[chooser.current]
        sent = 40e6 if chooser.current == "none" else 5e6
        chooser.end_step(step, measured(now, sent=sent), largest, SAMPLE)
    return used


SLOW = {
    "none": 3.4,
    "bfloat16": 1.8,
    "natural": 1.0,
    "natural:coder=rans": 0.5,
    "tiny": 0.1,
}


def test_the_fastest_by_the_clock_is_chosen() -> None:
    chooser = candidates()
    used = drive(chooser, SLOW, 60)
    decision = chooser.decision
    assert decision is not None
    assert decision.chosen == used[-1] == "tiny"
    assert used[: auto.SETTLE] == ["none"] * auto.SETTLE
    tried = {name for name in used if name != "tiny"}
    assert tried >= {"none", "natural:coder=rans"}
    assert used[-5:] == ["tiny"] * 5
    assert decision.bandwidth_bits_per_second == pytest.approx(8 * 40e6 / 3.38)
    assert decision.compute_seconds == pytest.approx(0.02)
    assert "tiny since step" in str(decision)


def test_bias_must_be_allowed() -> None:
    chooser = candidates(allow_bias=False)
    assert drive(chooser, SLOW, 60)[-1] == "natural:coder=rans"


def test_what_the_model_rules_out_is_not_tried() -> None:
    """On a link of 100 Gbit/s a step takes 23 ms: coding alone would take longer than that."""
    chooser = candidates()
    used = drive(chooser, dict.fromkeys(SLOW, 0.0232), 60)
    decision = chooser.decision
    assert decision is not None
    assert decision.chosen == used[-1] == "none"
    untried = {choice.name for choice in decision.choices if choice.measured is None}
    assert "tiny" in untried
    assert untried.isdisjoint(used)
    assert all(choice.predicted for choice in decision.choices if choice.measured is None)
    assert "predicted, not tried" in str(decision)


def test_of_equally_fast_ones_the_one_that_loses_least() -> None:
    times = SLOW | {"bfloat16": 1.01, "natural": 1.0, "natural:coder=rans": 1.2, "tiny": 1.3}
    assert drive(candidates(), times, 90)[-1] == "bfloat16"


def test_the_slowest_rank_counts() -> None:
    """Another rank needs 2 s for the operator that is fast here."""

    def largest(numbers: list[float]) -> list[float]:
        return [max(number, 2.0) if number == 0.1 else number for number in numbers]

    assert drive(candidates(), SLOW, 60, largest)[-1] == "natural:coder=rans"


def test_candidates_are_tried_again_after_a_long_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "RECHECK", 20)
    chooser = candidates()
    drive(chooser, SLOW, 5 * TRIAL + auto.SETTLE)
    assert chooser.current == "tiny"
    assert set(drive(chooser, SLOW, 20)) == {"tiny"}
    later = SLOW | {"natural": 0.05}
    used = drive(chooser, later, 80)
    assert "none" in used
    assert "natural" in used[-10:]


def test_a_trial_that_was_disturbed_is_not_the_last_word() -> None:
    """Something else ran during the first trial of plain all-reduce, which is the fastest."""
    chooser = candidates(allow_bias=False)
    steady = {"none": 0.080, "bfloat16": 0.100, "natural": 0.090, "natural:coder=rans": 0.120}
    disturbed = steady | {"none": 0.125}
    drive(chooser, disturbed, auto.SETTLE + TRIAL)
    assert chooser.current != "none"
    used = drive(chooser, steady, 10 * TRIAL)
    assert chooser.decision is not None
    assert chooser.decision.chosen == used[-1] == "none"
    assert chooser.decision.compute_seconds == pytest.approx(0.02)


def test_what_is_far_behind_has_one_trial() -> None:
    chooser = candidates()
    used = drive(chooser, SLOW, 100)
    assert used.count("none") == auto.SETTLE + TRIAL
    assert used.count("natural:coder=rans") == TRIAL


def test_auto_leaves_nothing_else_to_choose() -> None:
    with pytest.raises(SpecError, match="'auto' chooses feedback itself"):
        ddp.Compression("auto", feedback="ef14")
    report = ddp.Compression("auto").report()
    assert report.worker == "none"
    assert report.trying == "none"
