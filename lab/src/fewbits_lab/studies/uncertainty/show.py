"""Shows `uncertainty`: figure, findings and claims."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fewbits_lab import figures
from fewbits_lab.experiment import Claim, Experiment
from fewbits_lab.studies.uncertainty.run import DIMENSIONS, UncertaintyRow, rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_NAMED, _APART = 6, 0.4  # names in the figure, and how many octaves of bits lie between two
_NATURAL, _ROOM = 1 / 8, 1.05  # its variance, and what a mean over few draws may exceed it by


def draw(table: Sequence[UncertaintyRow]) -> "Figure":
    """Bits against α, and the curve that nobody gets below."""
    drawn, (plot,) = figures.panels(
        "No operator gets below the curve: bits against worst error", height=5.5
    )
    alphas = np.geomspace(1e-6, 0.999, 200)
    plot.plot(alphas, 0.5 * np.log2(1 / alphas), color="black")
    plot.fill_between(alphas, 0.01, 0.5 * np.log2(1 / alphas), color=figures.GREY, alpha=0.2)
    plot.annotate("impossible: α·4^bits < 1", (2e-6, 0.06), fontsize=10, color=figures.GREY)
    shown = [row for row in table if row.product is not None]
    for d, marker in zip(DIMENSIONS, figures.MARKERS, strict=False):
        for unbiased, colour in ((True, figures.BLUE), (False, figures.ORANGE)):
            mine = [row for row in shown if row.d == d and row.unbiased is unbiased]
            plot.plot(
                [row.alpha for row in mine], [row.bits_per_value for row in mine], marker,
                ls="none", color=colour, ms=6, mfc="none", mew=1.5,
            )  # fmt: skip
        if any(row.d == d for row in shown):
            plot.plot([], [], marker, ls="none", color="black", mfc="none", label=f"d = {d:,}")
    # Names in a column where no operator can be, so that they cover neither points nor curve.
    named = sorted(_nearest(shown), key=lambda row: -row.bits_per_value)
    for row, height in zip(named, np.geomspace(1.6, 0.13, len(named)), strict=True):
        plot.annotate(
            row.operator, (row.alpha, row.bits_per_value), (0.012, float(height)), ha="right",
            va="center", fontsize=8, textcoords="data",
            arrowprops={"arrowstyle": "-", "color": figures.GREY, "lw": 0.8,
                        "relpos": (1, 0.5)},
        )  # fmt: skip
    plot.plot([], [], "o", color=figures.BLUE, label="unbiased, α = ω/(1 + ω)")
    plot.plot([], [], "o", color=figures.ORANGE, label="biased")
    plot.set_xscale("log")
    plot.set_yscale("log")
    figures.plain_ticks(plot.yaxis, (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20))
    plot.set_ylim(0.04, 40)
    plot.set_xlim(1e-6, 1.3)
    plot.set_xlabel("α: the largest mean error |C(x)−x|²/|x|² over vectors of 14 kinds (log scale)")
    plot.set_ylabel("bits a value, longest frame (log scale)")
    plot.legend(loc="lower left", bbox_to_anchor=(0, 0.12), fontsize=9, frameon=False)
    return drawn


def _nearest(shown: Sequence[UncertaintyRow]) -> list[UncertaintyRow]:
    """The rows of the largest dimension nearest to the curve, with room for their names."""
    largest = max(row.d for row in shown)
    order = sorted((r for r in shown if r.d == largest), key=lambda row: row.product or 0.0)
    named: list[UncertaintyRow] = []
    for row in order:
        apart = (abs(np.log2(row.bits_per_value / other.bits_per_value)) for other in named)
        if len(named) < _NAMED and all(ratio > _APART for ratio in apart):
            named.append(row)
    return named


def claims(table: Sequence[UncertaintyRow]) -> list[Claim]:
    """The uncertainty principle over all operators at their worst, and natural's variance."""
    product, worst = min(
        ((row.product, row) for row in table if row.product is not None), key=lambda own: own[0]
    )
    holds = product >= 1
    natural = [row.error for row in table if row.operator == "natural"]
    within = max(natural) <= _NATURAL * _ROOM
    return [
        Claim(
            "optimal", "Section 2", "α·4^(b/d) is at least 1 for every operator", "at least 1",
            f"the least is {product:.2f}, of `{worst.operator}` with d = {worst.d:,}; "
            f"{len(table)} cases measured", holds, "" if holds else "a frame below the bound",
        ),
        Claim(
            "natural", "Theorem 3", "natural compression adds little variance",
            "at most 1/8 of ‖x‖², attained at 4/3 of powers of two",
            f"{max(natural):.4f} on the worst of the kinds of vectors, measured", within,
            "" if within else "more than 1/8 by more than sampling allows",
        ),
    ]  # fmt: skip


UNCERTAINTY = Experiment(
    name="uncertainty",
    title="The uncertainty principle, measured",
    about="α·4^(b/d) is at least 1 for every operator: b is its longest frame, α its largest mean "
    "error, over 14 kinds of vectors, typical ones and those that operators are worst at. Headers "
    "count, which is what lifts the points of d = 100.",
    row=UncertaintyRow,
    compute=rows,
    draw=draw,
    claims=claims,
    version=2,
)
