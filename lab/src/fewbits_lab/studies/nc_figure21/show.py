"""Shows `nc-figure21`: figure, findings and claims."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.experiment import Claim, Experiment
from fewbits_lab.studies.nc_figure21.run import NcFigure21Row, rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


SEEN = (-49, 4)  # of both models, read off the figure
BULK = (-25, -6)
CLIP = (-50, 10)  # what the paper's aggregator keeps of them
_MOST, _NEARLY_ALL = 0.95, 0.9999


def share_within(table: Sequence[NcFigure21Row], low: int, high: int) -> float:
    """The share of nonzero values whose exponent is from `low` to `high`."""
    some = [row for row in table if row.exponent is not None]
    inside = sum(row.values for row in some if low <= (row.exponent or 0) <= high)
    return inside / sum(row.values for row in some)


def _span(table: Sequence[NcFigure21Row]) -> tuple[int, int]:
    seen = [row.exponent for row in table if row.exponent is not None]
    return min(seen), max(seen)


def _by_step(table: Sequence[NcFigure21Row]) -> dict[tuple[str, int], list[NcFigure21Row]]:
    keys = dict.fromkeys((row.model, row.step) for row in table)
    return {key: [row for row in table if (row.model, row.step) == key] for key in keys}


def findings(table: Sequence[NcFigure21Row]) -> list[str]:
    """Range, bulk and zeros, model by model."""
    found = []
    for model in dict.fromkeys(row.model for row in table):
        mine = [row for row in table if row.model == model]
        low, high = _span(mine)
        zeros = [own[0].share if own[0].exponent is None else 0.0
                 for own in _by_step(mine).values()]  # fmt: skip
        found.append(
            f"{model} on {mine[0].data}: exponents from {low} to {high}, "
            f"{share_within(mine, *BULK):.2%} of them from {BULK[0]} to {BULK[1]}; "
            f"{min(zeros):.1%} to {max(zeros):.1%} of a step's values are 0."
        )
    return found


def claims(table: Sequence[NcFigure21Row]) -> list[Claim]:
    """The figure's range and bulk, and the clip that follows from them."""
    low, high = _span(table)
    steps = _by_step(table).values()
    bulk = [share_within(own, *BULK) for own in steps]
    clipped = [share_within(own, *CLIP) for own in steps]
    models = ", ".join(dict.fromkeys(f"{row.model} on {row.data}" for row in table))
    return [
        Claim(
            paper="natural",
            where="Figure 21",
            claim="most exponents of gradients lie in a narrow range (ResNet110 and AlexNet on "
            "CIFAR-10)",
            claimed=f"all from {SEEN[0]} to {SEEN[1]}, the bulk from {BULK[0]} to {BULK[1]}",
            ours=f"all from {low} to {high}; {min(bulk):.1%} to {max(bulk):.1%} of a step's values "
            f"that are not 0 from {BULK[0]} to {BULK[1]} ({models})",
            agrees=min(bulk) >= _MOST,
            why="" if min(bulk) >= _MOST else "other models, and steps of early training",
        ),
        Claim(
            paper="natural",
            where="in-network aggregation",
            claim="for sums of integers it is enough to keep a range of exponents",
            claimed=f"{CLIP[0]} to {CLIP[1]}",
            ours="all values that are not 0 are in it, at every step"
            if min(clipped) == 1
            else f"at every step {min(clipped):.4%} or more of the values that are not 0 are in it",
            agrees=min(clipped) >= _NEARLY_ALL,
            why="" if min(clipped) >= _NEARLY_ALL else "our models have smaller gradients",
        ),
    ]


def draw(table: Sequence[NcFigure21Row]) -> "Figure":
    """One histogram for each model, a line for each step."""
    models = list(dict.fromkeys(row.model for row in table))
    drawn, plots = figures.panels(
        "Exponents of recorded gradients (grey: the bulk in the paper's figure)",
        len(models),
        width=11.5,
        height=4,
    )
    low, high = _span(table)
    for plot, model in zip(plots, models, strict=True):
        mine = {key: own for key, own in _by_step(table).items() if key[0] == model}
        for colour, style, ((_, step), own) in zip(
            figures.COLOURS, ("-", "--", ":"), mine.items(), strict=False
        ):
            some = [row for row in own if row.exponent is not None]
            total = sum(row.values for row in some)
            plot.plot([row.exponent or 0 for row in some], [row.values / total for row in some],
                      style, color=colour, label=f"step {step}", drawstyle="steps-mid")  # fmt: skip
        plot.axvspan(*BULK, color=figures.GREY, alpha=0.15, lw=0)
        plot.set_title(f"{model} on {next(iter(mine.values()))[0].data}", fontsize=10)
        plot.set_xlim(min(low, SEEN[0]) - 1, max(high, SEEN[1]) + 1)
        plot.set_ylim(0)
        plot.set_xlabel("exponent: ⌊log₂ |x|⌋")
        plot.legend(fontsize=8, loc="upper left")
    plots[0].set_ylabel("share of values that are not 0")
    return drawn


NC_FIGURE21 = Experiment(
    name="nc-figure21",
    title="Natural compression, Figure 21: exponents of gradients",
    about="Gradients of three small models at steps of their training, in place of the paper's "
    "ResNet110 and AlexNet. Exponents are those of the values before compression. Blocks of the "
    "residual network start as shortcuts, so most of its first gradient is exactly 0.",
    row=NcFigure21Row,
    compute=rows,
    draw=draw,
    findings=findings,
    claims=claims,
)
