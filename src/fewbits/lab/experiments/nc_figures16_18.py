r"""Figures 16 to 18 of the paper on natural compression: variance on a Gaussian vector.

The variance of dithering is $\sum_i (y_i - l)(u - y_i) \|x\|_p^2 / \|x\|^2$ with the levels
$l \le y_i \le u$ next to $y_i = |x_i| / \|x\|_p$. `ours` is that; `measured` is one frame.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.lab import figures, vectors
from fewbits.lab.experiment import Claim, Experiment, Settings, Tick
from fewbits.lab.printed import Comparison, agrees

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

D = 100_000
WITHIN = 0.03  # another vector was drawn, and some values were read off a figure
NORMS = (1.0, 2.0, math.inf)
# What of the curves is drawn, where something happens.
_WINDOWS = {
    "1": ((0.8, 5e4), (0.4, 1.5e5)),
    "2": ((0.8, 700), (0.03, 600)),
    "∞": ((0.8, 50), (0.002, 5)),
}
DEEPEST = 16  # the largest s of the curves
MOST = {"natural-dithering": 127, "standard-dithering": 32_767}  # levels that frames can have


class Print(NamedTuple):
    """A printed value, and the reason if it does not reproduce."""

    text: str
    reason: str = ""


PRINTED = {
    ("natural-dithering", 1.0, 16): Print("0.966"),
    ("standard-dithering", 1.0, 2**15): Print("0.968"),
    ("natural-dithering", 2.0, 8): Print("0.993"),
    ("standard-dithering", 2.0, 2**7): Print("0.993"),
    ("natural-dithering", math.inf, 3): Print("0.22"),
    ("standard-dithering", math.inf, 4): Print("0.212"),
    ("standard-dithering", 2.0, 16): Print("14.8"),
    ("standard-dithering", 1.0, 32): Print("2000"),
    ("natural-dithering", math.inf, 5): Print("0.085"),
    ("natural-dithering", math.inf, 32): Print("0.082"),
    ("standard-dithering", math.inf, 5): Print(
        "0.217", "the label looks wrong: 4 levels give 0.21, 5 do not"
    ),
    ("standard-dithering", math.inf, 32): Print(
        "0.053", "the label looks wrong: 8 levels give 0.0525, 32 do not"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Comparison):
    """One operator: its exact variance on the vector, and the error of one frame."""

    operator: str
    p: str
    s: int
    measured: float
    frame_levels: int


def rows(settings: Settings, tick: Tick) -> list[Row]:
    """The printed cells, and curves over the number of levels."""
    x = vectors.gaussian(D, settings.seed)
    wanted = dict.fromkeys(PRINTED)
    depths = range(1, DEEPEST + 1, 3 if settings.quick else 1)
    for p in NORMS:
        for s in depths:
            wanted |= dict.fromkeys(
                [
                    ("natural-dithering", p, s),
                    ("standard-dithering", p, s),
                    ("standard-dithering", p, 2 ** (s - 1)),
                ]
            )
    found = []
    for part, (operator, p, s) in enumerate(sorted(wanted), 1):
        found.append(_row(x, operator, p, s, settings.seed))
        tick(part / len(wanted))
    return found


def _row(x: vectors.Values, operator: str, p: float, s: int, seed: int) -> Row:
    levels = min(s, MOST[operator])
    printed = PRINTED.get((operator, p, s))
    ours = variance(x.astype(np.float64), operator, p, s)
    spec = f"{operator}:p={p:g},levels={levels}"
    return Row(
        operator=operator,
        p="∞" if p == math.inf else f"{p:g}",
        s=s,
        printed=printed.text if printed else None,
        ours=ours,
        reproduces=agrees(ours, printed.text, within=WITHIN) if printed else None,
        reason=printed.reason if printed else "",
        measured=vectors.measure(spec, x, seed).error,
        frame_levels=levels,
    )


def variance(x: npt.NDArray[np.float64], operator: str, p: float, s: int) -> float:
    """Exact, for this vector."""
    norm = float(np.linalg.norm(x, p))
    grid = np.arange(s + 1) / s
    if operator == "natural-dithering":
        grid = np.concatenate([[0.0], 2.0 ** np.arange(1 - s, 1)])
    y = np.minimum(np.abs(x) / norm, 1.0)
    above = np.clip(np.searchsorted(grid, y, "right"), 1, s)
    terms = (y - grid[above - 1]) * (grid[above] - y)
    return float(np.sum(terms) * norm**2 / np.sum(x**2))


def draw(table: Sequence[Row]) -> "Figure":
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


def _print(plot: "Axes", row: Row) -> None:
    """A printed value: on its curve a cross, off it the colour says whose it is."""
    at = row.s, float(row.printed or "nan")
    if row.reproduces:
        plot.plot(*at, "+", ms=11, color="black", mew=1.8, zorder=5)
    else:
        colour = figures.BLUE if row.operator == "natural-dithering" else figures.ORANGE
        plot.plot(*at, "X", ms=11, mfc=colour, mec="black", mew=1, zorder=5)


def _curve(
    plot: "Axes", table: Sequence[Row], operator: str, colour: str, marker: str, name: str
) -> None:
    mine = sorted((row for row in table if row.operator == operator), key=lambda row: row.s)
    plot.plot(
        [row.s for row in mine], [row.ours for row in mine],
        color=colour, marker=marker, ms=4, label=name,
    )  # fmt: skip


def claims(table: Sequence[Row]) -> list[Claim]:
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


EXPERIMENT = Experiment(
    name="nc-figures16-18",
    title="Natural compression, Figures 16 to 18",
    about="Natural dithering with s levels has the last interval of standard dithering with "
    "2^(s−1): at equal s it is far less noisy until it meets the floor of about 0.082, below which "
    "only standard dithering gets. Printed values were read off the figures or are for another "
    "vector, so within 3 % they count as reproduced. Frames have at most 32,767 levels.",
    row=Row,
    compute=rows,
    draw=draw,
    claims=claims,
    version=2,
)
