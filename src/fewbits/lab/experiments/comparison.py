r"""Compressors compared: bits and errors of real frames, and one figure of merit.

How many times less is sent in all than with 32 bits a value, if bias costs $1 / (1 - \alpha)$ and
unbiased noise $1 + \omega$ times the iterations, with the measured error for $\alpha$ or $\omega$.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import fewbits
from fewbits.lab import figures, vectors
from fewbits.lab.experiment import Experiment, Settings, Tick
from fewbits.lab.printed import Comparison, agrees

if TYPE_CHECKING:
    from matplotlib.figure import Figure

D = 15_360
WITHIN = 0.05  # frames have headers, and another vector was drawn
VECTORS: dict[str, Callable[[int, int], vectors.Values]] = {
    "Gaussian": vectors.gaussian,
    "scale varies": vectors.varying,
}


class Known(NamedTuple):
    """A gain that is known for Gaussian vectors, from formulas for bits or in other code."""

    text: str
    reason: str = ""


SPECS: dict[str, Known | None] = {
    "natural": Known("3.3"),
    "natural:coder=rans": None,
    "natural-dithering:coder=rans": None,
    "standard-dithering:p=2,levels=124,coder=rans": Known("12.7"),
    "standard-dithering:p=inf,levels=1,coder=rans": Known(
        "6.3", "known for log₂ 3 bits a value; entropy coding takes fewer"
    ),
    "sign": Known("20.2"),
    "top-k:fraction=0.01|identity": Known("6.7"),
    "top-k:fraction=0.1|identity": Known("3.9"),
    "top-k:fraction=0.01|natural": None,
    "top-k:fraction=0.1|natural": None,
    "rand-k:fraction=0.1|identity": Known("1.0"),
    "sparse-dithering:nu=0.1,coder=paper,block=3840": Known("11.0"),
    "sparse-dithering:nu=0.5,coder=paper,block=3840": Known("13.4"),
    "sparse-dithering:nu=1,coder=paper,block=3840": Known("13.9"),
    "sparse-dithering:nu=0.25,rounding=stochastic,coder=paper,block=3840": Known("11.6"),
    "sparse-dithering:nu=0.1": None,
    "sparse-dithering:nu=0.5": None,
    "sparse-dithering:nu=1": None,
    "sparse-dithering:nu=1,scale=least-squares": None,
    "sparse-dithering:nu=0.25,rounding=stochastic": None,
    "sparse-dithering:nu=0.25,rounding=subtractive": None,
    "spherical": None,
    "bfloat16": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Comparison):
    """`ours` is the gain; `unbiased` says which figure of merit."""

    vector: str
    operator: str
    unbiased: bool
    bits_per_value: float
    error: float


def rows(settings: Settings, tick: Tick) -> list[Row]:
    """Every operator on both vectors."""
    found = []
    cases = [(name, spec) for name in VECTORS for spec in SPECS]
    made = {name: make(D, settings.seed) for name, make in VECTORS.items()}
    for part, (name, spec) in enumerate(cases, 1):
        operator = fewbits.operator(spec)
        unbiased = operator.guarantee(D).unbiased
        measured = vectors.measure(spec, made[name], settings.seed)
        ours = gain(measured, unbiased=unbiased)
        known = SPECS[spec] if name == "Gaussian" else None
        found.append(
            Row(
                vector=name,
                operator=operator.spec,
                unbiased=unbiased,
                bits_per_value=measured.bits,
                error=measured.error,
                printed=known.text if known else None,
                ours=ours,
                reproduces=agrees(ours, known.text, within=WITHIN) if known else None,
                reason=known.reason if known else "",
            )
        )
        tick(part / len(cases))
    return found


def gain(measured: vectors.Measured, *, unbiased: bool) -> float:
    """Times less in all than 32 bits a value."""
    kept = 1 / (1 + measured.error) if unbiased else max(0.0, 1 - measured.error)
    return 32 * kept / measured.bits


def draw(table: Sequence[Row]) -> "Figure":
    """Gains as bars, best first on Gaussian vectors, both vectors side by side."""
    mine = {name: {row.operator: row for row in table if row.vector == name} for name in VECTORS}
    order = sorted(mine["Gaussian"], key=lambda spec: -mine["Gaussian"][spec].ours)
    drawn, plots = figures.panels(
        "Less communication in all than 32 bits a value, by measured frames", 2, width=12,
        height=7.6,
    )  # fmt: skip
    for plot, (name, found) in zip(plots, mine.items(), strict=True):
        for at, spec in enumerate(order):
            row = found[spec]
            colour = figures.BLUE if row.unbiased else figures.ORANGE
            plot.barh(at, row.ours, color=colour, alpha=0.75, height=0.65)
            end = max(row.ours, float(row.printed or 0))
            plot.annotate(f"{row.ours:.1f}", (end, at), (6, 0), textcoords="offset points",
                          va="center", fontsize=9)  # fmt: skip
            if row.printed:
                plot.plot(float(row.printed), at, "|", color="black", ms=15, mew=2)
        figures.names(plot, order)
        plot.set_title("Gaussian vector" if name == "Gaussian" else "scale varies between blocks")
        plot.set_xlabel("times less")
        plot.set_xlim(0, 1.12 * max(row.ours for row in found.values()))
    plots[1].set_yticklabels([])
    for colour, text in ((figures.BLUE, "unbiased: 32 / ((1 + error) bits)"),
                         (figures.ORANGE, "biased: 32 (1 − error) / bits")):  # fmt: skip
        plots[0].plot([], [], "s", color=colour, label=text)
    plots[0].plot([], [], "|", color="black", ms=12, mew=2, label="known from other code")
    drawn.legend(*plots[0].get_legend_handles_labels(), loc="outside lower left", ncols=3)
    return drawn


EXPERIMENT = Experiment(
    name="comparison",
    title="Compressors compared",
    about="Frames of 15,360 float32 values, headers included. The gain counts additional "
    "iterations by the measured error, which flatters operators whose worst case is far from "
    "typical: sign is best on a flat vector and poor on others. Known values within 5 % count as "
    "reproduced.",
    row=Row,
    compute=rows,
    draw=draw,
)
