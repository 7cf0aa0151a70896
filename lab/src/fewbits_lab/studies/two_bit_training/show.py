"""Shows `two-bit-training`: table, figure and findings."""

import math
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from fewbits_lab import figures
from fewbits_lab.record import Item, RecordDocument, Recorded, standard_error, with_error
from fewbits_lab.studies.two_bit_training.run import PLANNED_SEEDS, PRESET, TWO_BIT_PLAIN
from fewbits_lab.tables import ShownTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class TwoBitOutcome(NamedTuple):
    """Differences of the loss by seed, and how many times fewer bytes were sent.

    `spread` is the standard error of the difference as if runs were not paired: what another start
    and other batches change.
    """

    gaps: list[float]
    spread: float
    whole: float
    units: float
    share: float  # of the values that are compressed

    @property
    def within(self) -> bool:
        """Whether the mean difference is within two standard errors of 0."""
        return abs(fmean(self.gaps)) <= 2 * standard_error(self.gaps)


class SeedPair(NamedTuple):
    """Two runs of the same seed and length."""

    plain: Item
    own: Item

    @property
    def gap(self) -> float:
        return float(self.own["loss"] - self.plain["loss"])


def pairs(runs: list[Item]) -> list[SeedPair]:
    """Compressed runs, each with the plain one, the shortest first."""
    plain = {(run["steps"], run["seed"]): run for run in runs if run["operator"] == TWO_BIT_PLAIN}
    return [
        SeedPair(plain[run["steps"], run["seed"]], run)
        for run in sorted(runs, key=lambda run: (run["steps"], run["seed"]))
        if run["operator"] == PRESET and (run["steps"], run["seed"]) in plain
    ]


def outcomes(runs: list[Item]) -> dict[int, TwoBitOutcome]:
    """By steps, what compressed runs did beside plain ones of the same seed."""
    found: dict[int, list[SeedPair]] = {}
    for pair in pairs(runs):
        found.setdefault(pair.own["steps"], []).append(pair)
    return {steps: _outcome(own) for steps, own in found.items()}


def _outcome(found: list[SeedPair]) -> TwoBitOutcome:
    own = [pair.own for pair in found]
    losses = [[run["loss"] for run in own], [pair.plain["loss"] for pair in found]]
    return TwoBitOutcome(
        [pair.gap for pair in found],
        math.hypot(*map(standard_error, losses)),
        fmean(run["plain_bytes"] / run["sent_bytes"] for run in own),
        fmean(run["plain_bytes_of_compressed_units"] / run["compressed_unit_bytes"] for run in own),
        fmean(run["compressed_elements"] / run["elements"] for run in own),
    )


def losses(document: RecordDocument) -> ShownTable:
    """The loss of every seed, and bytes."""
    found = pairs(document["runs"])
    rows = [
        [str(own["steps"]), str(own["seed"]), f"{plain['loss']:.4f}", f"{own['loss']:.4f}",
         f"{own['loss'] - plain['loss']:+.4f}",
         f"{own['plain_bytes'] / own['sent_bytes']:.2f} ×",
         f"{own['plain_bytes_of_compressed_units'] / own['compressed_unit_bytes']:.2f} ×"]
        for plain, own in found
    ]  # fmt: skip
    titles = ["steps", "seed", "loss, plain", f"loss, {PRESET}", "difference",
              "bytes of a step, fewer", "of compressed units, fewer"]  # fmt: skip
    within = {steps: own.within for steps, own in outcomes(document["runs"]).items()}
    lost = [place for place, pair in enumerate(found) if not within[pair.own["steps"]]]
    return ShownTable(titles, rows, lost=frozenset(lost))


def findings(document: RecordDocument) -> list[str]:
    """The mean differences and the bytes."""
    found = outcomes(document["runs"])
    said = [_loss(steps, own) for steps, own in found.items()]
    longest = found[max(found)]
    said.append(
        f"{100 * longest.share:.1f} % of the values are compressed. A step sends "
        f"{longest.whole:.1f} times fewer bytes, headers and exact values included; compressed "
        f"units alone {longest.units:.1f} times fewer."
    )
    return said


def _loss(steps: int, found: TwoBitOutcome) -> str:
    verdict = "within" if found.within else "beyond"
    count = len(found.gaps)
    seeds = f"{count} seeds" if count == PLANNED_SEEDS else f"{count} of {PLANNED_SEEDS} seeds"
    return (
        f"After {steps} steps the loss on the test set differs by "
        f"{with_error(found.gaps, 4, '+')} (standard error, {seeds}), {verdict} two standard "
        f"errors. This compares runs of the same seed; between runs of different seeds the "
        f"standard error would be {found.spread:.4f}."
    )


def draw(document: RecordDocument) -> "Figure":
    """Differences of losses by seed, a line for each number of steps."""
    found = outcomes(document["runs"])
    drawn, (plot,) = figures.panels(
        f"A GPT: loss with {PRESET} both ways, less that of plain training", width=8, height=2.6
    )
    for place, own in enumerate(found.values()):
        plot.plot(own.gaps, [place] * len(own.gaps), "o", color=figures.BLUE, mfc="none")
        error = 2 * standard_error(own.gaps) if len(own.gaps) > 1 else 0.0
        plot.errorbar(
            fmean(own.gaps), place, xerr=error, fmt="s", color=figures.BLUE, ms=7, capsize=4
        )
    plot.axvline(0, color="black", lw=1)
    plot.set_xlabel("difference of the loss; square: mean and two standard errors, rings: seeds")
    figures.names(plot, [f"{steps} steps" for steps in found])
    return drawn


TWO_BIT_TRAINING = Recorded(
    name="two-bit-training",
    result="two-bit-training",
    title="A GPT with two bits both ways",
    about="Four ranks, the preset two-bit for gradients and for their mean, beside plain training "
    "from the same start and on the same batches.",
    command="python -m fewbits_lab.studies.two_bit_training.run --data TEXT-DIR",
    tables=lambda document: [losses(document)],
    draw=draw,
    findings=findings,
)
