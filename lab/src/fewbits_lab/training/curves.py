"""Losses and accuracies against epochs, bytes and seconds: means over seeds, and their spread."""

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from fewbits_lab import figures
from fewbits_lab.training import plan
from fewbits_lab.training.rows import RAN, TrainingRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STYLES = {
    plan.TRAINING_PLAIN: (figures.GREY, "-"),
    plan.TRAINING_NATURAL: (figures.BLUE, "-"),
    plan.NATURAL_DITHERING: (figures.GREEN, "-"),
    plan.STANDARD_DITHERING: (figures.BROWN, "-"),
    plan.RANDOM_NATURAL: (figures.PINK, "-"),
    plan.TOP_NATURAL: (figures.ORANGE, "-"),
    plan.FINE_DITHERING: (figures.BROWN, "--"),
    plan.RANDOM: (figures.PINK, "--"),
    plan.TOP: (figures.ORANGE, "--"),
}
_ACROSS = (  # the field, what one of it counts for, the name, whether the scale is logarithmic
    ("epoch", 1.0, "epochs", False),
    ("sent_bytes", 1e-6, "MB that a rank sent, counted (log scale)", True),
    ("modelled_seconds", 1.0, "seconds on 1 Gbit/s, modelled", False),
)
_UP = (("test_loss", 1.0, "test loss"), ("accuracy", 100.0, "test accuracy, %"))


class _Place(NamedTuple):
    """One epoch over all seeds: the mean in x; the least, the mean and the most in y."""

    x: float
    low: float
    mean: float
    high: float


def draw(rows: Sequence[TrainingRow]) -> "Figure":
    """Six plots, or a word on why there are none."""
    own = [row for row in rows if row.ran]
    if not own:
        return _nothing(rows[0])
    first = own[0]
    drawn, plots = figures.panels(
        f"{first.model}, {first.data}: {plan.RANKS} ranks, {first.parameters:,} parameters; lines "
        "are means over seeds, shades their range", 3, 2, width=14, height=8.4,
    )  # fmt: skip
    for number, plot in enumerate(plots):
        _draw(plot, own, _ACROSS[number % 3], _UP[number // 3])
    lines, names = plots[0].get_legend_handles_labels()
    drawn.legend(
        lines, names, loc="outside lower center", ncols=6 if len(names) <= 6 else 5, fontsize=9
    )
    return drawn


def _draw(
    plot: "Axes",
    rows: Sequence[TrainingRow],
    across: tuple[str, float, str, bool],
    up: tuple[str, float, str],
) -> None:
    for name, (colour, dash) in _STYLES.items():
        places = _places([row for row in rows if row.operator == name], across[:2], up[:2])
        if not places:
            continue
        x = [place.x for place in places]
        plot.plot(x, [place.mean for place in places], dash, color=colour, label=name,
                  marker="o", ms=3)  # fmt: skip
        low, high = [place.low for place in places], [place.high for place in places]
        plot.fill_between(x, low, high, color=colour, alpha=0.12, lw=0)
    plot.set_xlabel(across[2])
    plot.set_ylabel(up[2])
    if across[3]:
        plot.set_xscale("log")
    if across[0] == "epoch":
        plot.set_xticks(sorted({row.epoch or 0 for row in rows}))


def _places(
    rows: Sequence[TrainingRow], across: tuple[str, float], up: tuple[str, float]
) -> list[_Place]:
    places = []
    for epoch in sorted({row.epoch or 0 for row in rows}):
        own = [row for row in rows if row.epoch == epoch and row.status == RAN]
        if own:
            x = statistics.fmean(across[1] * getattr(row, across[0]) for row in own)
            y = [up[1] * getattr(row, up[0]) for row in own]
            places.append(_Place(x, min(y), statistics.fmean(y), max(y)))
    return places


def _nothing(row: TrainingRow) -> "Figure":
    drawn, (plot,) = figures.panels(f"{row.model}, {row.data}", height=1.6)
    plot.set_axis_off()
    plot.text(0, 0.5, row.status, fontsize=11, va="center")
    return drawn
