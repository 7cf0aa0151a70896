"""Accuracy at less than a bit a value, with feedback; and the bias that rounding leaves."""

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from fewbits.lab import figures
from fewbits.lab.recorded.record import Document, Recorded, standard_error
from fewbits.lab.tables import Table
from fewbits.presets import PRESETS
from fewbits.schemes import header

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORDER = (
    "plain", "natural-dithering", "sparse-dithering", "top-k", "sparse-dithering-10", "top-k-sign",
)  # fmt: skip
TINY = PRESETS["tiny"]
PLAIN = "plain"
LARGEST_DIFFERENCE = 0.5  # points, for accuracies that count as equal
STANDARD_ERRORS = 2
HEADERS = 3  # of a rank to each other rank: two hops and the end of the step
Run = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Summary:
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


def best(runs: list[Run]) -> list[Run]:
    """The runs at the learning rate with the best mean accuracy, in the order of seeds."""
    rates = sorted({run["lr"] for run in runs})
    of_rate = {rate: [run for run in runs if run["lr"] == rate] for rate in rates}
    chosen = max(rates, key=lambda rate: fmean(run["accuracy"] for run in of_rate[rate]))
    return sorted(of_rate[chosen], key=lambda run: int(run["seed"]))


def summary(runs: list[Run], plain: list[Run], ranks: int) -> Summary:
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
    return Summary(
        own[0]["lr"], 100 * fmean(run["accuracy"] for run in own), fmean(differences),
        standard_error(differences), busiest, mean, own[0]["fp32_bytes_per_step"] / mean, bits,
    )  # fmt: skip


def summaries(document: Document, data: str) -> dict[str, Summary]:
    """All configurations on one data set."""
    runs = [run for run in document["runs"] if run["data"] == data]
    named = {name: [run for run in runs if run["name"] == name] for name in ORDER}
    return {
        name: summary(own, named[PLAIN], document["ranks"]) for name, own in named.items() if own
    }


def label(run: Run) -> str:
    """A configuration as a cell."""
    if run["operator"] == "none":
        return "plain"
    own = f"`{run['operator']}` " + (f"with `{run['feedback']}`" if run["feedback"] else "without")
    tiny = (run["operator"], run["feedback"]) == (TINY.operator, TINY.feedback)
    return f"`tiny`: {own}" if tiny else own


def accuracy(document: Document, data: str) -> Table:
    """Accuracies and bytes."""
    labels = {run["name"]: label(run) for run in document["runs"]}
    rows, lost = [], set()
    for number, (name, own) in enumerate(summaries(document, data).items()):
        plain = name == PLAIN
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
    return Table(titles, rows, title=data, lost=frozenset(lost))


def search(document: Document) -> Table:
    """What was tried with few seeds, cheapest first, each at the best of the rates tried."""
    found = []
    for name in {run["name"] for run in document["runs"]} - {PLAIN}:
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
    return Table(titles, rows)


def draws(document: Document) -> Table:
    """What averaging leaves."""
    rows = [
        [
            name, f"{own['natural']:.2e}", f"{own['floor']:.2e}", f"{own['without_noise']:.1e}",
            f"{own['resolution']:.1e}", f"{own['e4m3']:.2e}", f"{own['e4m3'] / own['natural']:.1f}",
        ]
        for name, own in document["draws"]["gradients"].items()
    ]  # fmt: skip
    titles = ["gradient", "mean of `natural`", "noise", "bias", "smallest seen", "E4M3",
              "E4M3 / `natural`"]  # fmt: skip
    return Table(titles, rows, title="What the mean of many draws leaves of the error")


def tail(document: Document) -> Table:
    """What rounding does to the end of training."""
    rows = []
    for row in document["training"]["rows"]:
        low, mean, high = (1e6 * row[key] for key in ("low", "difference", "high"))
        rows.append([
            row["rounding"], "`ef14`" if row["feedback"] else "none",
            f"{mean:+.1f} ({low:+.1f} to {high:+.1f}) · 10⁻⁶",
            f"{row['percent']:+.3f} ± {row['percent_half_width']:.3f}",
        ])  # fmt: skip
    titles = ["rounding", "feedback", "difference of the tail loss, 95 % interval",
              "in % of plain"]  # fmt: skip
    return Table(titles, rows, title="What rounding does to the end of training")


def draw(document: Document) -> "Figure":
    """Difference to plain against bits, with two standard errors."""
    data = list(document["tasks"])
    drawn, plots = figures.panels(
        "Accuracy less that of plain training, against bits a value", len(data), width=10.5,
        height=4.3,
    )  # fmt: skip
    for plot, name in zip(plots, data, strict=True):
        found = {own: one for own, one in summaries(document, name).items() if own != PLAIN}
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


def draw_search(document: Document) -> "Figure":
    """Accuracies of all that was tried against bits."""
    drawn, (plot,) = figures.panels("What was tried with few seeds: accuracy against bits", width=8)
    for number, name in enumerate(dict.fromkeys(run["data"] for run in document["runs"])):
        runs = [run for run in document["runs"] if run["data"] == name]
        points = []
        for own in dict.fromkeys(run["name"] for run in runs if run["name"] != PLAIN):
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


def draw_bias(document: Document) -> "Figure":
    """The tail loss by rounding, with intervals."""
    rows = document["training"]["rows"]
    drawn, (plot,) = figures.panels(
        "Loss at the end of training, less that of plain training", width=8.5,
        height=1.7 + 0.36 * len(rows),
    )  # fmt: skip
    for at, row in enumerate(rows):
        colour = figures.BLUE if row["rounding"] == "natural" else figures.ORANGE
        plot.errorbar(row["percent"], at, xerr=row["percent_half_width"], fmt="o", capsize=4,
                      color=colour)  # fmt: skip
    plot.axvline(0, color="black", lw=1)
    plot.set_xlabel("% of plain training's loss; bars: 95 % intervals")
    names = [f"{row['rounding']}{', ef14' if row['feedback'] else ''}" for row in rows]
    figures.names(plot, names)
    return drawn


_SCRIPT = "python benchmarks/feedback.py --data digits --data MNIST-DIR"
FEEDBACK = Recorded(
    name="feedback",
    file="feedback.json",
    title="Error feedback: a sixth of a bit a value",
    about="Four ranks, five seeds, every configuration with every learning rate of one grid, at "
    "its best; bytes are counted. Equal: within half a point and two standard errors of plain.",
    command=_SCRIPT,
    tables=lambda document: [accuracy(document, data) for data in document["tasks"]],
    draw=draw,
)
FEEDBACK_CNN = Recorded(
    name="feedback-cnn",
    file="feedback-cnn.json",
    title="The same with a convolutional network",
    about="Digits, few seeds: where some of what is equal above falls behind.",
    command=_SCRIPT,
    tables=lambda document: [search(document)],
    draw=draw_search,
)
FEEDBACK_SEARCH = Recorded(
    name="feedback-search",
    file="feedback-search.json",
    title="What was tried before",
    about="One or few seeds each; the presets were chosen from here, the evidence is above.",
    command=f"{_SCRIPT} --try SPEC FEEDBACK",
    tables=lambda document: [search(document)],
    draw=draw_search,
)
BIAS = Recorded(
    name="bias",
    file="bias.json",
    title="Unbiased rounding, and rounding to the nearest",
    about="Means of many draws on recorded gradients, and the last steps of a training run over "
    "many seeds, with natural rounding, nearest rounding and nearest FP8 (E4M3).",
    command="python benchmarks/bias.py GRADIENTS-DIR",
    tables=lambda document: [draws(document), tail(document)],
    draw=draw_bias,
)
