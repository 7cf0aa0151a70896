"""Shows `oc-upper-bounds`: figure, findings and claims."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fewbits_lab import figures
from fewbits_lab.experiment import Claim, Experiment
from fewbits_lab.studies.oc_upper_bounds.run import OcUpperBoundsRow, rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def poster(nu: float) -> float:
    """The bound with the denominator that the poster prints."""
    tau = np.linspace(1e-6, 1 - 1e-6, 200_001)
    entropy = -tau * np.log2(tau) - (1 - tau) * np.log2(1 - tau)
    return float(np.max(entropy + 1.5 * (1 - tau) + (1 - tau / 2) / math.sqrt(nu)))


def draw(table: Sequence[OcUpperBoundsRow]) -> "Figure":
    """Times less in all against ν or ω, and the published optimum."""
    drawn, (plot,) = figures.panels("Sparse dithering: less communication in all, guaranteed")
    for quantity, colour, shift, name in (
        ("curve, stochastic", figures.BLUE, 9, "unbiased, 32 / ((1 + ω) bits)"),
        ("curve, nearest", figures.ORANGE, -16, "biased, 32 (1 − ν) / bits"),
    ):
        mine = [row for row in table if row.quantity == quantity]
        plot.plot([row.at for row in mine], [row.ours for row in mine], color=colour, label=name)
        top = max(mine, key=lambda row: row.ours)
        plot.plot(top.at, top.ours, "o", color=colour)
        plot.annotate(
            f"{top.ours:.2f}× at {top.at:.2g}", (top.at, top.ours), (0, shift), ha="center",
            textcoords="offset points", color=colour,
        )  # fmt: skip
    plot.plot(0.25, 9.9, "+", color="black", ms=13, mew=2, label="published: 9.9× at ω = 1/4")
    plot.set_xscale("log")
    figures.plain_ticks(plot.xaxis, (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1))
    plot.set_ylim(0, 11.5)
    plot.set_xlabel("ν (biased) or ω (unbiased)")
    plot.set_ylabel("times less than 32 bits a value")
    plot.legend(loc="lower left")
    return drawn


_PUBLISHED = {
    "bits, nearest, published": ("biased sparse dithering at α = 1/10, bits a value at most", ""),
    "bits above the lower bound, published": ("the same, above the lower bound", " bits a value"),
    "times less in all, stochastic, published": (
        "unbiased sparse dithering at ω = 1/4: total communication", " times less",
    ),
}  # fmt: skip


def claims(table: Sequence[OcUpperBoundsRow]) -> list[Claim]:
    """The published constants."""
    return [
        Claim(
            "optimal", "Section 3, poster", text, f"{row.printed}{unit}",
            f"{row.ours:.4g}{unit}, by the formula", row.reproduces, row.reason, by_formula=True,
        )
        for row in table
        if row.quantity in _PUBLISHED
        for text, unit in [_PUBLISHED[row.quantity]]
    ]  # fmt: skip


OC_UPPER_BOUNDS = Experiment(
    name="oc-upper-bounds",
    title="Optimal compression, bounds of sparse dithering",
    about="Bits a value for long vectors, at most (nearest rounding, α = ν) and on average "
    "(unbiased rounding), and what remains of the savings after 1/(1 − α) or 1 + ω times the "
    "iterations.",
    row=OcUpperBoundsRow,
    compute=rows,
    draw=draw,
    claims=claims,
)
