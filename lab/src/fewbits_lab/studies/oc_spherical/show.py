"""Shows `oc-spherical`: figure, findings and claims."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.experiment import Claim, Experiment
from fewbits_lab.studies.oc_spherical.run import OcSphericalRow, rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(table: Sequence[OcSphericalRow]) -> "Figure":
    """Bits of an index over the least number, case by case."""
    drawn, plots = figures.panels(
        "Spherical compression: nearly optimal, exponentially slow", 2, width=11, height=4.6
    )
    cases = list(dict.fromkeys((row.alpha, row.d) for row in table))
    by_name = {(row.quantity, row.alpha, row.d): row for row in table}
    names = [f"α = {alpha:g}, d = {d}" for alpha, d in cases]
    left, right = plots
    for at, case in enumerate(cases):
        least = by_name["least bits", *case].ours
        index = by_name["bits of an index", *case]
        left.barh(at, least, color=figures.GREY, alpha=0.5, height=0.6)
        left.plot(index.ours, at, "o", color=figures.BLUE)
        left.plot(index.measured or 0.0, at, "|", color=figures.ORANGE, ms=14, mew=2)
        left.plot(float(index.printed or "nan"), at, "+", color="black", ms=9)
        right.barh(at, by_name["directions 1/P", *case].ours, color=figures.BLUE, height=0.6)
    left.barh([0], [0], color=figures.GREY, alpha=0.5, label="least: −log₂ P")
    left.plot([], [], "o", color=figures.BLUE, label="mean of the Rice code")
    left.plot([], [], "|", color=figures.ORANGE, ms=12, mew=2, label="in our frames")
    left.plot([], [], "+", color="black", ms=9, label="known from other code")
    left.set_xlabel("bits of a block's index")
    right.set_xlabel("directions looked at, on average (log scale)")
    right.set_xscale("log")
    right.set_xlim(1, 1e5)
    figures.names(left, names)
    figures.names(right, names)
    handles = left.get_legend_handles_labels()
    drawn.legend(*handles, loc="outside lower left", ncols=4, fontsize=9)
    return drawn


def claims(table: Sequence[OcSphericalRow]) -> list[Claim]:
    """How near the index is to the lower bound."""
    least = {(row.alpha, row.d): row.ours for row in table if row.quantity == "least bits"}
    found = [row for row in table if row.quantity == "bits of an index"]
    over = [(row.measured or 0.0) - least[row.alpha, row.d] for row in found]
    return [
        Claim(
            "optimal", "Section 4, poster", "spherical compression is near the fewest bits "
            "possible on average", "less than 3 bits more for a block",
            f"{min(over):.2f} to {max(over):.2f} bits more, in frames, {len(over)} cases",
            max(over) < 3, "" if max(over) < 3 else "more than 3 bits",
        )
    ]  # fmt: skip


OC_SPHERICAL = Experiment(
    name="oc-spherical",
    title="Optimal compression, spherical compression",
    about="The first random direction within a cap is sent by its number. Directions and least "
    "bits are exact; bits, errors and ω were measured in other code with random directions, so "
    "ours, exact, count as equal within 1 % (2 % for ω). In frames a radius is quantised as well, "
    "which adds to the errors, and bits are whole bytes of a section.",
    row=OcSphericalRow,
    compute=rows,
    draw=draw,
    claims=claims,
)
