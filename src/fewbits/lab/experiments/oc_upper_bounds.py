r"""What sparse dithering needs at most, and the figures of merit that follow.

Per value, $c(\nu)$ for nearest rounding and $\log_2 3 + 1 / (2\sqrt\omega)$ on average for unbiased
rounding; a message adds $30 + \log_2 d$ bits.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fewbits.lab import figures
from fewbits.lab.experiment import Claim, Experiment, Settings, Tick
from fewbits.lab.printed import Comparison, agrees
from fewbits.theory.information import sparse_dithering_bits as nearest
from fewbits.theory.information import stochastic_dithering_bits as stochastic
from fewbits.theory.information import uncertainty_bits, uncertainty_product

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Known(NamedTuple):
    """A published number, or one of our notes on the paper: at which nu or omega, and its text."""

    quantity: str
    at: float
    text: str
    reason: str = ""


_MISPRINT = (
    "the poster's general form has √ν for 2√ν, which gives 4.82 and not the 3.35 that it "
    "states; 2√ν gives 3.349"
)
PRINTED = (
    *(
        Known("bits, nearest", nu, text, "2.39947, rounded twice" if nu == 0.9 else "")
        for nu, text in {
            0.01: "6.59", 0.05: "3.95", 0.1: "3.349", 0.15: "3.085", 0.2: "2.928", 0.25: "2.822",
            0.5: "2.560", 0.9: "2.400",
        }.items()
    ),
    Known("bits, nearest, the poster's form", 0.1, "4.82", _MISPRINT),
    Known("bits, nearest, published", 0.1, "3.35"),
    Known("bits above the lower bound, published", 0.1, "1.69"),
    Known("bits above the lower bound", 0.1, "1.6885"),
    Known("lower bound", 0.1, "1.6610"),
    Known("bits, stochastic", 0.1, "3.166"),
    Known("bits, stochastic", 0.25, "2.585"),
    Known("bits, stochastic", 1.0, "2.085"),
    Known("times less in all, stochastic, published", 0.25, "9.9"),
    Known("times less in all, stochastic", 0.25, "9.903"),
    Known("most times less in all, stochastic", 0.2426, "9.904"),
    Known("times less in all, nearest", 0.1, "8.60"),
    Known("most times less in all, nearest", 0.157, "8.82"),
    Known("least α·4^bits, nearest", 0.1006, "10.39"),
    Known("least α·4^bits, stochastic", 0.162, "7.02"),
    Known("α·4^bits, stochastic", 0.25, "7.2"),
)  # fmt: skip
_SWEEP = np.geomspace(0.01, 1, 101)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Comparison):
    """One number; `at` is ν or ω, where an optimum is concerned the printed place of it."""

    quantity: str
    at: float
    optimum_at: float | None


def rows(_: Settings, tick: Tick) -> list[Row]:
    """The published numbers, then both curves; nothing in them is random."""
    found = []
    for known in PRINTED:
        ours, place = _ours(known)
        found.append(
            Row(
                quantity=known.quantity,
                at=known.at,
                optimum_at=place,
                printed=known.text,
                ours=ours,
                reproduces=known.reason != _MISPRINT and agrees(ours, known.text),
                reason=known.reason,
            )
        )
    for value in _SWEEP:
        for quantity, function in (("curve, nearest", gain_nearest), ("curve, stochastic", gain)):
            found.append(
                Row(
                    quantity=quantity,
                    at=float(value),
                    optimum_at=None,
                    printed=None,
                    ours=function(float(value)),
                    reproduces=None,
                )
            )
    tick(1.0)
    return found


def gain_nearest(nu: float) -> float:
    """Times less in all than 32 bits a value, with 1/(1 - ν) times the iterations."""
    return 32 * (1 - nu) / nearest(nu)


def gain(omega: float) -> float:
    """The same with unbiased rounding, and 1 + ω times the iterations."""
    return 32 / ((1 + omega) * stochastic(omega))


def poster(nu: float) -> float:
    """The bound with the denominator that the poster prints."""
    tau = np.linspace(1e-6, 1 - 1e-6, 200_001)
    entropy = -tau * np.log2(tau) - (1 - tau) * np.log2(1 - tau)
    return float(np.max(entropy + 1.5 * (1 - tau) + (1 - tau / 2) / math.sqrt(nu)))


def _product(omega: float) -> float:
    return uncertainty_product(omega / (1 + omega), stochastic(omega), 1)


_AT: dict[str, Callable[[float], float]] = {
    "bits, nearest": nearest,
    "bits, nearest, published": nearest,
    "bits, nearest, the poster's form": nearest,
    "bits above the lower bound": lambda nu: nearest(nu) - uncertainty_bits(nu, 1),
    "bits above the lower bound, published": lambda nu: nearest(nu) - uncertainty_bits(nu, 1),
    "lower bound": lambda nu: uncertainty_bits(nu, 1),
    "bits, stochastic": stochastic,
    "times less in all, stochastic": gain,
    "times less in all, stochastic, published": gain,
    "times less in all, nearest": gain_nearest,
    "α·4^bits, stochastic": _product,
}
_BEST: dict[str, Callable[[float], float]] = {
    "most times less in all, stochastic": gain,
    "most times less in all, nearest": gain_nearest,
    "least α·4^bits, nearest": lambda nu: -uncertainty_product(nu, nearest(nu), 1),
    "least α·4^bits, stochastic": lambda omega: -_product(omega),
}


def _ours(known: Known) -> tuple[float, float | None]:
    if known.quantity in _AT:
        return _AT[known.quantity](known.at), None
    function = _BEST[known.quantity]
    places = np.geomspace(0.01, 0.99, 20_001)
    place = max(map(float, places), key=function)
    return abs(function(place)), place


def draw(table: Sequence[Row]) -> "Figure":
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


def claims(table: Sequence[Row]) -> list[Claim]:
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


EXPERIMENT = Experiment(
    name="oc-upper-bounds",
    title="Optimal compression, bounds of sparse dithering",
    about="Bits a value for long vectors, at most (nearest rounding, α = ν) and on average "
    "(unbiased rounding), and what remains of the savings after 1/(1 − α) or 1 + ω times the "
    "iterations.",
    row=Row,
    compute=rows,
    draw=draw,
    claims=claims,
)
