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


def outcome(runs: list[Item]) -> TwoBitOutcome:
    """What compressed runs did beside plain ones of the same seed."""
    plain = {run["seed"]: run for run in runs if run["operator"] == TWO_BIT_PLAIN}
    own = [run for run in runs if run["operator"] == PRESET and run["seed"] in plain]
    losses = [[run["loss"] for run in own], [plain[run["seed"]]["loss"] for run in own]]
    return TwoBitOutcome(
        [one - other for one, other in zip(*losses, strict=True)],
        math.hypot(*map(standard_error, losses)),
        fmean(run["plain_bytes"] / run["sent_bytes"] for run in own),
        fmean(run["plain_bytes_of_compressed_units"] / run["compressed_unit_bytes"] for run in own),
        fmean(run["compressed_elements"] / run["elements"] for run in own),
    )


def losses(document: RecordDocument) -> ShownTable:
    """The loss of every seed, and bytes."""
    plain = {run["seed"]: run for run in document["runs"] if run["operator"] == TWO_BIT_PLAIN}
    rows = [
        [str(run["seed"]), f"{plain[run['seed']]['loss']:.4f}", f"{run['loss']:.4f}",
         f"{run['loss'] - plain[run['seed']]['loss']:+.4f}",
         f"{run['plain_bytes'] / run['sent_bytes']:.2f} ×",
         f"{run['plain_bytes_of_compressed_units'] / run['compressed_unit_bytes']:.2f} ×"]
        for run in document["runs"]
        if run["operator"] == PRESET and run["seed"] in plain
    ]  # fmt: skip
    titles = ["seed", "loss, plain", f"loss, {PRESET}", "difference", "bytes of a step, fewer",
              "of compressed units, fewer"]  # fmt: skip
    lost = frozenset() if outcome(document["runs"]).within else frozenset(range(len(rows)))
    return ShownTable(titles, rows, lost=lost)


def findings(document: RecordDocument) -> list[str]:
    """The mean difference and the bytes."""
    found = outcome(document["runs"])
    verdict = "within" if found.within else "beyond"
    count = len(found.gaps)
    seeds = f"{count} seeds" if count == PLANNED_SEEDS else f"{count} of {PLANNED_SEEDS} seeds"
    loss = (
        f"{100 * found.share:.1f} % of the values are compressed. The loss on the test set differs "
        f"by {with_error(found.gaps, 4, '+')} (standard error, {seeds}), {verdict} two standard "
        f"errors. This compares runs of the same seed; between runs of different seeds the "
        f"standard error would be {found.spread:.4f}."
    )
    sent = (
        f"A step sends {found.whole:.1f} times fewer bytes, headers and exact values included; "
        f"compressed units alone {found.units:.1f} times fewer."
    )
    return [loss, sent]


def draw(document: RecordDocument) -> "Figure":
    """Differences of losses by seed."""
    gaps = outcome(document["runs"]).gaps
    drawn, (plot,) = figures.panels(
        f"A GPT: loss with {PRESET} both ways, less that of plain training", width=8, height=2.2
    )
    plot.plot(gaps, [0] * len(gaps), "o", color=figures.BLUE, mfc="none")
    error = 2 * standard_error(gaps) if len(gaps) > 1 else 0.0
    plot.errorbar(fmean(gaps), 0, xerr=error, fmt="s", color=figures.BLUE, ms=7, capsize=4)
    plot.axvline(0, color="black", lw=1)
    plot.set_xlabel("difference of the loss; square: mean and two standard errors, rings: seeds")
    figures.names(plot, [PRESET])
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
