"""Which candidate `auto` goes on with, given what the clock says."""

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from fewbits import DisagreementError, SpecError, ddp
from fewbits.exchange import auto, state
from fewbits.exchange.auto import Auto, Figures
from fewbits.exchange.factory import Factory
from fewbits.exchange.jobs import Job
from fewbits.exchange.plan import Names
from fewbits.exchange.stepwise import Stepwise
from fewbits.policy import Default
from fewbits.schemes.reduction import Progress

SAMPLE = np.random.default_rng(1).standard_normal(65_536, np.float32)
VALUES = 10_000_000
TRIAL = auto.WARM + auto.TIMED


def candidates(*, allow_bias: bool = True) -> Auto:
    """The real candidates, for a model of ten million values on two ranks."""
    factory = Factory("sharded", 1, 0, Default(), Names(), Progress())
    made = Auto(factory.candidates(allow_bias=allow_bias), ranks=2)
    # Only what has reduced something knows the model's size, and plain all-reduce comes first.
    made.candidates["none"].planner.sizes["weight"] = VALUES
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


@pytest.mark.parametrize("chosen", ["none", "natural", "tiny"])
def test_a_state_is_taken_by_a_run_that_has_not_decided_yet(chosen: str) -> None:
    net = torch.nn.Linear(200, 200)

    def built() -> ddp.Compression:
        return ddp.Compression("auto", names=net.named_parameters(), allow_bias=True)

    old, new = built(), built()
    assert old._auto is not None
    old._auto.current, old.step = chosen, 17
    old._reducer = old._auto.reducer
    step, _ = state.unpack(old.state_dict(), new._place(), reshard=False)
    assert step == 17
    other = ddp.Compression("natural", names=net.named_parameters())
    with pytest.raises(DisagreementError):
        state.unpack(old.state_dict(), other._place(), reshard=False)


def test_speeds_are_measured_on_the_largest_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(Stepwise, "_reduce", lambda *_: None)
    monkeypatch.setattr(Auto, "end_step", lambda *arguments: seen.append(arguments[-1].size))
    compression = ddp.Compression("auto")
    compression._comm = SimpleNamespace(size=2, largest=list)  # type: ignore[assignment]
    for _ in range(2):
        for index, size in enumerate((300, 5000, 20)):
            compression._reduce(Job(index, torch.ones(size), [], is_last=index == 2))
    assert seen == [5000, 5000]


def test_auto_leaves_nothing_else_to_choose() -> None:
    with pytest.raises(SpecError, match="'auto' chooses feedback itself"):
        ddp.Compression("auto", feedback="ef14")
    report = ddp.Compression("auto").report()
    assert report.worker == "none"
    assert report.trying == "none"
