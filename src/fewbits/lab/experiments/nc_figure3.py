"""Figure 3 of the paper on natural compression: where 3/8 goes with three levels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import fewbits
from fewbits.lab import figures
from fewbits.lab.experiment import Experiment, Settings, Tick
from fewbits.lab.printed import Comparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Y = 3 / 8
LEVELS = 3
# operator: (level, printed chance)
PRINTED = {
    "natural-dithering": {1 / 4: "1/2", 1 / 2: "1/2"},
    "standard-dithering": {1 / 3: "7/8", 2 / 3: "1/8"},
}
GRIDS = {
    "natural-dithering": (0.0, 1 / 4, 1 / 2, 1.0),
    "standard-dithering": (0.0, 1 / 3, 2 / 3, 1.0),
}
_TRIALS, _QUICK = 200_000, 20_000
SIGMAS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Comparison):
    """A level: its printed chance, ours by the formula, and how often frames had it."""

    operator: str
    level: float
    measured: float
    trials: int


def rows(settings: Settings, tick: Tick) -> list[Row]:
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
            printed = PRINTED[operator].get(level)
            found.append(
                Row(
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


def draw(table: Sequence[Row]) -> "Figure":
    """Both grids as rulers, with the chances as bars."""
    drawn, plots = figures.panels(f"Where 3/8 goes, with {LEVELS} levels", 2, width=9, height=3.6)
    for plot, operator, colour in zip(plots, GRIDS, figures.COLOURS, strict=False):
        shown = [row for row in table if row.operator == operator]
        plot.bar([row.level for row in shown], [row.measured for row in shown], 0.05, color=colour)
        for row in shown:
            if row.printed:
                low = row.level < Y
                plot.annotate(
                    f"{row.measured:.4f}\nprinted {row.printed}", (row.level, row.measured),
                    (8 if low else -8, 4), textcoords="offset points",
                    ha="right" if low else "left",
                )  # fmt: skip
        plot.axvline(Y, color="black", ls=":")
        plot.annotate("3/8", (Y, 1.12), (3, 0), textcoords="offset points")
        plot.set_title(f"{operator}, measured")
        plot.set_ylim(0, 1.2)
        plot.set_xlim(-0.06, 1.06)
        names = {0.0: "0", 1 / 4: "1/4", 1 / 3: "1/3", 1 / 2: "1/2", 2 / 3: "2/3", 1.0: "1"}
        plot.set_xticks([row.level for row in shown], [names[row.level] for row in shown])
        plot.set_xlabel("level (magnitude over norm)")
        plot.set_ylabel("share of values")
    return drawn


EXPERIMENT = Experiment(
    name="nc-figure3",
    title="Natural compression, Figure 3",
    about="A magnitude of 3/8 of the norm, with s = 3 levels above 0: natural dithering has "
    "levels 1/4, 1/2, 1, standard dithering 1/3, 2/3, 1. Printed chances beside those of frames.",
    row=Row,
    compute=rows,
    draw=draw,
)
