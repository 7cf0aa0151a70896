"""Shows `gradients`: figure, findings and claims."""

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.experiment import Experiment
from fewbits_lab.studies.gradients.run import ALL, GradientsRow, rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_SIGN = 1.0  # a bit a value, which no coder takes away
_PACKED = 9.0


def findings(table: Sequence[GradientsRow]) -> list[str]:
    """Entropies by model, and what a coder makes of them."""
    found = []
    for model in dict.fromkeys(row.model for row in table):
        mine = [row for row in table if row.model == model]
        whole = [row for row in mine if row.layer == ALL]
        own = [row for row in mine if row.layer != ALL]
        least, most = (end(own, key=lambda row: row.entropy) for end in (min, max))
        found.append(
            f"{model} on {mine[0].data}: natural's exponents have "
            f"{min(r.entropy for r in whole):.2f} to {max(r.entropy for r in whole):.2f} bits of "
            f"entropy over the whole model, and by layer {least.entropy:.2f} ({least.layer}, step "
            f"{least.step}) to {most.entropy:.2f} ({most.layer}, step {most.step}). With the sign "
            f"natural:coder=rans sends {min(r.rans_bits for r in whole):.2f} to "
            f"{max(r.rans_bits for r in whole):.2f} bits in place of {_PACKED:.0f}."
        )
    over = [row.rans_bits - row.entropy - _SIGN for row in table if row.values >= 65_536]
    found.append(
        f"Layers of 65,536 values or more take {median(over):+.2f} bits beyond sign and entropy in "
        f"the median, {min(over):+.2f} to {max(over):+.2f}: below 0 where zeros need no sign, or "
        "where scales change from block to block."
    )
    return found


def draw(table: Sequence[GradientsRow]) -> "Figure":
    """Entropy layer by layer, in the model's order, a marker for each step."""
    models = list(dict.fromkeys(row.model for row in table))
    drawn, plots = figures.panels(
        "Entropy of natural's exponents, by layer and step", len(models), width=11.5, height=4.4
    )
    top = 1.1 * max(row.entropy for row in table)
    for plot, model in zip(plots, models, strict=True):
        mine = [row for row in table if row.model == model]
        order = [name for name in dict.fromkeys(row.layer for row in mine) if name != ALL]
        for colour, marker, step in zip(
            figures.COLOURS, figures.MARKERS, dict.fromkeys(row.step for row in mine), strict=False
        ):
            own = [row for row in mine if row.step == step and row.layer != ALL]
            plot.plot([order.index(row.layer) for row in own], [row.entropy for row in own],
                      marker, ls="none", color=colour, label=f"step {step}")  # fmt: skip
            (whole,) = (row for row in mine if row.step == step and row.layer == ALL)
            plot.axhline(whole.entropy, color=colour, lw=1, ls="--")
        plot.set_title(f"{model} on {mine[0].data}", fontsize=10)
        plot.set_ylim(0, top)
        plot.locator_params(axis="x", integer=True)
        plot.set_xlabel("layer, from input to output")
        plot.legend(fontsize=8, loc="lower left")
    plots[0].set_ylabel("bits an exponent; dashed: whole model")
    return drawn


GRADIENTS = Experiment(
    name="gradients",
    title="Recorded gradients: entropy by layer and step",
    about="Three small models at steps of their training. The exponents are those that natural "
    "sends, 8 bits each when packed; their entropy is what a coder of single symbols needs at "
    "least. Layers below 4,096 values are taken together, and layers whose gradient is 0 have no "
    "row.",
    row=GradientsRow,
    compute=rows,
    draw=draw,
    findings=findings,
)
