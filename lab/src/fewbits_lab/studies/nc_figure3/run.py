"""Figure 3 of the paper on natural compression: where 3/8 goes with three levels."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import fewbits
from fewbits_lab.experiment import StudySettings, Tick
from fewbits_lab.printed import Comparison

Y = 3 / 8
LEVELS = 3
# operator: (level, printed chance)
_PRINTED = {
    "natural-dithering": {1 / 4: "1/2", 1 / 2: "1/2"},
    "standard-dithering": {1 / 3: "7/8", 2 / 3: "1/8"},
}
GRIDS = {
    "natural-dithering": (0.0, 1 / 4, 1 / 2, 1.0),
    "standard-dithering": (0.0, 1 / 3, 2 / 3, 1.0),
}
_TRIALS, _QUICK = 200_000, 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NcFigure3Row(Comparison):
    """A level: its printed chance, ours by the formula, and how often frames had it."""

    operator: str
    level: float
    measured: float
    trials: int


def rows(settings: StudySettings, tick: Tick) -> list[NcFigure3Row]:
    """The largest magnitude is 1 and all others are 3/8, in one frame for each operator."""
    trials = _QUICK if settings.quick else _TRIALS
    x = np.full(trials + 1, Y, np.float32)
    x[0] = 1.0
    found = []
    for part, (operator, grid) in enumerate(GRIDS.items(), 1):
        frame = fewbits.compress(x, f"{operator}:levels={LEVELS}", seed=settings.seed)
        y = fewbits.decompress(frame)[1:]
        for level in grid:
            share = float(np.mean(np.abs(y - level) < 1e-6))
            ours = chance(grid, level)
            printed = _PRINTED[operator].get(level)
            found.append(
                NcFigure3Row(
                    operator=operator,
                    level=level,
                    printed=printed,
                    ours=ours,
                    reproduces=None if printed is None else _value(printed) == ours,
                    measured=share,
                    trials=trials,
                )
            )
        tick(part / len(GRIDS))
    return found


def chance(grid: Sequence[float], level: float) -> float:
    """How likely 3/8 goes to a level: by its distance to the other neighbour, rounded to 2⁻⁴⁰."""
    lower = max(value for value in grid if value <= Y)
    upper = min(value for value in grid if value > Y)
    up = (Y - lower) / (upper - lower)
    exact = {lower: 1 - up, upper: up}.get(level, 0.0)
    return round(exact * 2**40) / 2**40


def _value(fraction: str) -> float:
    top, bottom = fraction.split("/")
    return int(top) / int(bottom)
