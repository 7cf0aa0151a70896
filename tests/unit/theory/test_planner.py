"""The planner: what it multiplies, how it ranks, and when it says not to compress."""

import math

import pytest

from fewbits import Guarantee
from fewbits.theory import bounds, cost, planner
from fewbits.theory.cost import Codec, Link, TrainingJob
from fewbits.theory.planner import Candidate, Setting

FAST = Codec(9.0, 2e9, 2e9)
NATURAL = Candidate("natural", Guarantee(0, omega=1 / 8), FAST)
NOISY = Candidate("noisy", Guarantee(0, omega=50.0), Codec(1.0, 2e9, 2e9))
CAST = Candidate("cast", Guarantee(0, alpha=2.0**-16, sure=True), Codec(16.0, 2e9, 2e9))
COARSE = Candidate("coarse", Guarantee(0, alpha=0.9), Codec(0.1, 1e9, 1e9))
ALL = [COARSE, NOISY, CAST, NATURAL]


def setting(rate: float, workers: int = 8, **more: float) -> Setting:
    return Setting(TrainingJob(25_000_000, workers, 0.2), Link(rate, 0.001), **more)


def test_a_prediction_is_step_time_times_iterations() -> None:
    own = planner.predict(NATURAL, setting(1e9))
    step = cost.step_time(TrainingJob(25_000_000, 8, 0.2), Link(1e9, 0.001), FAST, cost.sharded)
    assert own.step == step
    assert own.slowdown == 81 / 64
    assert own.seconds_per_progress == pytest.approx(81 / 64 * step.total_seconds)
    assert own.gain == pytest.approx(setting(1e9).plain.total_seconds / own.seconds_per_progress)


def test_less_noise_in_gradients_and_one_direction_help() -> None:
    calm = planner.predict(NATURAL, setting(1e9, noise=0.0))
    assert calm.slowdown == 9 / 8 * (1 + 1 / 64)
    one = planner.predict(NATURAL, setting(1e9, collective=cost.gather))
    assert one.slowdown == 9 / 8


def test_the_soonest_is_first_and_those_without_promise_are_last() -> None:
    slow = planner.ranked(ALL, setting(1e9))
    assert [own.spec for own in slow] == ["natural", "cast", "noisy", "coarse"]
    assert slow[-1].slowdown is None
    assert slow[-1].step.total_seconds < slow[0].step.total_seconds  # and yet it is last
    assert next(own.spec for own in planner.ranked(ALL, setting(1e11))) == "cast"


def test_compression_is_advised_on_slow_links_only() -> None:
    chosen = planner.best(planner.ranked(ALL, setting(1e9)))
    assert chosen is not None
    assert chosen.spec == "natural"
    assert planner.best(planner.ranked(ALL, setting(1e12))) is None
    assert planner.best(planner.ranked(ALL, setting(1e6, workers=1))) is None
    assert planner.best([]) is None


@pytest.mark.parametrize("latency", [0.0, 0.0001, 0.001, 0.01])
@pytest.mark.parametrize("overlap", [0.0, 0.9])
@pytest.mark.parametrize("candidates", [ALL, [NATURAL], [CAST], [NOISY]])
def test_advice_changes_exactly_where_compression_is_said_to_pay(
    latency: float, overlap: float, candidates: list[Candidate]
) -> None:
    job = TrainingJob(25_000_000, 2, 0.2, overlap)

    def rows(rate: float) -> list[planner.Prediction]:
        return planner.ranked(candidates, Setting(job, Link(rate, latency, 0.001, 0.2)))

    below = planner.pays_below_bits_per_second(rows(1e9))
    assert below == pytest.approx(planner.pays_below_bits_per_second(rows(1e11)))
    for rate in (1e3, 1e6, 1e8, 1e9, 1e11, 0.999 * below, 1.001 * below):
        assert rate == 0 or (planner.best(rows(rate)) is not None) == (rate < below)
    for row in rows(1e9):
        even, pays = row.break_even_bits_per_second, row.pays_below_bits_per_second
        assert (even is None) == (pays is None)
        assert even is None or pays == 0 or pays < even
    assert planner.pays_below_bits_per_second([]) == 0


def test_two_biased_operators_lose_by_the_triangle_inequality() -> None:
    assert bounds.biased_slowdown(0.0, 0.0) == 1
    assert bounds.biased_slowdown(0.1, 0.0) == pytest.approx(1 / 0.9)
    root = (1 + math.sqrt(0.1)) ** 2 - 1
    assert bounds.biased_slowdown(0.1, 0.1) == pytest.approx(1 / (1 - root**2))
    assert bounds.biased_slowdown(0.5, 0.5) is None
    assert bounds.biased_slowdown(1.0, 0.0) is None
