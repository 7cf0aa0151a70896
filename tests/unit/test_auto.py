"""Which candidate `auto` goes on with, given what the clock says."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from fewbits import DisagreementError, SpecError
from fewbits.collectives.comm import LocalComm
from fewbits.collectives.progress import RankProgress
from fewbits.core.operator import Operator
from fewbits.low_rank import low_rank
from fewbits.presets import LOW_RANK, PRESETS
from fewbits.rng import Rng
from fewbits.session import (
    ArrayValues,
    Job,
    ModelParameter,
    ModelParameters,
    Options,
    Report,
    Session,
    auto,
    thin,
)
from fewbits.session.auto import Auto, Figures
from fewbits.session.defaults import routes
from fewbits.session.plain import Plain
from fewbits.session.reducer import Compressed, Reducer
from fewbits.session.routing import Routing
from fewbits.theory import cost
from fewbits.theory.cost import Codec

SAMPLE = np.random.default_rng(1).standard_normal(65_536, np.float32)
VALUES = 10_000_000
TRIAL = auto.WARM + auto.TIMED_STEPS


def candidates(*, allow_bias: bool = True) -> Auto:
    """The real candidates, for a model of ten million values on two ranks."""
    options, progress = Options(allow_bias=allow_bias), RankProgress()
    routings = candidate_routings(options)
    made: dict[str, Reducer] = {
        name: Compressed(each, progress, options, Rng.from_seed(0))
        for name, each in routings.items()
    }
    made["none"] = Plain(routings["none"], progress)
    chooser = Auto(made, ranks=2)
    # Only what has reduced something knows the model's size, and plain all-reduce comes first.
    chooser.candidates["none"].routing.sizes["weight"] = VALUES
    return chooser


def candidate_routings(
    options: Options, model: ModelParameters | None = None
) -> dict[str, Routing]:
    found = routes("auto", None, options, model or ModelParameters())
    assert isinstance(found, dict)
    return found


def session(comm: LocalComm, **options: Any) -> Session:
    """A session that chooses for itself."""
    chosen, model = Options(**options), ModelParameters([ModelParameter("weight", (200, 200))])
    return Session(comm, candidate_routings(chosen, model), chosen)


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
    "two-bit": 0.6,
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


def fitting(**options: Any) -> tuple[Auto, dict[str, float]]:
    """With a matrix that fits `low-rank`, and the seconds of each candidate's step."""
    chosen, progress = Options(allow_bias=True, **options), RankProgress()
    model = ModelParameters([ModelParameter("weight", (4000, 2500))])
    made: dict[str, Reducer] = {
        name: Compressed(each, progress, chosen, Rng.from_seed(0))
        for name, each in candidate_routings(chosen, model).items()
    }
    made["none"] = Plain(made["none"].routing, progress)
    made["none"].routing.sizes["weight"] = VALUES
    return Auto(made, ranks=2), SLOW | {"low-rank": 0.08}


def test_factors_are_tried_where_a_matrix_fits_and_bias_is_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(thin, "measured", lambda *_: Codec(0.01, 1e9, 1e9))
    chooser, times = fitting()
    assert list(chooser.candidates)[-2:] == ["low-rank", "tiny"]
    assert drive(chooser, times, 110)[-1] == "low-rank"
    assert "low-rank" not in fitting(collective="star")[0].candidates
    small = ModelParameters([ModelParameter("weight", (40, 40))])
    for options, model in ((Options(allow_bias=True), small), (Options(), small)):
        assert "low-rank" not in candidate_routings(options, model)
    large = ModelParameters([ModelParameter("weight", (4000, 2500))])
    assert "low-rank" not in candidate_routings(Options(), large)


def test_factors_are_not_tried_where_their_passes_take_longer_than_a_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(thin, "measured", lambda *_: Codec(0.01, 1e9, 2e9))
    chooser, times = fitting()
    used = drive(chooser, dict.fromkeys(times, 0.0201), 80)
    assert "low-rank" not in used
    assert chooser.decision is not None
    found = {each.name: each for each in chooser.decision.choices}
    assert (found["low-rank"].predicted or 0) == pytest.approx(0.02 + 0.015, rel=0.1)


def test_what_factors_cost_is_told_of_the_model() -> None:
    wanted = low_rank(PRESETS[LOW_RANK].operator)
    assert wanted is not None
    parameters = [ModelParameter("weight", (400, 200)), ModelParameter("bias", (400,))]
    told = {wanted.operator: 2.0}
    found = thin.measured(wanted, parameters, SAMPLE, lambda own: told.get(own, 5.0))
    assert found.bits_per_value == pytest.approx((8 * 600 + 400) * 2 / 80_400)
    assert 1e6 < found.encode_values_per_second < 1e12
    for ranks, sent, hops in ((2, 100, 2), (4, 150, 4), (5, 160, 4)):
        assert cost.factored(100, ranks)[:4] == (100, 100, sent, hops)
    assert cost.factored(100, 1).sent == 0


def test_bias_must_be_allowed() -> None:
    chooser = candidates(allow_bias=False)
    assert drive(chooser, SLOW, 90)[-1] == "natural:coder=rans"


@pytest.mark.parametrize(("slower", "chosen"), [(1, "two-bit"), (1000, "none")])
def test_two_bits_are_tried_and_kept_where_the_link_is_slow(
    monkeypatch: pytest.MonkeyPatch, slower: float, chosen: str
) -> None:
    """Codecs as given, no clock: 30 ns a value of two bits pay at 95 Mbit/s, not at 95 Gbit/s."""

    def codec(operator: Operator, sample: object) -> Codec:
        small = operator.name == "trellis"
        return Codec(2.0 if small else 9.0, *(2 * [3e7 if small else 1e9]))

    monkeypatch.setattr(auto, "measured", codec)
    chooser = candidates(allow_bias=False)
    plain = 0.02 + 3.38 / slower
    used = drive(chooser, dict.fromkeys(SLOW, plain) | {"two-bit": 0.8}, 80)
    assert chooser.decision is not None
    assert chooser.decision.chosen == used[-1] == chosen
    assert ("two-bit" in used) == (chosen == "two-bit")


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
    slower = dict.fromkeys(("natural:coder=rans", "two-bit", "tiny"), 1.3)
    times = SLOW | {"bfloat16": 1.01, "natural": 1.0} | slower
    assert drive(candidates(), times, 150)[-1] == "bfloat16"


def test_the_slowest_rank_counts() -> None:
    """Another rank needs 2 s for the operator that is fast here."""

    def largest(numbers: list[float]) -> list[float]:
        return [max(number, 2.0) if number == 0.1 else number for number in numbers]

    assert drive(candidates(), SLOW, 60, largest)[-1] == "natural:coder=rans"


def test_candidates_are_tried_again_after_a_long_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "RECHECK", 20)
    chooser = candidates()
    while chooser.decision is None:
        drive(chooser, SLOW, 1)
    assert chooser.current == "tiny"
    assert set(drive(chooser, SLOW, 20)) == {"tiny"}
    later = SLOW | {"natural": 0.05}
    used = drive(chooser, later, 80)
    assert "none" in used
    assert "natural" in used[-10:]


def test_a_trial_that_was_disturbed_is_not_the_last_word() -> None:
    """Something else ran during the first trial of plain all-reduce, which is the fastest."""
    chooser = candidates(allow_bias=False)
    steady = SLOW | {
        "none": 0.080,
        "bfloat16": 0.100,
        "natural": 0.090,
        "natural:coder=rans": 0.120,
    }
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


def step(own: Session, sizes: Sequence[int]) -> None:
    """One step with a batch of each size."""
    for index, size in enumerate(sizes):
        values = ArrayValues(np.ones(size, np.float32))
        parameter = ModelParameter(f"p{index}", (size,))
        job = Job(index, values, [parameter], is_last=index == len(sizes) - 1)
        own.submit(job)
    own.wait(job)


@pytest.mark.parametrize("chosen", ["none", "natural", "tiny"])
def test_a_state_is_taken_by_a_run_that_has_not_decided_yet(
    chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (session(LocalComm.group(1)[0], allow_bias=True) for _ in range(2))
    monkeypatch.setattr(Auto, "reducer", property(lambda self: self.candidates[chosen]))
    old.progress.step = 17
    saved = old.checkpoint.state_dict()
    monkeypatch.undo()
    new.checkpoint.load_state_dict(saved)
    assert new.progress.step == 17
    options, model = Options(), ModelParameters([ModelParameter("weight", (200, 200))])
    other = Session(LocalComm.group(1)[0], routes("natural", None, options, model), options)
    with pytest.raises(DisagreementError):
        other.checkpoint.load_state_dict(saved)


def test_speeds_are_measured_on_the_largest_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(Auto, "end_step", lambda *arguments: seen.append(arguments[-1].size))
    sessions = [session(comm) for comm in LocalComm.group(2)]
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(Session.start, sessions))
        for _ in range(2):
            list(threads.map(lambda own: step(own, (300, 5000, 20)), sessions))
        list(threads.map(Session.close, sessions))
    assert seen == [5000] * 4


def test_auto_leaves_nothing_else_to_choose() -> None:
    with pytest.raises(SpecError, match="'auto' chooses feedback itself"):
        routes("auto", None, Options(feedback="ef14"), ModelParameters())
    report = Report(**session(LocalComm.group(1)[0]).figures())
    assert report.uplink == "none"
    assert report.trying == "none"
