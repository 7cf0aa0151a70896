"""Shows `spherical-speed`: tables, figures, findings and claims."""

from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.record import RecordDocument, Recorded
from fewbits_lab.tables import ShownTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def spherical(document: RecordDocument) -> ShownTable:
    """Bits over the lower bound, errors, and speeds."""
    rows = [
        [
            f"{row['alpha']:g}", str(row["block"]), f"{row['lower_bound_bits']:.2f}",
            f"{row['index_bits']:.2f}", f"{row['excess']:.2f}", f"{row['largest_error']:.4f}",
            f"{row['mean_error']:.3f}", f"{row['blocks_per_second']:,.0f}",
            f"{row['faster_than_numpy']:.0f}",
        ]
        for row in document["rows"]
    ]  # fmt: skip
    titles = ["α", "block", "bound, bits", "index, bits", "excess", "largest error", "mean error",
              "blocks/s", "× NumPy"]  # fmt: skip
    return ShownTable(titles, rows)


def draw_spherical(document: RecordDocument) -> "Figure":
    """Bits of the index and the bound, by (α, block)."""
    rows = document["rows"]
    drawn, (plot,) = figures.panels("Bits of an index over the lower bound", width=8, height=4)
    for at, row in enumerate(rows):
        plot.barh(at, row["index_bits"], 0.6, color=figures.BLUE, alpha=0.75)
        plot.plot([row["lower_bound_bits"]] * 2, [at - 0.38, at + 0.38], color="black", lw=2)
        plot.annotate(f"+{row['excess']:.2f}", (row["index_bits"], at), (4, 0), va="center",
                      textcoords="offset points", fontsize=9)  # fmt: skip
    plot.margins(x=0.1)
    plot.set_xlabel("bits of a block's index; line: no code can have fewer on average")
    figures.names(plot, [f"α = {row['alpha']:g}, block {row['block']}" for row in rows])
    return drawn


SPHERICAL_SPEED = Recorded(
    name="spherical-speed",
    result="spherical-speed",
    title="Spherical compression: bits over the bound, and the native search",
    about="Bits of the index as it is written, radii not counted; errors of decoded blocks of a "
    "Gaussian vector; CPU times of one thread.",
    command="python -m fewbits_lab.studies.spherical_speed.run",
    tables=lambda document: [spherical(document)],
    draw=draw_spherical,
)
