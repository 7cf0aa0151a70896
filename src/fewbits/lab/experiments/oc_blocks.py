"""Spherical compression in blocks: what an index takes a value, and how many directions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fewbits.core import caps
from fewbits.lab import figures
from fewbits.lab.experiment import Experiment, Settings, Tick
from fewbits.lab.printed import Comparison, agrees
from fewbits.theory import information

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_RICE = 40
SIZES = (4, 8, 12, 16, 24, 32)
# By alpha, in the order of SIZES: bits a value, directions.
PRINTED = {
    0.9: (".737 .459 .344 .292 .229 .195", "3 5 7 9 16 27"),
    0.8: (".876 .576 .456 .391 .325 .290", "4 9 16 28 80 220"),
    0.5: ("1.219 .927 .809 .741 .672 .636", "11 60 291 1.3e3 2.6e4 4.7e5"),
    0.25: ("1.661 1.387 1.286 1.229 1.162", "35 789 1.6e4 2.9e5 8.9e7"),
    0.1: ("2.174 1.980 1.900 1.855", "144 2.1e4 2.6e6 3e8"),
}
REASONS = {("directions", 0.25, 12): "15,456, rounded up"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Comparison):
    """One quantity for blocks of d values; `floor` is ½ log₂ 1/α."""

    quantity: str
    alpha: float
    d: int
    floor: float


def rows(_: Settings, tick: Tick) -> list[Row]:
    """Every number of the table; nothing in it is random."""
    found = []
    for alpha, (bits, directions) in PRINTED.items():
        for d, bit_text, count_text in zip(SIZES, bits.split(), directions.split(), strict=False):
            chance = caps.probability(alpha, d)
            rice = caps.rice_parameter(chance, MOST_RICE)
            assert rice is not None
            cells = (
                ("bits a value", caps.rice_bits(chance, rice) / d, f"0{bit_text}".lstrip("0")),
                ("directions", 1 / chance, count_text),
            )
            for quantity, ours, text in cells:
                found.append(
                    Row(
                        quantity=quantity,
                        alpha=alpha,
                        d=d,
                        printed=text,
                        ours=ours,
                        reproduces=agrees(ours, text),
                        reason=REASONS.get((quantity, alpha, d), ""),
                        floor=information.uncertainty_bits(alpha, 1),
                    )
                )
    tick(1.0)
    return found


def draw(table: Sequence[Row]) -> "Figure":
    """Bits a value against directions: what patience buys."""
    drawn, (plot,) = figures.panels("Spherical compression: what patience buys", height=5)
    lowest = max(PRINTED)  # its numbers stand below the line, which is next to another
    for colour, marker, alpha in zip(figures.COLOURS, figures.MARKERS, PRINTED, strict=False):
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


EXPERIMENT = Experiment(
    name="oc-blocks",
    title="Optimal compression, spherical compression in blocks",
    about="The mean length of the index, by the best Rice code, a value, and the mean number of "
    "directions that an encoder looks at. Radii come on top.",
    row=Row,
    compute=rows,
    draw=draw,
    version=2,
)
