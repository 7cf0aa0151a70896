"""Figures with one look: readable without a caption, by the colour-blind and on paper."""

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fewbits.train.extras import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Okabe and Ito's, dark enough for lines on white.
BLUE, ORANGE, GREEN, PINK, BROWN, GREY = (
    "#0072b2", "#d55e00", "#008f68", "#b0568c", "#9a7400", "#5b6570",
)  # fmt: skip
COLOURS = (BLUE, ORANGE, GREEN, PINK, BROWN, GREY)
PAPER: Any = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}  # behind text on lines
MARKERS = ("o", "s", "^", "D", "v", "P")
_STYLE: Any = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "figure.dpi": 100,
    "font.size": 10,
    "grid.color": "#d9dde2",
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "savefig.dpi": 150,
    "svg.hashsalt": "fewbits",  # the same figure gives the same file
}


def panels(
    title: str, columns: int = 1, *, width: float = 7.5, height: float = 4.5
) -> tuple["Figure", list["Axes"]]:
    """A figure of `columns` plots side by side, its title above."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=12)
    axes = [figure.add_subplot(1, columns, number + 1) for number in range(columns)]
    for plot in axes:
        plot.set_axisbelow(True)
    return figure, axes


def names(axes: "Axes", texts: Sequence[str]) -> None:
    """Names down the side of a plot of rows, the first on top."""
    axes.set_yticks(range(len(texts)), texts)
    axes.set_ylim(len(texts) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")


def plain_ticks(axis: "Axis", ticks: Sequence[float]) -> None:
    """These ticks with plain numbers, on a logarithmic axis too, and no others."""
    from matplotlib.ticker import NullLocator

    axis.set_ticks(list(ticks), labels=[f"{tick:g}" for tick in ticks])
    axis.set_minor_locator(NullLocator())


def png(draw: Callable[[], "Figure"]) -> bytes:
    """The picture, drawn in our style; the same bytes for the same figure."""
    matplotlib = require("matplotlib", "lab")
    out = io.BytesIO()
    with matplotlib.rc_context(_STYLE):
        draw().savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()


def svg(draw: Callable[[], "Figure"]) -> bytes:
    """The same as a drawing that scales; the same bytes for the same figure."""
    matplotlib = require("matplotlib", "lab")
    out = io.StringIO()
    with matplotlib.rc_context(_STYLE):
        draw().savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    # Matplotlib ends some lines with a space.
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines()).encode()
