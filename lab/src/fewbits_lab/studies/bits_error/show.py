"""Shows `bits-error`: figure, findings and claims."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fewbits_lab import figures
from fewbits_lab.baselines import BASELINES
from fewbits_lab.experiment import Experiment
from fewbits_lab.studies.bits_error.run import (
    BASELINE,
    CURVES,
    OPERATOR,
    TRELLIS_CURVE,
    TRELLIS_FIT_CURVE,
    BitsErrorRow,
    rows,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_FLOOR = 1e-5  # of the figure
# What the figure names: offset in points, and alignment.
_LABELS = {
    "natural": ((0, 9), "center", "bottom"),
    "natural:rounding=nearest": ((0, -9), "center", "top"),
    "natural:coder=rans": ((-6, 16), "center", "bottom"),
    "natural-dithering": ((9, 1), "left", "center"),
    "spherical": ((40, 24), "left", "center"),
    "sign": ((0, -36), "center", "top"),
}


_STYLES = {"least squares": "--", "subtractive": "--", TRELLIS_FIT_CURVE: "-", TRELLIS_CURVE: "-"}
_NAMES = {TRELLIS_CURVE: "trellis, subtractive", TRELLIS_FIT_CURVE: TRELLIS_FIT_CURVE}


def findings(table: Sequence[BitsErrorRow]) -> list[str]:
    """How far from the bound the best are, and what baselines take for the same error."""
    named = {row.operator: row for row in table if row.kind in (OPERATOR, BASELINE)}
    curves = [row for row in table if row.kind in CURVES and row.relative_squared_error < 0.5]
    best = min(curves, key=lambda row: row.above_bound or 0.0)
    nearest = (
        f"Nearest to the bound: {best.operator}, {best.bits_per_coordinate:.2f} bits with the "
        f"error {best.relative_squared_error:.2g}, {best.above_bound:.2f} bits above what any "
        "operator needs for it."
    )
    found = [nearest]
    for own in BASELINES:
        row = named[own.name]
        fewer = _curve_bits(table, "subtractive", row.relative_squared_error)
        if fewer is None:
            continue
        found.append(
            f"{own.name}: {row.bits_per_coordinate:.2f} bits with the error "
            f"{row.relative_squared_error:.2g}; subtractive dithering, unbiased too, takes "
            f"{fewer:.2f} bits for it."
        )
    packed, coded = named["natural"], named["natural:coder=rans"]
    found.append(
        f"natural at its fixed width is far from the bound, {packed.above_bound:.2f} bits above "
        f"it; the same values entropy coded are {coded.above_bound:.2f} above."
    )
    return found


def _curve_bits(table: Sequence[BitsErrorRow], curve: str, error: float) -> float | None:
    """Bits of a curve at an error, straight between its points; None beyond its ends."""
    points = sorted((r.relative_squared_error, r.bits_per_coordinate) for r in table
                    if r.kind == curve)  # fmt: skip
    errors, bits = zip(*points, strict=True)
    if not errors[0] <= error <= errors[-1]:
        return None
    return float(np.interp(math.log(error), np.log(errors), bits))


def draw(table: Sequence[BitsErrorRow]) -> "Figure":
    """Log error over bits: the bound, scalar and trellis as curves, operators and baselines."""
    drawn, (plot,) = figures.panels(
        f"A Gaussian vector of {table[0].d:,} float32 values", width=7.6, height=5
    )
    bits = np.linspace(0, 10, 100)
    plot.plot(bits, 4.0**-bits, color=figures.GREY, lw=1.5)
    plot.fill_between(bits, 4.0**-bits, _FLOOR, color=figures.GREY, alpha=0.12, lw=0)
    plot.text(0.25, 3e-5, "lower bound $4^{-b}$:\nno operator can be\nbelow this line",
              color=figures.GREY)  # fmt: skip
    for curve, style in _STYLES.items():
        own = [row for row in table if row.kind == curve]
        plot.plot([row.bits_per_coordinate for row in own],
                  [row.relative_squared_error for row in own], style,
                  color=_colour(own[0]), label=_NAMES.get(curve, f"scalar, {curve}"))  # fmt: skip
    for row in table:
        if row.operator in _LABELS and row.kind == OPERATOR:
            _operator(plot, row)
    _baselines(plot, [row for row in table if row.kind == BASELINE])
    plot.set(yscale="log", ylim=(_FLOOR, 2), xlim=(0, 10.5))
    plot.set_xlabel("bits per coordinate, whole frame or message counted")
    plot.set_ylabel("relative squared error")
    plot.plot([], [], "o", color=figures.BLUE, label="operators: blue unbiased, orange biased")
    drawn.legend(*plot.get_legend_handles_labels(), loc="outside lower left", ncols=2, fontsize=8)
    return drawn


def _colour(row: BitsErrorRow) -> str:
    return figures.BLUE if row.unbiased else figures.ORANGE


def _operator(plot: "Axes", row: BitsErrorRow) -> None:
    x, error = row.bits_per_coordinate, row.relative_squared_error
    offset, horizontal, vertical = _LABELS[row.operator]
    line = (
        {"arrowstyle": "-", "color": _colour(row), "lw": 0.7}
        if max(map(abs, offset)) > 20
        else None
    )
    plot.plot(x, error, "o", color=_colour(row))
    plot.annotate(
        f"{row.operator}\n{x:.2f} bits, error {error:.2g}", (x, error), xytext=offset,
        textcoords="offset points", ha=horizontal, va=vertical, color=_colour(row), fontsize=8,
        arrowprops=line,
    )  # fmt: skip


def _baselines(plot: "Axes", own: Sequence[BitsErrorRow]) -> None:
    shown = {"EDEN": ("D", figures.PINK), "int": ("s", figures.BROWN), "fp8": ("v", figures.GREEN)}
    names = {"EDEN": "EDEN at 1, 2, 4 bits", "int": "int4 and int8 blocks", "fp8": "fp8 blocks"}
    for start, (marker, colour) in shown.items():
        mine = [row for row in own if row.operator.startswith(start)]
        plot.plot([row.bits_per_coordinate for row in mine],
                  [row.relative_squared_error for row in mine], marker, ls="none",
                  color=colour, label=f"{names[start]} (baseline)")  # fmt: skip


BITS_ERROR = Experiment(
    name="bits-error",
    title="Bits against error: operators, baselines and the lower bound",
    about="One Gaussian vector. Bits are those of whole frames, headers and checksums included, "
    "and of baselines' whole messages: codes, scales, keys. EDEN, fp8 (E4M3) and integers in "
    "blocks are built here from their published formulas, with stochastic rounding.",
    row=BitsErrorRow,
    compute=rows,
    draw=draw,
    findings=findings,
)
