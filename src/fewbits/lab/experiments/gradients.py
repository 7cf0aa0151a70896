"""Entropy of what `natural` sends for recorded gradients, by layer and step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from fewbits.bench import coding
from fewbits.lab import figures, vectors
from fewbits.lab.experiment import Experiment, Settings, Tick
from fewbits.lab.gradients import Recorded, recorded
from fewbits.lab.vectors import Values

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALL, SMALL = "whole model", "small layers together"
LEAST = 4096  # values of a layer with a row of its own
_SIGN = 1.0  # a bit a value, which no coder takes away
_PACKED = 9.0


@dataclass(frozen=True, slots=True)
class Row:
    """A layer's exponents as `natural` sends them. Bits are for a value.

    `entropy` is that of single exponents, signs not counted; `rans_bits` is the whole frame of
    `natural:coder=rans`, signs, tables, header and checksum included.
    """

    model: str
    data: str
    step: int
    layer: str
    values: int
    zeros: float
    distinct: int
    entropy: float
    rans_bits: float
    error: float


def rows(settings: Settings, tick: Tick) -> list[Row]:
    """The whole model and its layers, at every recorded step."""
    found = []
    every = recorded(settings)
    for part, own in enumerate(every, 1):
        found += [_row(own, name, x, settings.seed) for name, x in layers(own.step.gradients)]
        tick(part / len(every))
    return found


def layers(gradients: dict[str, Values]) -> Iterator[tuple[str, Values]]:
    """Everything, each large parameter, and what is left; none whose gradient is all 0."""
    flat = {name: own.ravel() for name, own in gradients.items()}
    large = {name: own for name, own in flat.items() if own.size >= LEAST}
    small = [own for own in flat.values() if own.size < LEAST]
    named = {ALL: np.concatenate(list(flat.values())), **large}
    if small:
        named[SMALL] = np.concatenate(small)
    return ((name, own) for name, own in named.items() if own.any())


def _row(own: Recorded, layer: str, x: Values, seed: int) -> Row:
    known = coding.described(layer, coding.exponents(x))
    bits, error = vectors.measure("natural:coder=rans", x, seed)
    return Row(
        model=own.model,
        data=own.data,
        step=own.step.number,
        layer=layer,
        values=x.size,
        zeros=known.zeros,
        distinct=known.distinct,
        entropy=known.entropy,
        rans_bits=bits,
        error=error,
    )


def findings(table: Sequence[Row]) -> list[str]:
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


def draw(table: Sequence[Row]) -> "Figure":
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
        plot.set_xlabel("layer, from input to output")
        plot.legend(fontsize=8, loc="lower left")
    plots[0].set_ylabel("bits an exponent; dashed: whole model")
    return drawn


EXPERIMENT = Experiment(
    name="gradients",
    title="Recorded gradients: entropy by layer and step",
    about="Three small models at steps of their training. The exponents are those that natural "
    "sends, 8 bits each when packed; their entropy is what a coder of single symbols needs at "
    "least. Layers below 4,096 values are taken together, and layers whose gradient is 0 have no "
    "row.",
    row=Row,
    compute=rows,
    draw=draw,
    findings=findings,
)
