"""Shows `oc-lower-bounds`: figure, findings and claims."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.experiment import Experiment
from fewbits_lab.studies.oc_lower_bounds.run import AVERAGE, OcLowerBoundsRow, rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(table: Sequence[OcLowerBoundsRow]) -> "Figure":
    """Bits a value against the dimension, and the floors that they fall to."""
    drawn, (plot,) = figures.panels("The fewest bits that can suffice, on average", height=5)
    for colour, marker, alpha in zip(figures.COLOURS, figures.MARKERS, AVERAGE, strict=True):
        mine = [row for row in table if row.quantity == "average" and row.alpha == alpha]
        shown = [row.bits_per_value for row in mine]
        plot.plot([row.d for row in mine], shown, color=colour, marker=marker, ms=5)
        plot.axhline(mine[0].floor, color=colour, ls=":", lw=1)
        plot.annotate(
            f"α = {alpha:g}", (mine[0].d, shown[0]), (-8, 0), textcoords="offset points",
            ha="right", va="center", color=colour,
        )  # fmt: skip
    plot.set_xscale("log")
    plot.set_xlim(0.5, 2e6)
    plot.set_ylim(0, 2)
    plot.set_xlabel("dimension d")
    plot.set_ylabel("−log₂ P(α, d) / d, bits a value")
    plot.set_title("error surely at most α|x|²; dotted: ½ log₂ 1/α", fontsize=10)
    return drawn


OC_LOWER_BOUNDS = Experiment(
    name="oc-lower-bounds",
    title="Optimal compression, lower bounds",
    about="An operator with |C(x) − x|² ≤ α|x|² surely sends at least −log₂ P(α, d) bits of a unit "
    "vector on average. P is the share of the sphere within a cap. The longest message lies "
    "between −log₂ P + log₂ d and log₂ log₂ d more, up to constants that the theorem leaves open.",
    row=OcLowerBoundsRow,
    compute=rows,
    draw=draw,
)
