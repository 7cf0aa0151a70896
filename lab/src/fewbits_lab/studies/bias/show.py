"""Shows `bias`: tables, figures, findings and claims."""

from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.record import RecordDocument, Recorded
from fewbits_lab.tables import ShownTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draws(document: RecordDocument) -> ShownTable:
    """The table of errors that averaging leaves."""
    rows = [
        [
            name, f"{own['natural']:.2e}", f"{own['floor']:.2e}", f"{own['without_noise']:.1e}",
            f"{own['resolution']:.1e}", f"{own['e4m3']:.2e}", f"{own['e4m3'] / own['natural']:.1f}",
        ]
        for name, own in document["draws"]["gradients"].items()
    ]  # fmt: skip
    titles = ["gradient", "mean of `natural`", "noise", "bias", "smallest seen", "E4M3",
              "E4M3 / `natural`"]  # fmt: skip
    return ShownTable(titles, rows, title="What the mean of many draws leaves of the error")


def tail(document: RecordDocument) -> ShownTable:
    """The table of rounding's effect on the end of training."""
    rows = []
    for row in document["training"]["rows"]:
        low, mean, high = (1e6 * row[key] for key in ("low", "difference", "high"))
        rows.append([
            row["rounding"], "`ef14`" if row["feedback"] else "none",
            f"{mean:+.1f} ({low:+.1f} to {high:+.1f}) · 10⁻⁶",
            f"{row['percent']:+.3f} ± {row['percent_half_width']:.3f}",
        ])  # fmt: skip
    titles = ["rounding", "feedback", "difference of the tail loss, 95 % interval",
              "in % of plain"]  # fmt: skip
    return ShownTable(titles, rows, title="What rounding does to the end of training")


def draw_bias(document: RecordDocument) -> "Figure":
    """The tail loss by rounding, with intervals."""
    rows = document["training"]["rows"]
    drawn, (plot,) = figures.panels(
        "Loss at the end of training, less that of plain training", width=8.5,
        height=1.7 + 0.36 * len(rows),
    )  # fmt: skip
    for at, row in enumerate(rows):
        colour = figures.BLUE if row["rounding"] == "natural" else figures.ORANGE
        plot.errorbar(row["percent"], at, xerr=row["percent_half_width"], fmt="o", capsize=4,
                      color=colour)  # fmt: skip
    plot.axvline(0, color="black", lw=1)
    plot.set_xlabel("% of plain training's loss; bars: 95 % intervals")
    names = [f"{row['rounding']}{', ef14' if row['feedback'] else ''}" for row in rows]
    figures.names(plot, names)
    return drawn


BIAS = Recorded(
    name="bias",
    result="bias",
    title="Unbiased rounding, and rounding to the nearest",
    about="Means of many draws on recorded gradients, and the last steps of a training run over "
    "many seeds, with natural rounding, nearest rounding and nearest FP8 (E4M3).",
    command="python -m fewbits_lab.studies.bias.run GRADIENTS-DIR",
    tables=lambda document: [draws(document), tail(document)],
    draw=draw_bias,
)
