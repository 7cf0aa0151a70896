r"""The common part of the four tables of the paper on natural compression.

$d = 10^6$, a sparsifier that keeps a tenth, dithering with $p = 2$ and the best number of levels.
Their formulas have $\kappa z$ with $z = \sqrt d\, 2^{1-s}$ and $\kappa = \min(1, z)$; several of
their numbers follow with $\kappa = 1$ only.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from fewbits.theory.cost import MODELS
from fewbits_lab import figures
from fewbits_lab.experiment import Claim
from fewbits_lab.printed import Comparison, agrees

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_D = 10**6
KEPT = 0.1
MOST_LEVELS = 40  # far beyond the best
_NARROW = 1.5  # times: a span whose two ends have one label
_LABEL = 1.4  # times: how far a label reaches to the right
_TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20)
_NAMES = {
    "identity": "no compression",
    "C_nat": "natural compression\n$C_{nat}$",
    "S^q": "random 10 %\n$S^q$",
    "C_nat∘S^q": "random 10 %, then natural\n$C_{nat} \\circ S^q$",
    "S^q∘C_nat": "natural, then random 10 %\n$S^q \\circ C_{nat}$",
    "D_sta": "standard dithering\n$D_{sta}$",
    "D_nat": "natural dithering\n$D_{nat}$",
    "D_nat, norm too": "natural dithering,\nnorm compressed too",
}
_PLAIN = {name: text.partition("\n$")[0].replace("\n", " ") for name, text in _NAMES.items()}
ENDS = ((1.0, "one worker"), (0.0, "many workers"))
FLAT = "the print takes κ = 1 where the printed formula has κ = min{1, √d·2^(1−s)}"

Cost = tuple[float, float]  # 1 + omega, bits a value
Formula = Callable[[int], Cost]  # by the number of levels


def fixed(growth: float, bits: float) -> Formula:
    """An operator without levels."""
    return lambda _: (growth, bits)


def standard(*, flat: bool = False, spare: int = 2) -> Formula:
    """Standard dithering with $2^{s-1}$ levels, `spare` + s bits a value; `flat`: κ = 1."""
    return lambda s: (1 + _noise(s, flat=flat), 31 / _D + spare + s)


def natural(*, flat: bool = False) -> Formula:
    """Natural dithering with s levels."""
    return lambda s: (9 / 8 + _noise(s, flat=flat), 31 / _D + 2 + math.log2(s))


def natural_norm(*, flat: bool = False) -> Formula:
    """The same with the norm compressed as well."""
    return lambda s: (81 / 64 + 9 / 8 * _noise(s, flat=flat), 8 / _D + 2 + math.log2(s))


def _noise(levels: int, *, flat: bool) -> float:
    z = math.sqrt(_D) * 2.0 ** (1 - levels)
    return z if flat else z * min(1.0, z)


SPEEDUP_IDENTITY = fixed(1.0, 32.0)
NATURAL = fixed(9 / 8, 9.0)
SPEEDUP_SPARSE = fixed(1 / KEPT, KEPT * (33 + math.log2(_D)))
SPARSE_NATURAL = fixed(9 / 8 / KEPT, KEPT * (10 + math.log2(_D)))
SPARSE_NATURAL_SHORT = fixed(9 / 8 / KEPT, KEPT * (9 + math.log2(_D)))


class Slip(NamedTuple):
    """Why the print differs, and the formula that gives what is printed."""

    reason: str
    formula: Formula


class Entry(NamedTuple):
    """A row of a table: what is printed for one worker and for many, and slips or remarks."""

    operator: str
    growth: str
    bits: str
    formula: Formula
    printed: tuple[str, str]
    slips: tuple[Slip | None, Slip | None] = (None, None)
    remarks: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedupRow(Comparison):
    """One end of one row: how many times less is sent in all, by the printed formula.

    `levels` is the best number of them. `explained` is what the slip gives that `reason` names.
    """

    operator: str
    growth: str
    bits: str
    workers: str
    levels: int | None
    explained: float | None


def rows(model: int, entries: Sequence[Entry]) -> list[SpeedupRow]:
    """All numbers of a table."""
    return [
        _row(model, entry, end, theta, workers)
        for entry in entries
        for end, (theta, workers) in enumerate(ENDS)
    ]


def _row(model: int, entry: Entry, end: int, theta: float, workers: str) -> SpeedupRow:
    ours, levels = best(model, entry.formula, theta)
    slip = entry.slips[end]
    return SpeedupRow(
        operator=entry.operator,
        growth=entry.growth,
        bits=entry.bits,
        workers=workers,
        printed=entry.printed[end],
        ours=ours,
        reproduces=agrees(ours, entry.printed[end]),
        levels=levels if entry.formula(1) != entry.formula(2) else None,
        explained=best(model, slip.formula, theta)[0] if slip else None,
        reason=slip.reason if slip else entry.remarks[end],
    )


def best(model: int, formula: Formula, theta: float) -> tuple[float, int]:
    """The largest speedup over the numbers of levels, and that number, the least of equals."""
    found = []
    for levels in range(1, MOST_LEVELS):
        growth, bits = formula(levels)
        found.append((MODELS[model].speedup(growth - 1, bits, theta), -levels))
    speedup, levels = max(found)
    return speedup, -levels


def claims(where: str, operators: Sequence[str]) -> Callable[[Sequence[SpeedupRow]], list[Claim]]:
    """The claims about these operators: how many times fewer bits, from one worker to many."""

    def decided(table: Sequence[SpeedupRow]) -> list[Claim]:
        found = []
        for name in operators:
            worst, most = (row for row in table if row.operator == name)
            agrees = worst.reproduces is not False and most.reproduces is not False
            remarks = dict.fromkeys(row.reason for row in (worst, most) if row.reason)
            found.append(
                Claim(
                    "natural", where, f"{_PLAIN[name]}: total communication, one worker to many",
                    f"{worst.printed} to {most.printed} times less",
                    f"{worst.ours:.3g} to {most.ours:.3g} times less, by the printed formulas",
                    agrees, "; ".join(remarks), by_formula=True,
                )
            )  # fmt: skip
        return found

    return decided


def figure(title: str, baseline: str) -> Callable[[Sequence[SpeedupRow]], "Figure"]:
    """How to draw a table: for each operator the span from one worker to many, and the print."""

    def draw(table: Sequence[SpeedupRow]) -> "Figure":
        operators = list(dict.fromkeys(row.operator for row in table))
        drawn, (plot,) = figures.panels(title, height=2.1 + 0.62 * len(operators), width=9)
        spans = [[row for row in table if row.operator == name] for name in operators]
        for at, (worst, most) in enumerate(spans):
            plot.plot([worst.ours, most.ours], [at, at], color=figures.BLUE, lw=7, alpha=0.35)
            for row in (worst, most):
                departs = row.reproduces is False
                plot.plot(row.ours, at, "o", color=figures.BLUE, ms=8)
                plot.plot(
                    float(row.printed or "nan"), at,
                    "X" if departs else "|", ms=10 if departs else 18,
                    color=figures.ORANGE if departs else "black",
                )  # fmt: skip
            _numbers(plot, worst, most, at)
        plot.set_title("a million values, dithering with p = 2 and the best number of levels",
                       fontsize=10)  # fmt: skip
        plot.axvline(1, color="black", lw=1)
        plot.set_xscale("log")
        plot.set_xlabel(
            f"total communication: times less than {baseline}, log scale (below 1: more)"
        )
        values = [value for row in table for value in (row.ours, float(row.printed or 1))]
        low, high = min(values) / 1.6, max(values) * 1.4
        plot.set_xlim(low, high)
        figures.plain_ticks(plot.xaxis, [tick for tick in _TICKS if low <= tick <= high])
        figures.names(plot, [_NAMES[name] for name in operators])
        plot.plot([], [], "o-", color=figures.BLUE,
                  label="ours, above: from one worker to many")  # fmt: skip
        plot.plot([], [], "|", ms=14, color="black", label="printed, below: reproduces")
        plot.plot([], [], "X", ms=9, color=figures.ORANGE, label="printed, below: does not")
        drawn.legend(loc="outside lower left", ncols=3, fontsize=9)
        return drawn

    return draw


def _numbers(plot: "Axes", worst: SpeedupRow, most: SpeedupRow, at: int) -> None:
    """Ours over the ends of a span and the print below, no text on the line at 1."""
    if worst.ours < most.ours < _NARROW * worst.ours:
        ours = f"{worst.ours:#.3g} to {most.ours:#.3g}"
        printed, low = f"{worst.printed} to {most.printed}", float(worst.printed or 1)
        departs = worst.reproduces is False or most.reproduces is False
        _number(plot, ours, printed, (worst.ours, low), at, side="left", departs=departs)
        return
    for row, side in ((worst, "right"), (most, "left")):
        x = float(row.printed or 1)
        beside = row.ours < 1 < _LABEL * row.ours or x < 1 < _LABEL * x
        _number(
            plot, f"{row.ours:#.3g}", row.printed or "", (row.ours, x), at,
            side="right" if beside else side, departs=row.reproduces is False,
        )  # fmt: skip
        if worst.ours == most.ours:
            return


def _number(
    plot: "Axes", ours: str, printed: str, x: tuple[float, float], at: int, *, side: str,
    departs: bool,
) -> None:  # fmt: skip
    away = 2 if side == "left" else -2
    cells = (
        (ours, x[0], 11, "bottom", figures.BLUE),
        (printed, x[1], -11, "top", figures.ORANGE if departs else "black"),
    )
    for text, place, height, vertical, colour in cells:
        plot.annotate(text, (place, at), (away, height), textcoords="offset points", ha=side,
                      va=vertical, fontsize=9, color=colour, bbox=figures.PAPER)  # fmt: skip
