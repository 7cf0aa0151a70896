"""Shows `nc-figures16-18`: figure, findings and claims."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.experiment import Claim, Experiment
from fewbits_lab.studies.nc_figures16_18.run import NcFigures1618Row, rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# What of the curves is drawn, where something happens.
_WINDOWS = {
    "1": ((0.8, 5e4), (0.4, 1.5e5)),
    "2": ((0.8, 700), (0.03, 600)),
    "∞": ((0.8, 50), (0.002, 5)),
}


def draw(table: Sequence[NcFigures1618Row]) -> "Figure":
    """A panel for each norm: variance against the number of bits of a level."""
    drawn, plots = figures.panels(
        "Variance of dithering on a Gaussian vector of 100,000 values", 3, width=12.5, height=4.8
    )
    for plot, p in zip(plots, ("1", "2", "∞"), strict=True):
        mine = [row for row in table if row.p == p]
        _curve(plot, mine, "natural-dithering", figures.BLUE, "o", "natural, s levels")
        _curve(plot, mine, "standard-dithering", figures.ORANGE, "s", "standard, s levels")
        for row in mine:
            if row.printed:
                _print(plot, row)
        plot.set_xscale("log", base=2)
        plot.set_yscale("log")
        (left, right), (low, high) = _WINDOWS[p]
        plot.set_xlim(left, right)
        plot.set_ylim(low, high)
        plot.set_title(f"norm p = {p}")
        plot.set_xlabel("number of levels s")
    plots[0].set_ylabel("E|C(x) − x|² / |x|²")
    plots[0].plot([], [], "+", color="black", ms=11, mew=1.8, label="printed, reproduces")
    plots[0].plot([], [], "X", mfc="white", mec="black", ms=11,
                  label="printed, does not (colour: whose)")  # fmt: skip
    drawn.legend(*plots[0].get_legend_handles_labels(), loc="outside lower left", ncols=4)
    return drawn


def _print(plot: "Axes", row: NcFigures1618Row) -> None:
    """A printed value: on its curve a cross, off it the colour says whose it is."""
    at = row.s, float(row.printed or "nan")
    if row.reproduces:
        plot.plot(*at, "+", ms=11, color="black", mew=1.8, zorder=5)
    else:
        colour = figures.BLUE if row.operator == "natural-dithering" else figures.ORANGE
        plot.plot(*at, "X", ms=11, mfc=colour, mec="black", mew=1, zorder=5)


def _curve(
    plot: "Axes",
    table: Sequence[NcFigures1618Row],
    operator: str,
    colour: str,
    marker: str,
    name: str,
) -> None:
    mine = sorted((row for row in table if row.operator == operator), key=lambda row: row.s)
    plot.plot(
        [row.s for row in mine], [row.ours for row in mine],
        color=colour, marker=marker, ms=4, label=name,
    )  # fmt: skip


def claims(table: Sequence[NcFigures1618Row]) -> list[Claim]:
    """Theorem 8, both parts, on the figures' vector with p = 2."""
    found = {(row.operator, row.s): row.ours for row in table if row.p == "2"}
    natural, standard = "natural-dithering", "standard-dithering"
    few = {s: found[standard, s] / found[natural, s] for s in (4, 7, 8, 10)}
    steps = ", ".join(f"{ratio:.1f} with {s}" for s, ratio in few.items())
    grows = all(b > a for a, b in pairwise(few.values()))
    ratios = [found[natural, s] / found[standard, 2 ** (s - 1)] for s in (4, 7, 8)]
    return [
        Claim(
            "natural", "Theorem 8", "with as many levels natural dithering has less variance than "
            "standard dithering, the more so the more levels", "O(2^(s−1)/s) times less",
            f"times less, by levels: {steps}", grows,
            "" if grows else "it does not grow with the number of levels",
        ),
        Claim(
            "natural", "Figures 16 to 18", "natural dithering with s levels has the variance of "
            "standard dithering with 2^(s−1)", "about equal, at most 9/8 of 1 + ω",
            f"{min(ratios):.2f} to {max(ratios):.2f} times with 4, 7 and 8 levels",
            max(ratios) <= 9 / 8, "" if max(ratios) <= 9 / 8 else "more than 9/8",
        ),
    ]  # fmt: skip


NC_FIGURES16_18 = Experiment(
    name="nc-figures16-18",
    title="Natural compression, Figures 16 to 18",
    about="Natural dithering with s levels has the last interval of standard dithering with "
    "2^(s−1): at equal s it is far less noisy until it meets the floor of about 0.082, below which "
    "only standard dithering gets. Printed values were read off the figures or are for another "
    "vector, so within 3 % they count as reproduced. Frames have at most 32,767 levels.",
    row=NcFigures1618Row,
    compute=rows,
    draw=draw,
    claims=claims,
    version=2,
)
