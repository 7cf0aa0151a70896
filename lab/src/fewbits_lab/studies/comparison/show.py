"""Shows `comparison`: figure, findings and claims."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.experiment import Experiment
from fewbits_lab.studies.comparison.run import VECTORS, ComparisonRow, rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(table: Sequence[ComparisonRow]) -> "Figure":
    """Gains as bars, best first on Gaussian vectors, both vectors side by side."""
    mine = {name: {row.operator: row for row in table if row.vector == name} for name in VECTORS}
    order = sorted(mine["Gaussian"], key=lambda spec: -mine["Gaussian"][spec].ours)
    drawn, plots = figures.panels(
        "Less communication in all than 32 bits a value, by measured frames", 2, width=12,
        height=7.6,
    )  # fmt: skip
    for plot, (name, found) in zip(plots, mine.items(), strict=True):
        for at, spec in enumerate(order):
            row = found[spec]
            colour = figures.BLUE if row.unbiased else figures.ORANGE
            plot.barh(at, row.ours, color=colour, alpha=0.75, height=0.65)
            end = max(row.ours, float(row.printed or 0))
            plot.annotate(f"{row.ours:.1f}", (end, at), (6, 0), textcoords="offset points",
                          va="center", fontsize=9)  # fmt: skip
            if row.printed:
                plot.plot(float(row.printed), at, "|", color="black", ms=15, mew=2)
        figures.names(plot, order)
        plot.set_title("Gaussian vector" if name == "Gaussian" else "scale varies between blocks")
        plot.set_xlabel("times less")
        plot.set_xlim(0, 1.12 * max(row.ours for row in found.values()))
    plots[1].set_yticklabels([])
    for colour, text in ((figures.BLUE, "unbiased: 32 / ((1 + error) bits)"),
                         (figures.ORANGE, "biased: 32 (1 − error) / bits")):  # fmt: skip
        plots[0].plot([], [], "s", color=colour, label=text)
    plots[0].plot([], [], "|", color="black", ms=12, mew=2, label="known from other code")
    drawn.legend(*plots[0].get_legend_handles_labels(), loc="outside lower left", ncols=3)
    return drawn


COMPARISON = Experiment(
    name="comparison",
    title="Compressors compared",
    about="Frames of 15,360 float32 values, headers included. The gain counts additional "
    "iterations by the measured error, which flatters operators whose worst case is far from "
    "typical: sign is best on a flat vector and poor on others. Known values within 5 % count as "
    "reproduced.",
    row=ComparisonRow,
    compute=rows,
    draw=draw,
)
