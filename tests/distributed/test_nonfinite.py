"""NaN, infinities and overflow: never hidden, never kept, the same on all ranks."""

import math
from itertools import product
from typing import Any

import pytest
from launch import Launcher

LAST = 1000
PLACES = (0, 500, LAST, None)
VALUES = (math.nan, math.inf, -math.inf)
CASES = [(value, place, rank) for value, place in product(VALUES, PLACES) for rank in (1, None)]
# Finite values whose sum is not: no operator that sends them exactly may hide it.
OVERFLOW = [(3e38, place, None) for place in PLACES]


def seen(launcher: Launcher, **options: Any) -> list[dict[str, Any]]:
    """What both ranks saw, a sick and a healthy step in turn."""
    first, second = launcher.results("nonfinite", **options)
    assert first["seen"] == second["seen"]
    return first["seen"]


@pytest.mark.parametrize("collective", ["sharded", "star", "gather"])
@pytest.mark.parametrize("uplink", ["identity", "natural", "float16"])
def test_what_is_not_finite_stays_so_where_it_was(
    launcher: Launcher, collective: str, uplink: str
) -> None:
    cases = CASES + (OVERFLOW if uplink == "identity" else [])
    steps = seen(launcher, policy="propagate", collective=collective, uplink=uplink, cases=cases)
    for (_, place, _), sick, healthy in zip(cases, steps[::2], steps[1::2], strict=True):
        assert sick["bad"] == (LAST + 1 if place is None else 1)
        assert sick["at"] in (None, True)
        assert not sick["skipped"]
        assert healthy["bad"] == 0
        assert not healthy["zero"]


@pytest.mark.parametrize("collective", ["sharded", "star", "gather"])
@pytest.mark.parametrize("uplink", ["identity", "natural"])
def test_skip_costs_all_ranks_one_step(launcher: Launcher, collective: str, uplink: str) -> None:
    cases = CASES + (OVERFLOW if uplink == "identity" else [])
    steps = seen(launcher, policy="skip", collective=collective, uplink=uplink, cases=cases)
    for sick, healthy in zip(steps[::2], steps[1::2], strict=True):
        assert sick["skipped"]
        assert sick["zero"]
        assert not healthy["skipped"]
        assert not healthy["zero"]
        assert healthy["bad"] == 0


@pytest.mark.parametrize("policy", ["propagate", "skip"])
def test_overflow_of_the_last_rounding_to_float16_is_not_hidden(
    launcher: Launcher, policy: str
) -> None:
    # A mean of 65000 fits float16; the downlink's power of two may be 65536, which does not.
    options = {"uplink": "identity", "downlink": "natural:rounding=nearest", "dtype": "float16"}
    sick, healthy = seen(
        launcher, policy=policy, collective="sharded", cases=[(65000.0, LAST, None)], **options
    )
    assert (sick["bad"], sick["zero"], sick["skipped"]) == (
        (1, False, False) if policy == "propagate" else (0, True, True)
    )
    assert healthy["bad"] == 0


def test_skip_and_raise_hold_for_one_rank_too(launcher: Launcher) -> None:
    case = {"collective": "sharded", "cases": [(math.inf, 3, None)]}
    (result,) = launcher.results("nonfinite", 1, policy="skip", **case)
    assert [step["skipped"] for step in result["seen"]] == [True, False]
    assert result["report"]["skipped_steps"] == result["report"]["nonfinite_steps"] == 1
    (outcome,) = launcher.run("nonfinite", 1, policy="raise", **case)
    assert outcome.error == "EncodeError"


@pytest.mark.parametrize(
    ("collective", "value", "rank", "told"),
    [
        ("sharded", math.nan, 1, "rank 1 at step 0: 1 gradient values are NaN or infinite"),
        ("star", math.inf, 0, "rank 0 at step 0: 1 gradient values"),
        ("gather", -math.inf, 1, "rank 1 at step 0: 1 gradient values"),
        ("gather", 3e38, None, "the mean gradient of step 0 is NaN or infinite"),
        ("sharded", 3e38, None, "at step 0: 1 gradient values are NaN or infinite"),
    ],
)
def test_raise_is_the_same_error_on_all_ranks(
    launcher: Launcher, collective: str, value: float, rank: int | None, told: str
) -> None:
    outcomes = launcher.run(
        "nonfinite",
        policy="raise",
        collective=collective,
        uplink="identity",
        cases=[(value, 7, rank)],
    )
    for outcome in outcomes:
        assert outcome.error == "EncodeError", outcome
        assert told in outcome.message
        assert outcome.result["seen"] == []


@pytest.mark.parametrize("collective", ["sharded", "star", "gather"])
def test_a_gradient_scaler_sees_what_it_would_see_without_us(
    launcher: Launcher, collective: str
) -> None:
    plain = launcher.results("scaled", uplink=None)[0]
    exact = launcher.results("scaled", uplink="identity", collective=collective)
    lossy = launcher.results("scaled", uplink="natural", collective=collective)
    assert [took for _, took in plain["scales"]].count(False) == 2
    for result in exact:
        assert result == plain
    for result in lossy:
        assert result["scales"] == plain["scales"]
        assert result["final"] == lossy[0]["final"] != plain["final"]
