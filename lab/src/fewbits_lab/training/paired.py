"""Differences between runs that share a seed, with the interval of Student's law."""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from fewbits_lab.training.rows import RAN, TrainingRow

MARGIN = 1.0  # points of accuracy that may be lost and still be called the same; set beforehand
_QUANTILES = (math.nan, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


class Difference(NamedTuple):
    """The mean over seeds, and the half width of the interval of 95 %."""

    mean: float
    half: float
    seeds: int

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half

    def seeds_for(self, half: float) -> int:
        """How many seeds would have this half width, if they vary as these do."""
        normal = 1.96  # quantile of many seeds
        deviation = self.half * math.sqrt(self.seeds) / _QUANTILES[self.seeds - 1]
        return max(self.seeds + 1, math.ceil((normal * deviation / half) ** 2))

    def text(self, unit: str = "", digits: int = 2) -> str:
        """`+0.12 ± 0.30 points, 5 paired seeds`."""
        number = f"{self.mean:+.{digits}f} ± {self.half:.{digits}f}{unit and ' '}{unit}"
        return f"{number}, {self.seeds} paired seeds"


def last(rows: Sequence[TrainingRow], operator: str) -> dict[int, TrainingRow]:
    """The final row of each seed."""
    own = [row for row in rows if row.ran and row.operator == operator]
    return {row.seed or 0: row for row in sorted(own, key=lambda row: row.epoch or 0)}


def difference(rows: Sequence[TrainingRow], one: str, other: str, field: str) -> Difference | None:
    """`one` minus `other` at the end; None where a run diverged or seeds are too few."""
    first, second = last(rows, one), last(rows, other)
    seeds = sorted(first.keys() & second.keys())
    both = [(first[seed], second[seed]) for seed in seeds]
    if not 2 <= len(seeds) <= len(_QUANTILES) or any(r.status != RAN for p in both for r in p):
        return None
    found = [getattr(a, field) - getattr(b, field) for a, b in both]
    half = _QUANTILES[len(seeds) - 1] * statistics.stdev(found) / math.sqrt(len(seeds))
    return Difference(statistics.fmean(found), half, len(seeds))


def points(rows: Sequence[TrainingRow], one: str, other: str) -> Difference | None:
    """The difference in points of accuracy."""
    found = difference(rows, one, other, "accuracy")
    return found and Difference(100 * found.mean, 100 * found.half, found.seeds)


def same(found: Difference | None) -> bool | None:
    """Whether accuracy is the same: False where the interval says worse, None where undecided."""
    if found is None or found.high < 0:
        return False
    return True if found.low >= -MARGIN else None


def lower(found: Difference) -> bool | None:
    """Whether it is below 0 for certain, above 0 for certain, or neither."""
    if found.high < 0:
        return True
    return False if found.low > 0 else None


def diverged(rows: Sequence[TrainingRow], operator: str) -> int:
    """How many of its runs."""
    return sum(row.status != RAN for row in last(rows, operator).values())


def fewer_bytes(rows: Sequence[TrainingRow], one: str, other: str) -> float:
    """How many times fewer bytes `one` sends than `other` for as many epochs."""
    first, second = last(rows, one), last(rows, other)
    epochs = min(row.epoch or 0 for row in (*first.values(), *second.values()))
    sizes = [
        statistics.fmean(
            row.sent_bytes or 0 for row in rows if (row.operator, row.epoch) == (name, epochs)
        )
        for name in (one, other)
    ]
    return sizes[1] / sizes[0]
