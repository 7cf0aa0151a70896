"""README's picture of `links`: the time of a step against the speed of the link."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fewbits_lab import figures
from fewbits_lab.prose import paragraph
from fewbits_lab.record import Item
from fewbits_lab.results import results
from fewbits_lab.studies.links import show
from fewbits_lab.studies.links.show import crossing, median

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CHART_RANKS = 2
CHARTED = {  # contender: its name in the picture, colour, marker
    "none": ("plain DDP", figures.GREY, "o"),
    "fp16-hook": ("cast to 16 bits", figures.BROWN, "s"),
    "natural": ("natural", figures.BLUE, "^"),
    "natural:coder=rans": ("natural:coder=rans", figures.ORANGE, "D"),
    "tiny": ("tiny (biased, with memory)", figures.GREEN, "v"),
}
_POINTS = 60  # of a curve between two links


def shaped() -> list[Item]:
    """The links with a rate, slowest first."""
    every = show.settings(results("links"))
    return [own for own in every if own["rate_bits_per_second"] and own["ranks"] == CHART_RANKS]


def between(links: Sequence[Item], name: str, gbits: Sequence[float]) -> list[float]:
    """Seconds of a step at these rates: a constant and bytes over the rate, between two links.

    That is how `crossing` interpolates too.
    """
    slowness = [1e9 / own["rate_bits_per_second"] for own in links][::-1]
    seconds = [median(own, name) for own in links][::-1]
    found = np.interp([1 / rate for rate in gbits], slowness, seconds)
    return [float(own) for own in found]


def draw_chart() -> "Figure":
    """A curve for each contender, the measured links as marks, the crossing as a line."""
    drawn, (plot,) = figures.panels(
        "Seconds of a training step against the speed of the link", width=7.6, height=4.4
    )
    links = shaped()
    rates = [own["rate_bits_per_second"] / 1e9 for own in links]
    fine = [float(own) for own in np.geomspace(rates[0], rates[-1], _POINTS * (len(rates) - 1))]
    for name, (label, colour, marker) in CHARTED.items():
        plot.plot(fine, between(links, name, fine), color=colour)
        seconds = [median(own, name) for own in links]
        plot.plot(rates, seconds, marker, color=colour, label=label)
    plot.set(xscale="log", yscale="log")
    _mark_crossing(plot)
    plot.set_xlabel(
        "link of each rank, Gbit/s (two ranks, ten million parameters; marks are measured)"
    )
    plot.set_ylabel("seconds a step, the median")
    figures.plain_ticks(plot.xaxis, (0.1, 0.2, 0.5, 1, 2, 5, 10))
    figures.plain_ticks(plot.yaxis, (0.1, 0.2, 0.5, 1, 2, 4))
    plot.legend(fontsize=9, loc="upper right")
    return drawn


def _mark_crossing(plot: "Axes") -> None:
    """Where plain DDP catches up with `natural`, if it does between the links."""
    rate = crossing(shaped(), CHART_RANKS, "none", "natural")
    if rate is None:
        return
    (seconds,) = between(shaped(), "natural", [rate])
    plot.axvline(rate, ymax=0.2, color=figures.INK, lw=1, ls=":")
    plot.plot([rate], [seconds], "o", ms=11, mfc="none", color=figures.INK)
    plot.annotate(f"from {rate:.1f} Gbit/s on\nplain DDP is faster", (rate, seconds), (-10, 38),
                  textcoords="offset points", ha="right", fontsize=9,
                  bbox=figures.PAPER)  # fmt: skip


def chart() -> str:
    """The picture as a file."""
    return figures.svg(draw_chart)


def chart_alt() -> str:
    """The picture, described for those who do not see it."""
    slow = shaped()[0]
    said = ", ".join(f"{label} {median(slow, name):.2f}" for name, (label, _, _) in CHARTED.items())
    rate = crossing(shaped(), CHART_RANKS, "none", "natural")
    end = "" if rate is None else f"; from {rate:.1f} Gbit/s on plain DDP is faster"
    return paragraph(
        f"![Seconds of a training step, {slow['params'] / 1e6:.0f} million parameters on"
        f" {slow['ranks']} ranks, at 100 Mbit/s to 10 Gbit/s. "
        f"At 100 Mbit/s: {said}{end}](docs/_static/step-time.svg)"
    )  # fmt: skip
