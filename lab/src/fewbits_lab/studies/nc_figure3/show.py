"""Shows `nc-figure3`: figure, findings and claims."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.experiment import Experiment
from fewbits_lab.studies.nc_figure3.run import GRIDS, LEVELS, NcFigure3Row, Y, rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


SIGMAS = 5.0


def draw(table: Sequence[NcFigure3Row]) -> "Figure":
    """Draws both grids as rulers, with the chances as bars."""
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


NC_FIGURE3 = Experiment(
    name="nc-figure3",
    title="Natural compression, Figure 3",
    about="A magnitude of 3/8 of the norm, with s = 3 levels above 0: natural dithering has "
    "levels 1/4, 1/2, 1, standard dithering 1/3, 2/3, 1. Printed chances beside those of frames.",
    row=NcFigure3Row,
    compute=rows,
    draw=draw,
)
