"""Shows `equal-bytes`: figure, findings and claims."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.experiment import Experiment
from fewbits_lab.studies.equal_bytes.run import BUDGETS, FIXED, KNOBS, LAYER, EqualBytesRow, rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def findings(table: Sequence[EqualBytesRow]) -> list[str]:
    """The best without bias against the best baseline, and who falls behind it."""
    cases = dict.fromkeys((row.vector, row.budget) for row in table)
    return [
        _finding(vector, budget, [r for r in table if (r.vector, r.budget) == (vector, budget)])
        for vector, budget in cases
    ]


def _finding(vector: str, budget: int, own: Sequence[EqualBytesRow]) -> str:
    ratios, behind = [], []
    for model in dict.fromkeys(row.model for row in own):
        mine = [row for row in own if row.model == model]
        best = min((row for row in mine if row.baseline), key=lambda row: row.error)
        ours = [row for row in mine if not row.baseline]
        first = min((row for row in ours if row.bias != "yes"), key=lambda row: row.error)
        ratios.append(
            f"{model}: {first.operator} {first.error:.2g}, {best.operator} {best.error:.2g}, "
            f"{best.error / first.error:.1f} times"
        )
        behind += [row.operator for row in ours if row.error > best.error]
    names = "; ".join(dict.fromkeys(behind)) or "none"
    return (
        f"{vector.capitalize()}, {budget} bit{'s' if budget > 1 else ''}: our best without bias, "
        f"or nearly so, and the best baseline: {'; '.join(ratios)}. Behind that baseline on some "
        f"model: {names}."
    )


def draw(table: Sequence[EqualBytesRow]) -> "Figure":
    """A plot for each budget: operators down the side, errors of the models as markers."""
    order = list(dict.fromkeys(row.operator for row in sorted(table, key=_place)))
    drawn, plots = figures.panels(
        "Errors on gradients at equal measured bytes", len(BUDGETS), width=12.5, height=6
    )
    for plot, budget in zip(plots, BUDGETS, strict=True):
        own = [row for row in table if row.budget == budget]
        _errors(plot, own, order)
        figures.names(plot, order)
        plot.set_xscale("log")
        plot.set_xlabel("relative squared error (log)")
        plot.set_title(f"{budget} bit{'s' if budget > 1 else ''} a value", fontsize=10)
        low, high = (end(row.error for row in own) for end in (min, max))
        plot.set_xlim(10 ** (math.log10(low) - 0.3), 10 ** (math.log10(high) + 0.3))
    for plot in plots[1:]:
        plot.set_yticklabels([])
    plots[0].plot([], [], ":", color="black", label="best baseline on that layer")
    drawn.legend(*plots[0].get_legend_handles_labels(), loc="outside lower left", ncols=4)
    return drawn


def _errors(plot: "Axes", own: Sequence[EqualBytesRow], order: Sequence[str]) -> None:
    for colour, marker, model in zip(
        figures.COLOURS, figures.MARKERS, dict.fromkeys(row.model for row in own), strict=False
    ):
        for vector in dict.fromkeys(row.vector for row in own):
            mine = [row for row in own if (row.model, row.vector) == (model, vector)]
            plot.plot([row.error for row in mine], [order.index(row.operator) for row in mine],
                      marker, ls="none", color=colour, label=f"{model}, {vector}",
                      mfc=colour if vector == LAYER else "none")  # fmt: skip
            if vector == LAYER:
                best = min(row.error for row in mine if row.baseline)
                plot.axvline(best, color=colour, ls=":", lw=1)


def _place(row: EqualBytesRow) -> tuple[bool, int, int]:
    """Baselines first, then ours as listed."""
    names = [*KNOBS, *FIXED]
    return not row.baseline, 0 if row.baseline else names.index(row.operator), row.budget


EQUAL_BYTES = Experiment(
    name="equal-bytes",
    title="Recorded gradients: errors at equal measured bytes",
    about="The last recorded gradient of each model: of its largest layer, as training compresses "
    "it, and of the whole model as one vector. The latter favours codes that spend bits where the "
    "norm is, because layers differ much in scale. Baselines send whole messages with scales and "
    "keys; every operator has the finest setting whose whole frame is not longer than the shortest "
    "baseline's message of that line with the first seed (with others frames are up to 0.7 % "
    "longer), so int4, with its scales, has 3 % more bytes than ours. Operators that cannot use "
    "half of the bytes are left out, as are those that need more (natural without a coder, "
    "float16). Some of ours are biased, which the table says.",
    row=EqualBytesRow,
    compute=rows,
    draw=draw,
    findings=findings,
)
