"""What every rank must have raised, and how soon."""

from faults import STEP
from launch import Outcome

SLACK = 1.0  # seconds from the fault to the error on every rank


def others(outcomes: list[Outcome], culprit: int = 1) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.rank != culprit]


def check_raised(
    outcomes: list[Outcome], error: str, within: float, *, naming: str, steps: int | None = STEP
) -> None:
    """Every one raised the error in time, named the culprit, took no further step and ended."""
    for outcome in outcomes:
        assert outcome.error == error, outcome
        assert naming in outcome.message, outcome
        assert outcome.elapsed is not None, outcome
        assert outcome.elapsed < within, outcome
        assert outcome.status == 1, outcome
        if steps is not None:
            assert outcome.result["steps"] == steps, outcome
