"""Shows `oc-blocks`: figure, findings and claims."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.experiment import Experiment
from fewbits_lab.studies.oc_blocks.run import OC_BLOCKS_PRINTED, OcBlocksRow, rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(table: Sequence[OcBlocksRow]) -> "Figure":
    """Bits a value against directions: what patience buys."""
    drawn, (plot,) = figures.panels("Spherical compression: what patience buys", height=5)
    lowest = max(OC_BLOCKS_PRINTED)  # its numbers stand below the line, which is next to another
    for colour, marker, alpha in zip(
        figures.COLOURS, figures.MARKERS, OC_BLOCKS_PRINTED, strict=False
    ):
        mine = [row for row in table if row.alpha == alpha]
        bits = [row.ours for row in mine if row.quantity == "bits a value"]
        counts = [row.ours for row in mine if row.quantity == "directions"]
        plot.plot(counts, bits, color=colour, marker=marker, ms=5)
        for row, count in zip(mine[::2], counts, strict=True):
            plot.annotate(
                str(row.d), (count, row.ours), (-4, -11) if alpha == lowest else (3, 5),
                textcoords="offset points", fontsize=8, color=colour,
                ha="right" if alpha == lowest else "left",
            )  # fmt: skip
        plot.annotate(
            f"α = {alpha:g}", (counts[0], bits[0]), (-8, 0), textcoords="offset points",
            ha="right", va="center", color=colour, bbox=figures.PAPER,
        )  # fmt: skip
        plot.axhline(mine[0].floor, color=colour, ls=":", lw=1)
    plot.set_xscale("log")
    plot.set_xlim(0.3, 1e9)
    plot.set_ylim(0, 2.4)
    plot.set_xlabel("random directions looked at for a block, on average (log scale)")
    plot.set_ylabel("bits a value, for the direction's number")
    plot.set_title("numbers: values in a block; dotted: the least, ½ log₂ 1/α", fontsize=10)
    return drawn


OC_BLOCKS = Experiment(
    name="oc-blocks",
    title="Optimal compression, spherical compression in blocks",
    about="The mean length of the index, by the best Rice code, a value, and the mean number of "
    "directions that an encoder looks at. Radii come on top.",
    row=OcBlocksRow,
    compute=rows,
    draw=draw,
    version=2,
)
