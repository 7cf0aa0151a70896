"""Figures with one look: readable without a caption, by the colour-blind, by night and on paper."""

import io
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Okabe and Ito's, dark enough for lines on white.
BLUE, ORANGE, GREEN, PINK, BROWN, GREY = (
    "#0072b2", "#d55e00", "#008f68", "#b0568c", "#9a7400", "#5b6570",
)  # fmt: skip
COLOURS = (BLUE, ORANGE, GREEN, PINK, BROWN, GREY)
SKY, GOLD = "#56b4e9", "#e0b000"  # where six are not enough
INK, BACK, GRID = "#1c2024", "#ffffff", "#d9dde2"
# What each becomes on a dark page. A colour that is not here stays as it is.
DARK = {
    BLUE: "#56b4e9", ORANGE: "#f0874a", GREEN: "#2fc79b", PINK: "#e08fbd", BROWN: "#d9b63a",
    GREY: "#aeb8c2", SKY: "#a9dcff", GOLD: "#f5dc6a", INK: "#e6e9ec", BACK: "#14171a",
    GRID: "#333a41", "#000000": "#e6e9ec",
}  # fmt: skip
_SHORT = {own: chr(ord("a") + place) for place, own in enumerate(DARK)}  # names of variables
PAPER: Any = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}  # behind text on lines
MARKERS = ("o", "s", "^", "D", "v", "P")
_STYLE: Any = {
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "figure.dpi": 100,
    "font.size": 10,
    "grid.color": GRID,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",  # text stays text: a third of the bytes, and readers can search it
    "svg.hashsalt": "fewbits",  # the same figure gives the same file
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
_COLOUR = re.compile(r"(?<=: )#[0-9a-f]{6}")
_PATH = re.compile(r' d="[^"]*"')
_DIGITS = re.compile(r"(?<=\.\d\d)\d+")  # of a path: a hundredth of a point is enough
# What no reader of a figure needs: who made it, names of groups, fonts named at every text.
_NEEDLESS = re.compile(
    r"<!DOCTYPE.*?>\s*|\s*<metadata>.*?</metadata>|(?<=<g) id=\"[^\"]*\"|(?<=;) font-family:[^;]*;"
    r"| transform=\"rotate\(-0 [^\"]*\"",
    re.DOTALL,
)
_WAY = re.compile(r' style="([^"]*)"')
_GROUP = re.compile(r"<g\b[^>]*>|</g>")
_PLACE = re.compile(r'(?<= [xy]=")[\d.]+')
_FONTS = "text{font-family:'DejaVu Sans',Verdana,Arial,sans-serif}"


def panels(
    title: str, columns: int = 1, rows: int = 1, *, width: float = 7.5, height: float = 4.5
) -> tuple["Figure", list["Axes"]]:
    """A figure of `columns` plots side by side, in `rows`, its title above."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=12)
    places = range(1, rows * columns + 1)
    axes = [figure.add_subplot(rows, columns, place) for place in places]
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


def log_x(plot: "Axes") -> None:
    """A logarithmic axis of any span, with plain numbers at 1, 2 and 5 times powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    plot.set_xscale("log")
    plot.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    plot.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    plot.xaxis.set_minor_locator(NullLocator())


def svg(draw: Callable[[], "Figure"]) -> str:
    """The picture, drawn in our style, light or dark as its reader has it; equal for equal figures.

    Text stays text. It is laid out for a wide font: with another it takes less room, not more.
    """
    import matplotlib  # slow to import

    out = io.StringIO()
    with matplotlib.rc_context(_STYLE):
        draw().savefig(out, format="svg", metadata={"Date": None})
    text = _NEEDLESS.sub("", out.getvalue())
    for places in (_PATH, _PLACE):
        text = places.sub(lambda found: _DIGITS.sub("", found.group()), text)
    text = _without_bare_groups(text)
    text = _COLOUR.sub(lambda found: _variable(found.group()), text)
    text, ways = _with_classes(text)
    text = text.replace("<defs>", f"<style>{_theme()}{_FONTS}{ways}</style><defs>", 1)
    return "\n".join(filter(None, map(str.strip, text.splitlines()))) + "\n"


def _without_bare_groups(text: str) -> str:
    """The same without groups that say nothing of what is in them."""
    said: list[bool] = []

    def kept(found: re.Match[str]) -> str:
        tag = found.group()
        if tag == "</g>":
            return tag if said.pop() else ""
        if tag.endswith("/>"):
            return ""
        said.append(tag != "<g>")
        return tag if said[-1] else ""

    return _GROUP.sub(kept, text)


def _with_classes(text: str) -> tuple[str, str]:
    """The same with a class for each style, and what the classes are."""
    found = dict.fromkeys(_WAY.findall(text))
    classes = {style: f"s{number}" for number, style in enumerate(found)}
    text = _WAY.sub(lambda way: f' class="{classes[way[1]]}"', text)
    return text, "".join(f".{name}{{{style}}}" for style, name in classes.items())


def _variable(colour: str) -> str:
    return f"var(--{_SHORT[colour]})" if colour in _SHORT else colour


def _theme() -> str:
    """The colours by their light values, and what a dark page makes of them."""
    light = ";".join(f"--{short}:{own}" for own, short in _SHORT.items())
    dark = ";".join(f"--{short}:{DARK[own]}" for own, short in _SHORT.items())
    # What has no colour of its own is black in an SVG file.
    ink = f"fill:{_variable(INK)}"
    return f"svg{{{light};{ink}}}@media (prefers-color-scheme:dark){{svg{{{dark}}}}}"
