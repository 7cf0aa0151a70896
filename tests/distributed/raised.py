"""What every rank must have raised, and how soon."""

import re
from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest
from faults import STEP
from launch import Outcome

SLACK = 1.0  # seconds from the fault to the error on every rank, but for busy processors


def soak(*choices: Iterable[Any], but: Iterable[tuple[Any, ...]] = ()) -> list[Any]:
    """All combinations, for the long tests, `but` those that always run."""
    return [
        pytest.param(*case, marks=pytest.mark.soak)
        for case in product(*choices)
        if case not in list(but)
    ]


def check_stopped(outcomes: list[Outcome], timeout: float, slack: float = SLACK) -> None:
    """Rank 1 stopped for good; every other one said so when the time-out was over, and ended."""
    assert outcomes[1].status is None, "it should still have been stopped"
    for outcome in others(outcomes):
        assert outcome.error == "PeerError", outcome
        # Who waits for one that waits for the stopped rank may see that one give up first.
        named = r"rank 1: no answer|no answer yet from ranks \[.*1|lost rank 1 in .* no answer"
        assert re.search(named, outcome.message), outcome
        assert outcome.elapsed is not None
        assert outcome.took is not None
        assert timeout - SLACK < outcome.elapsed, outcome
        assert outcome.took < timeout + slack, outcome
    check_ended(others(outcomes), timeout + slack)


def check_ended(outcomes: list[Outcome], since: float = 0.0) -> None:
    """The interpreter has ended too, soon after the error."""
    for outcome in outcomes:
        assert outcome.status == 1, outcome
        assert outcome.lived is not None, outcome
        assert outcome.lived < since + 5.0, outcome


def others(outcomes: list[Outcome], culprit: int = 1) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.rank != culprit]


def check_raised(
    outcomes: list[Outcome], error: str, within: float, *, naming: str, steps: int | None = STEP
) -> None:
    """Every one raised the error in time, named the culprit, took no further step and ended."""
    for outcome in outcomes:
        assert outcome.error == error, outcome
        assert naming in outcome.message, outcome
        assert outcome.took is not None, outcome
        assert outcome.took < within, outcome
        assert outcome.status == 1, outcome
        if steps is not None:
            assert outcome.result["steps"] == steps, outcome
