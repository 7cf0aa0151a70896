"""Shows `accuracy`: tables, figures, findings and claims."""

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.experiment import Claim
from fewbits_lab.record import Headline, RecordDocument, Recorded
from fewbits_lab.tables import ShownTable
from fewbits_lab.training import paired
from fewbits_lab.training.paired import Difference
from fewbits_lab.training.rows import RAN, TrainingRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def accuracies(document: RecordDocument) -> ShownTable:
    """Paired differences, in points."""
    rows, lost = [], set()
    for number, (data, own) in enumerate(document.items()):
        mean, error = own["mean_difference_points"], own["standard_error_points"]
        rows.append([
            data, str(own["epochs"]), str(len(own["plain"])), f"{100 * fmean(own['plain']):.2f} %",
            f"{100 * fmean(own['compressed']):.2f} %", f"{mean:+.2f} ± {error:.2f}",
        ])  # fmt: skip
        if mean < -2 * error:
            lost.add(number)
    titles = ["data", "epochs", "seeds", "plain DDP", "`natural` both ways", "difference, points"]
    return ShownTable(
        titles, rows, lost=frozenset(lost), note="± is one standard error of the mean."
    )


def draw_accuracies(document: RecordDocument) -> "Figure":
    """Differences of single seeds, their mean and two standard errors."""
    drawn, (plot,) = figures.panels(
        "Accuracy with natural both ways, less that of plain DDP", width=8, height=3.1
    )
    for at, own in enumerate(document.values()):
        pairs = zip(own["plain"], own["compressed"], strict=True)
        gaps = [100 * (compressed - plain) for plain, compressed in pairs]
        mean, error = own["mean_difference_points"], own["standard_error_points"]
        plot.plot(gaps, [at] * len(gaps), "o", color=figures.GREY, ms=5, mfc="none")
        plot.errorbar(mean, at, xerr=2 * error, fmt="s", color=figures.BLUE, capsize=4, ms=7)
    plot.axvline(0, color="black", lw=1)
    plot.set_xlabel("points; square and bar: mean and two standard errors, rings: single seeds")
    figures.names(plot, list(document))
    return drawn


def paired_points(compressed: Sequence[float], plain: Sequence[float]) -> Difference:
    """Compressed less plain, in points of accuracy, from the runs of each seed."""
    both = {"compressed": compressed, "plain": plain}
    rows = [
        TrainingRow("", "", name, RAN, seed=seed, accuracy=accuracy)
        for name, values in both.items()
        for seed, accuracy in enumerate(values)
    ]
    found = paired.points(rows, *both)
    if found is None or len(compressed) != len(plain):
        raise ValueError(f"{len(compressed)} and {len(plain)} runs give no interval")
    return found


def accuracy_claims(document: RecordDocument) -> list[Claim]:
    """No loss of accuracy."""
    own = document["mnist"]
    found = paired_points(own["compressed"], own["plain"])
    agrees = paired.same(found)
    margin = f"a loss of more than {paired.MARGIN:g} point"
    reasons = {
        True: "", False: "the interval is below 0", None: f"the seeds do not exclude {margin}",
    }  # fmt: skip
    excluded = f"; {margin} is excluded" if agrees else ""
    return [
        Claim(
            "natural", "Section 6, abstract", "natural compression costs no accuracy",
            "same accuracy (CIFAR-10, ImageNet, MNIST)",
            f"{found.text('points')}, 95 %, on MNIST, both ways{excluded}", agrees, reasons[agrees],
        )
    ]  # fmt: skip


def accuracy_headline(document: RecordDocument) -> Headline:
    """Bytes and the difference on MNIST."""
    own = document["mnist"]
    found = paired_points(own["compressed"], own["plain"])
    return Headline(
        f"{own['times_fewer_bytes']:.1f}×",
        "fewer bytes in training on MNIST with `natural` both ways; accuracy against plain DDP "
        f"{found.text('points')}, 95 %",
    )


_SCRIPT = "python -m fewbits_lab.studies.accuracy.run"
_BOTH = f"{_SCRIPT} --data digits --data MNIST-DIR"
ACCURACY = Recorded(
    name="accuracy",
    result="accuracy",
    title="Accuracy with natural compression both ways",
    about="The same model from the same start on four ranks, plain and compressed, paired by seed; "
    "settings were fixed beforehand. `switch`: aggregators that can only add integers.",
    command=f"{_BOTH} && {_BOTH} --sizes && "
    f"{_SCRIPT} --data MNIST-DIR --collective switch --seeds 3",
    tables=lambda document: [accuracies(document)],
    draw=draw_accuracies,
    claims=accuracy_claims,
    headline=accuracy_headline,
)
