"""Shows `feedback`: tables, figures, findings and claims."""

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from fewbits.collectives import header
from fewbits.presets import PRESETS
from fewbits_lab import figures
from fewbits_lab.record import Item, RecordDocument, Recorded, standard_error
from fewbits_lab.tables import ShownTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


ORDER = (
    "plain", "natural-dithering", "sparse-dithering", "top-k", "sparse-dithering-10", "top-k-sign",
)  # fmt: skip
TINY = PRESETS["tiny"]
FEEDBACK_PLAIN = "plain"
LARGEST_DIFFERENCE = 0.5  # points, for accuracies that count as equal
STANDARD_ERRORS = 2
HEADERS = 3  # of a rank to each other rank: two hops and the end of the step


@dataclass(frozen=True, slots=True)
class FeedbackSummary:
    """A configuration at its best learning rate; the difference to plain at plain's, in points."""

    lr: float
    accuracy: float
    difference: float
    standard_error: float
    busiest: float  # bytes of a step
    mean: float
    smaller: float
    bits: float | None  # of a value that is compressed, each time that it is sent

    @property
    def equal(self) -> bool:
        """Whether the accuracy counts as that of plain training."""
        size = abs(self.difference)
        return size <= LARGEST_DIFFERENCE and size <= STANDARD_ERRORS * self.standard_error


def best(runs: list[Item]) -> list[Item]:
    """The runs at the learning rate with the best mean accuracy, in the order of seeds."""
    rates = sorted({run["lr"] for run in runs})
    of_rate = {rate: [run for run in runs if run["lr"] == rate] for rate in rates}
    chosen = max(rates, key=lambda rate: fmean(run["accuracy"] for run in of_rate[rate]))
    return sorted(of_rate[chosen], key=lambda run: int(run["seed"]))


def summary(runs: list[Item], plain: list[Item], ranks: int) -> FeedbackSummary:
    """One configuration's runs against those of plain training."""
    own, reference = best(runs), best(plain)
    differences = [
        100 * (a["accuracy"] - b["accuracy"]) for a, b in zip(own, reference, strict=True)
    ]
    busiest = fmean(run["bytes_per_step"] for run in own)
    mean = fmean(run["mean_bytes_per_step"] for run in own)
    exact = own[0].get("exact_elements")
    bits = None
    if exact is not None:
        ways = 2 * (ranks - 1) / ranks  # how often a rank sends a value, there and back
        rest = mean - 4 * ways * exact - HEADERS * (ranks - 1) * header.SIZE
        bits = 8 * rest / ways / (own[0]["elements"] - exact)
    return FeedbackSummary(
        own[0]["lr"], 100 * fmean(run["accuracy"] for run in own), fmean(differences),
        standard_error(differences), busiest, mean, own[0]["fp32_bytes_per_step"] / mean, bits,
    )  # fmt: skip


def summaries(document: RecordDocument, data: str) -> dict[str, FeedbackSummary]:
    """All configurations on one data set."""
    runs = [run for run in document["runs"] if run["data"] == data]
    named = {name: [run for run in runs if run["name"] == name] for name in ORDER}
    return {
        name: summary(own, named[FEEDBACK_PLAIN], document["ranks"])
        for name, own in named.items()
        if own
    }


def label(run: Item) -> str:
    """A configuration as a cell."""
    if run["operator"] == "none":
        return "plain"
    own = f"`{run['operator']}` " + (f"with `{run['feedback']}`" if run["feedback"] else "without")
    tiny = (run["operator"], run["feedback"]) == (TINY.operator, TINY.feedback)
    return f"`tiny`: {own}" if tiny else own


def accuracy(document: RecordDocument, data: str) -> ShownTable:
    """Accuracies and bytes."""
    labels = {run["name"]: label(run) for run in document["runs"]}
    rows, lost = [], set()
    for number, (name, own) in enumerate(summaries(document, data).items()):
        plain = name == FEEDBACK_PLAIN
        difference = "" if plain else f"{own.difference:+.2f} ± {own.standard_error:.2f}"
        equal = "" if plain else "yes" if own.equal else "**no**"
        bits = "32" if own.bits is None else f"{own.bits:.2f}"
        rows.append([
            labels[name], f"{own.lr:g}", f"{own.accuracy:.2f} %", difference, equal,
            f"{own.mean:,.0f}", f"{own.busiest:,.0f}", f"{own.smaller:.1f}", bits,
        ])  # fmt: skip
        if not plain and not own.equal:
            lost.add(number)
    titles = ["operator", "rate", "accuracy", "difference", "equal", "bytes", "busiest", "smaller",
              "bits"]  # fmt: skip
    return ShownTable(titles, rows, title=data, lost=frozenset(lost))


def search(document: RecordDocument) -> ShownTable:
    """The configurations tried with few seeds, cheapest first, each at its best rate."""
    found = []
    for name in {run["name"] for run in document["runs"]} - {FEEDBACK_PLAIN}:
        runs = [run for run in document["runs"] if run["name"] == name]
        own, chosen = summary(runs, runs, document["ranks"]), best(runs)
        found.append((own.bits or 0.0, name, own, chosen))
    rows = []
    for bits, _, own, chosen in sorted(found, key=lambda row: row[:2]):
        operator, loss = chosen[0]["operator"], fmean(run["loss"] for run in chosen)
        rows.append([
            f"`{operator}`", f"`{chosen[0]['feedback']}`", str(len(chosen)),
            f"{own.accuracy:.2f} %", f"{loss:.2g}", f"{bits:.3f}",
        ])  # fmt: skip
    titles = ["operator", "feedback", "seeds", "accuracy", "training loss", "bits"]
    return ShownTable(titles, rows)


def draw(document: RecordDocument) -> "Figure":
    """Difference to plain against bits, with two standard errors."""
    data = list(document["tasks"])
    drawn, plots = figures.panels(
        "Accuracy less that of plain training, against bits a value", len(data), width=10.5,
        height=4.3,
    )  # fmt: skip
    for plot, name in zip(plots, data, strict=True):
        found = {
            own: one for own, one in summaries(document, name).items() if own != FEEDBACK_PLAIN
        }
        for (own, one), colour, marker in zip(
            found.items(), figures.COLOURS, figures.MARKERS, strict=False
        ):
            plot.errorbar(one.bits or 32, one.difference, 2 * one.standard_error, fmt=marker,
                          capsize=4, color=colour, label=own)  # fmt: skip
        plot.axhspan(-LARGEST_DIFFERENCE, LARGEST_DIFFERENCE, color=figures.GREY, alpha=0.15, lw=0)
        plot.axhline(0, color="black", lw=1)
        figures.log_x(plot)
        plot.set(title=name, xlabel="bits of a value, each time that it is sent")
    plots[0].set_ylabel("points; bars: two standard errors")
    drawn.legend(*plots[0].get_legend_handles_labels(), loc="outside lower left", ncols=5,
                 fontsize=9)  # fmt: skip
    return drawn


def draw_search(document: RecordDocument) -> "Figure":
    """Accuracies of all that was tried against bits."""
    drawn, (plot,) = figures.panels("What was tried with few seeds: accuracy against bits", width=8)
    for number, name in enumerate(dict.fromkeys(run["data"] for run in document["runs"])):
        runs = [run for run in document["runs"] if run["data"] == name]
        points = []
        for own in dict.fromkeys(run["name"] for run in runs if run["name"] != FEEDBACK_PLAIN):
            mine = [run for run in runs if run["name"] == own]
            one = summary(mine, mine, document["ranks"])
            points.append((one.bits or 32.0, one.accuracy))
        plot.plot(*zip(*points, strict=True), figures.MARKERS[number], mfc="none", mew=1.5,
                  color=figures.COLOURS[number], label=name)  # fmt: skip
    figures.log_x(plot)
    plot.set(xlabel="bits of a value, each time that it is sent",
             ylabel="test accuracy, %")  # fmt: skip
    plot.legend()
    return drawn


_SCRIPT = "python -m fewbits_lab.studies.feedback.run --data digits --data MNIST-DIR"
FEEDBACK = Recorded(
    name="feedback",
    result="feedback",
    title="Error feedback: a sixth of a bit a value",
    about="Four ranks, five seeds, every configuration with every learning rate of one grid, at "
    "its best; bytes are counted. Equal: within half a point and two standard errors of plain.",
    command=_SCRIPT,
    tables=lambda document: [accuracy(document, data) for data in document["tasks"]],
    draw=draw,
)
FEEDBACK_CNN = Recorded(
    name="feedback-cnn",
    result="feedback-cnn",
    title="The same with a convolutional network",
    about="Digits, few seeds: where some of what is equal above falls behind.",
    command=_SCRIPT,
    tables=lambda document: [search(document)],
    draw=draw_search,
)
FEEDBACK_SEARCH = Recorded(
    name="feedback-search",
    result="feedback-search",
    title="What was tried before",
    about="One or few seeds each; the presets were chosen from here, the evidence is above.",
    command=f"{_SCRIPT} --try SPEC FEEDBACK",
    tables=lambda document: [search(document)],
    draw=draw_search,
)
