"""Shows `time-saved`: figure, findings and claims."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.experiment import Claim, Experiment
from fewbits_lab.prose import span
from fewbits_lab.studies.time_saved.run import (
    HEADLINE_SAVINGS,
    PACKED_LEAVES,
    SAVED_CODED,
    SAVED_PACKED,
    SWITCH_LEAVES,
    TimeSavedRow,
    rows,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NEAR = 10.0  # points: a saving this close to the formula's is called near


def needed(claimed: float, leaves: float) -> float:
    """The share of communication, in per cent, from which the saving follows."""
    return claimed / (1 - leaves)


def shown_from(table: Sequence[TimeSavedRow], claimed: float) -> float | None:
    """The share from which on every measured point of `natural` saves as much; None if none."""
    mine = sorted((row for row in table if row.operator == SAVED_PACKED),
                  key=lambda row: -row.communication)  # fmt: skip
    found = None
    for row in mine:
        if row.saved < claimed:
            break
        found = row.communication
    return found


def findings(table: Sequence[TimeSavedRow]) -> list[str]:
    """What the formula needs, where it holds, and where it does not."""
    mine = [row for row in table if row.operator == SAVED_PACKED]
    near = [row for row in mine if abs(row.saved - row.formula) <= _NEAR]
    lost = [row for row in mine if row.saved < 0]
    needs = "; ".join(
        f"{claimed:.0f} % ({model}) from {needed(claimed, PACKED_LEAVES):.0f} % on, with "
        f"aggregation in the network from {needed(claimed, SWITCH_LEAVES):.0f} % on"
        for model, claimed in HEADLINE_SAVINGS.items()
    )
    formula = (
        "By the formula, time saved is the share of communication times 1 − 9/32. The paper's "
        f"savings follow where communication takes this share of the plain step: {needs}."
    )
    measured = (
        f"Measured, `natural`: {len(near)} of {len(mine)} points are within {_NEAR:.0f} points of "
        f"the formula, where communication takes {_range(near)} % of the plain step."
    )
    slower = (
        f"On 10 Gbit/s and loopback, where communication takes {_range(lost)} %, a step is "
        f"{span((-row.saved for row in lost), 0)} % longer at all {len(lost)} measured points: the "
        "bytes cost this processor's time and not waiting, and coding takes the same cores."
        if lost
        else ""
    )
    return [text for text in (formula, measured, slower) if text]


def claims(table: Sequence[TimeSavedRow]) -> list[Claim]:
    """The two headlines, with the share of communication at which they hold."""
    return [_claim(table, model, claimed) for model, claimed in HEADLINE_SAVINGS.items()]


def _claim(table: Sequence[TimeSavedRow], model: str, claimed: float) -> Claim:
    least = shown_from(table, claimed)
    own = next(row for row in table if (row.model, row.operator) == (model, SAVED_PACKED))
    lost = [row for row in table if row.operator == SAVED_PACKED and row.saved < 0]
    ours = (
        f"measured {own.saved:.1f} % where communication takes {own.communication:.0f} % of the "
        f"plain step (the formula gives {own.formula:.1f} %)"
    )
    about = ("natural", f"experiments, {model}", "training time saved", f"{claimed:.0f} %", ours)
    wanted = f"by the formula from {needed(claimed, PACKED_LEAVES):.0f} % on"
    if least is None:
        return Claim(*about, None, f"no measured link has so much communication; {wanted}")
    why = f"where communication takes {least:.0f} % and more of the plain step, measured; {wanted}"
    if lost:
        why += f"; at {_range(lost)} %, on links as fast as this processor, it loses"
    return Claim(*about, True, why)


def _range(some: Sequence[TimeSavedRow]) -> str:
    return span((row.communication for row in some), 0) if some else "none"


def draw(table: Sequence[TimeSavedRow]) -> "Figure":
    """Time saved against the share of communication: curves, points, the paper's two."""
    drawn, (plot,) = figures.panels(
        "Time saved follows from the share of communication", width=9.5, height=5.6
    )
    ends = (0.0, 100.0)
    plot.plot(ends, [(1 - PACKED_LEAVES) * end for end in ends], color=figures.BLUE,
              label="formula: 9 of 32 bits are left")  # fmt: skip
    plot.plot(ends, [(1 - SWITCH_LEAVES) * end for end in ends], "--", color=figures.GREEN,
              label="formula: 8 bits to a switch, for a ring's 56")  # fmt: skip
    for operator, colour, marker in (
        (SAVED_PACKED, figures.BLUE, "o"), (SAVED_CODED, figures.BROWN, "s"),
    ):  # fmt: skip
        mine = [row for row in table if row.operator == operator]
        plot.plot([row.communication for row in mine], [row.saved for row in mine], marker,
                  color=colour, ms=7, label=f"measured: {operator}")  # fmt: skip
    _paper(plot)
    plot.axhline(0, color="black", lw=1)
    plot.set_xlim(0, 102)
    plot.set_xlabel("communication, per cent of the plain step")
    plot.set_ylabel("time saved, per cent of the plain step")
    drawn.legend(*plot.get_legend_handles_labels(), loc="outside lower left", ncols=3, fontsize=9)
    return drawn


def _paper(plot: "Axes") -> None:
    """The paper's two savings, where the formulas put them."""
    for number, (model, claimed) in enumerate(HEADLINE_SAVINGS.items()):
        low, high = needed(claimed, SWITCH_LEAVES), needed(claimed, PACKED_LEAVES)
        plot.plot([low, high], [claimed, claimed], color=figures.ORANGE, lw=1.2)
        plot.plot([low, high], [claimed, claimed], "X", color=figures.ORANGE, ms=10,
                  label=None if number else "the paper's, shares by the formulas")  # fmt: skip
        plot.annotate(
            f"{model}: {claimed:.0f} % from\n{high:.0f} % on (switch: {low:.0f} %)", (low, claimed),
            (-8, 4), textcoords="offset points", ha="right", fontsize=9, color=figures.ORANGE,
        )  # fmt: skip


TIME_SAVED = Experiment(
    name="time-saved",
    title="Time saved against the share of communication",
    about="Steps of DDP on shaped links: those of `links` (10 M parameters, 2 and 4 ranks, four "
    "links) and of `nc-step-time` (ResNet-110, AlexNet). Communication is what of a plain step is "
    "not computing. The paper does not say what share it had; its two savings stand where the "
    "formulas put them. Nothing is measured anew: the points are in the two results.",
    row=TimeSavedRow,
    compute=rows,
    draw=draw,
    findings=findings,
    claims=claims,
)
