"""Theorem 9 as numbers: its identities, its limits, its printed slowdowns and its refusals."""

import math
from itertools import pairwise

import numpy as np
import pytest

from fewbits.errors import SpecError
from fewbits.theory import bounds
from fewbits.theory.bounds import EXACT_PAIR, Pair, Problem

NATURAL = 1 / 8
PROBLEM = Problem(smoothness=3.0, gap=2.0, workers=8, variance=5.0, dissimilarity=0.7)
PAIRS = [EXACT_PAIR, Pair(NATURAL, 0), Pair(0, NATURAL), Pair(NATURAL, NATURAL), Pair(9.0, 0.5)]
pairs = pytest.mark.parametrize("pair", PAIRS, ids=str)


def test_without_compression_the_constants_are_those_of_sgd() -> None:
    assert bounds.noise_floor(PROBLEM, EXACT_PAIR) == 5.0 / 8  # dissimilarity does not matter then
    assert bounds.noise_slope(8, EXACT_PAIR) == 1
    assert bounds.largest_step(PROBLEM, EXACT_PAIR) == 2 / 3
    quiet = Problem(smoothness=3.0, gap=2.0, workers=8)
    assert bounds.step_size(quiet, EXACT_PAIR, 0.01) == pytest.approx(1 / 3)
    assert bounds.iterations(quiet, EXACT_PAIR, 0.01) == 2 * 3 * 2 / 0.01


def test_the_constants_are_the_papers_on_numbers_worked_by_hand() -> None:
    pair = Pair(uplink=1.0, downlink=3.0)
    assert bounds.noise_floor(PROBLEM, pair) == pytest.approx(4 * 2 / 8 * 5 + 4 * 1 / 8 * 0.7)
    assert bounds.noise_slope(8, pair) == pytest.approx(1 + 3 + 4 * 1 / 8)


@pairs
@pytest.mark.parametrize("target", [1.0, 0.1, 1e-4])
def test_at_its_step_and_iterations_the_bound_is_the_target(pair: Pair, target: float) -> None:
    step = bounds.step_size(PROBLEM, pair, target)
    count = bounds.iterations(PROBLEM, pair, target)
    assert 0 < step < bounds.largest_step(PROBLEM, pair)
    assert bounds.gradient_bound(PROBLEM, pair, step, count) <= target * (1 + 1e-12)
    assert bounds.gradient_bound(PROBLEM, pair, step, count - 1) > target * (1 - 1e-9)
    # No other step of the same number of iterations is much better where the target is strict.
    steps = step * np.geomspace(0.25, 1.9, 50)
    found = [bounds.gradient_bound(PROBLEM, pair, float(s), count) for s in steps if s < 2 * step]
    assert min(found) > target / 2


@pairs
def test_noise_grows_with_both_omegas_and_falls_with_workers(pair: Pair) -> None:
    more = [Pair(pair.uplink + 0.1, pair.downlink), Pair(pair.uplink, pair.downlink + 0.1)]
    for larger in more:
        assert bounds.noise_floor(PROBLEM, larger) > bounds.noise_floor(PROBLEM, pair)
        assert bounds.noise_slope(8, larger) > bounds.noise_slope(8, pair)
        assert bounds.iterations(PROBLEM, larger, 0.1) > bounds.iterations(PROBLEM, pair, 0.1)
        assert bounds.step_size(PROBLEM, larger, 0.1) < bounds.step_size(PROBLEM, pair, 0.1)
    counts = [
        bounds.iterations(Problem(3.0, 2.0, n, 5.0, 0.7), pair, 0.1) for n in (1, 2, 4, 8, 64)
    ]
    assert all(few > many for few, many in pairwise(counts))


def test_the_slowdown_of_natural_compression_is_the_printed_one() -> None:
    both, up = Pair(NATURAL, NATURAL), Pair(NATURAL, 0)
    assert f"{bounds.slowdown(both, 1, 0.0):.3f}" == "1.266"  # 81/64 with one worker,
    assert f"{bounds.slowdown(both, 8):.3f}" == "1.266"  # or for a strict target,
    assert f"{bounds.slowdown(both, 10**9, 0.0):.3f}" == "1.125"  # and the best there is
    assert bounds.slowdown(up, 8) == 1.125
    assert bounds.slowdown(up, 10**9, 0.0) == pytest.approx(1)
    assert bounds.slowdown(EXACT_PAIR, 8, 3.0) == 1


@pairs
@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0, 50.0])
def test_the_slowdown_is_the_quotient_of_iterations(pair: Pair, noise: float) -> None:
    target = 1e-5
    problem = Problem(1.0, 1.0, workers=4, variance=4 * noise * target)
    quotient = bounds.iterations(problem, pair, target) / bounds.iterations(
        problem, EXACT_PAIR, target
    )
    assert bounds.slowdown(pair, 4, noise) == pytest.approx(quotient, rel=2e-5)
    low, high = bounds.slowdown(pair, 4, 0.0), bounds.slowdown(pair, 4)
    assert low - 1e-12 <= bounds.slowdown(pair, 4, noise) <= high + 1e-12


@pairs
def test_the_fixed_horizon_keeps_the_bound_of_the_theorem(pair: Pair) -> None:
    least = bounds.fixed_horizon(PROBLEM, pair, 10**9).least_iterations
    for count in (least, 2 * least, 100 * least):
        own = bounds.fixed_horizon(PROBLEM, pair, count)
        slope = bounds.noise_slope(8, pair)
        assert slope * PROBLEM.smoothness * own.step <= math.sqrt(2) * (1 + 1e-12)
        exact = bounds.gradient_bound(PROBLEM, pair, own.step, count)
        assert exact <= own.bound * (1 + 1e-12)
    # Where the step is as long as it may be, the constant is attained up to the rounding of T.
    tight = bounds.fixed_horizon(PROBLEM, pair, least)
    exact = bounds.gradient_bound(PROBLEM, pair, tight.step, least)
    assert exact >= 0.5 * tight.bound
    if least > 1:
        with pytest.raises(SpecError, match=f"at least {least} iterations"):
            bounds.fixed_horizon(PROBLEM, pair, least - 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Problem(0.0, 1.0), "smoothness must be positive, got 0"),
        (lambda: Problem(math.nan, 1.0), "smoothness must be positive"),
        (lambda: Problem(1.0, -1.0), "gap must be a number from 0 on, got -1"),
        (lambda: Problem(1.0, 1.0, workers=0), "at least 1 worker, got 0"),
        (lambda: Problem(1.0, 1.0, variance=math.inf), "variance must be a number from 0 on"),
        (lambda: bounds.noise_slope(0, EXACT_PAIR), "at least 1 worker"),
        (lambda: bounds.noise_slope(1, Pair(-0.1, 0)), "omega of the workers"),
        (lambda: bounds.noise_floor(PROBLEM, Pair(0, math.nan)), "omega of the master"),
        (lambda: bounds.step_size(PROBLEM, EXACT_PAIR, 0.0), "the target must be positive"),
        (lambda: bounds.iterations(PROBLEM, EXACT_PAIR, -1.0), "the target must be positive"),
        (lambda: bounds.gradient_bound(PROBLEM, EXACT_PAIR, 0.7, 10), "between 0 and 0.66"),
        (lambda: bounds.gradient_bound(PROBLEM, EXACT_PAIR, 0.1, 0), "at least 1 iteration"),
        (lambda: bounds.slowdown(EXACT_PAIR, 1, -1.0), "noise must be a number from 0 on"),
        (lambda: bounds.fixed_horizon(Problem(1.0, 1.0), EXACT_PAIR, 10), "the noise floor"),
    ],
)
def test_what_makes_no_sense_is_refused(make: object, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        make()
