"""Makes the text of README and docs about `feedback`."""

from statistics import fmean

from fewbits_lab.prose import bullets, paragraph, span
from fewbits_lab.record import Item
from fewbits_lab.results import results
from fewbits_lab.studies.accuracy.show import paired_points
from fewbits_lab.studies.accuracy.text import DATA
from fewbits_lab.studies.feedback import show
from fewbits_lab.studies.feedback.show import FEEDBACK_PLAIN, ORDER, best, summaries, summary
from fewbits_lab.tables import markdown
from fewbits_lab.training.paired import Difference


def preset(data: str) -> Difference:
    """`tiny` less plain training, each at its best rate, in points."""
    runs = [run for run in results("feedback")["runs"] if run["data"] == data]
    both = [show.best([r for r in runs if r["name"] == name]) for name in ("top-k", "plain")]
    if len({tuple(run["seed"] for run in own) for own in both}) != 1:
        raise LookupError(f"{data}: other seeds than plain training")
    return paired_points(*([run["accuracy"] for run in own] for own in both))


def differences(of: dict[str, Difference]) -> str:
    """`+0.06 ± 0.45 points on digits and …`, and what that is."""
    said = " and ".join(
        f"{own.mean:+.2f} ± {own.half:.2f} points on {DATA[data]}" for data, own in of.items()
    )
    seeds = span((own.seeds for own in of.values()), 0)
    return f"{said} (95 %, {seeds} paired seeds)"


def tiny() -> str:
    """The preset, against plain training."""
    own = [show.summaries(results("feedback"), data)["top-k"] for data in DATA]
    bits = span((one.bits or 0.0 for one in own), 2)
    return paragraph(
        f"With error feedback, `fewbits.ddp.attach(model, \"tiny\")` sends {bits} bits for each compressed value. The accuracy",
        f"difference to plain training, each at its best rate, is {differences({data: preset(data) for data in DATA})}.",
        "[The evidence](feedback.md) also says how it is saved and resumed bit for bit, and where it falls behind.",
        "`attach(model, \"auto\")` tries operators in the first steps and keeps the fastest.",
    )  # fmt: skip


def label(run: Item) -> str:
    """A configuration as a cell of a table here."""
    return show.label(run).replace("|", "\\|")


def accuracy_table(data: str) -> str:
    """Accuracies and bytes."""
    return markdown(show.accuracy(results("feedback"), data))


def accuracy_verdict() -> str:
    """Which rows are equal to plain training, and what the seeds can tell."""
    found = results("feedback")
    of = {data: summaries(found, data) for data in ("digits", "mnist")}
    labels = {run["name"]: label(run) for run in found["runs"]}
    others = [name for name in ORDER if name != FEEDBACK_PLAIN]
    equal = [name for name in others if all(own[name].equal for own in of.values())]
    unequal = [labels[name].replace("\\|", "|") for name in others if name not in equal]
    error = max(own.standard_error for name, own in of["digits"].items() if name != FEEDBACK_PLAIN)
    below = [name for name in others if all(own[name].difference < 0 for own in of.values())]
    gaps = [-own[name].difference for own in of.values() for name in below if name in equal]
    return paragraph(
        f"By that rule {len(equal)} of {len(others)} are equal to plain training on both; not",
        f"{', '.join(unequal) or 'one is not'}. Read it with its limits: with five seeds on 360 test images",
        f"(digits) a standard error is up to {error:.2f} points, and {len(below)} rows are below plain on",
        f"both, those that count as equal by {span(gaps, 2)} points that these runs can neither confirm nor",
        "exclude. Some are best at the upper end of the grid. Rates were chosen by test accuracy, for all alike.",
    )  # fmt: skip


def search_table(name: str) -> str:
    """The configurations tried with few seeds, cheapest first, each at its best rate."""
    return markdown(show.search(results(name)))


def mean_accuracy(runs: list[Item]) -> float:
    """The mean accuracy in percent."""
    return 100 * fmean(run["accuracy"] for run in runs)


def tried(name: str, operator: str, feedback: str | None = "ef14") -> list[Item]:
    """The runs of one configuration at its best rate."""
    runs = results(name)["runs"]
    return best([r for r in runs if (r["operator"], r["feedback"]) == (operator, feedback)])


_SPARSE = "sparse-dithering:nu={},scale=least-squares"
_TOP = "top-k:fraction={}|natural"


def convolutional() -> str:
    """The check with another model: what plain training reaches, and rates tried with one seed."""
    plain = mean_accuracy(tried("feedback-cnn", "none", None))
    runs = results("feedback-cnn")["runs"]
    chosen = tried("feedback-cnn", _SPARSE.format(10))[0]["lr"]
    other = [r for r in runs if r["operator"] == _SPARSE.format(10) and r["lr"] != chosen]
    rates = " and ".join(f"at {r['lr']:g}, {100 * r['accuracy']:.2f} %" for r in other)
    return paragraph(
        "As a check, the convolutional model of `fewbits train` learned digits for 15 epochs at the rate 0.05 with at most",
        f"three seeds. Plain training reaches {plain:.2f} %. (Sparse dithering at ν = 10 was also tried with one",
        f"seed {rates}.)",
    )  # fmt: skip


def convolutional_verdict() -> str:
    """How far behind plain training, on average, against plain with the same seeds."""

    def behind(operator: str) -> str:
        own = tried("feedback-cnn", operator)
        plain = tried("feedback-cnn", "none", None)[: len(own)]
        return f"{mean_accuracy(plain) - mean_accuracy(own):+.2f}"

    half = _TOP.format(0.005)
    return paragraph(
        "With this model the sparsest operators fall behind. Points behind plain training with the same seeds, on average: sparse",
        f"dithering at ν = 10 {behind(_SPARSE.format(10))}, top-k of 0.5 % {behind(half)} with",
        f"{len(tried('feedback-cnn', half))} seeds, top-k of 1 % {behind(_TOP.format(0.01))}.",
    )  # fmt: skip


def searched() -> str:
    """The accuracy of plain training in the search."""
    plain = tried("feedback-search", "none", None)
    return paragraph(
        "These were tried on MNIST at the rate 0.05, where plain training reaches",
        f"{mean_accuracy(plain):.2f} % with a training loss of {fmean(r['loss'] for r in plain):.2g}",
        f"({len(plain)} seeds):",
    )


def searched_verdict() -> str:
    """The verdict on the search."""

    def gap(first: tuple[str, str], second: tuple[str, str]) -> float:
        pair = [mean_accuracy(tried("feedback-search", *own)) for own in (first, second)]
        return pair[0] - pair[1]

    top, sparse, momentum = _TOP.format(0.01), _SPARSE.format(10), "ef14:momentum=0.9"
    plain = mean_accuracy(tried("feedback-search", "none", None))
    steps = [mean_accuracy(tried("feedback-search", _SPARSE.format(nu))) for nu in (1, 3, 7, 10)]
    lost = plain - mean_accuracy(tried("feedback-search", _SPARSE.format(30)))
    turned = plain - mean_accuracy(tried("feedback-search", f"hadamard|{sparse}"))
    rows = {run["operator"]: run for run in results("feedback-search")["runs"]}
    ranks = results("feedback-search")["ranks"]
    bits = {
        own: summary([rows[own]], [rows[own]], ranks).bits or 0.0
        for own in (top, "top-k:fraction=0.01|sign")
    }
    return bullets(
        "**Sparse dithering with a large ν is a sparsifier whose number of values adapts**: it sends the values that stand"
        f" out. Up to ν = 10 it is {span((plain - own for own in steps), 2)} points behind plain training here."
        f" At ν = 30 hardly any value stands out and it is {lost:.1f} points behind. At ν = 10 after a rotation, which"
        f" makes all values alike, it is {turned:.1f} points behind.",
        f"**`ef21` is {gap((top, 'ef14'), (top, 'ef21')):.1f} points behind `ef14`** with the same operator at"
        " this batch size, and rand-k with `diana` diverges at this rate: its estimates have no bias, but more"
        " than twenty times the variance.",
        "**Momentum inside the feedback** (`ef14:momentum=0.9` in place of the optimizer's) changes top-k by"
        f" {gap((top, momentum), (top, 'ef14')):+.2f} points and sparse dithering by"
        f" {gap((sparse, momentum), (sparse, 'ef14')):+.2f}; three seeds cannot tell that from noise. `tiny`"
        " leaves the optimizer unchanged.",
        "**The inner operator of top-k** hardly matters for accuracy, but it does for bits: `sign` has"
        f" {1 - bits['top-k:fraction=0.01|sign'] / bits[top]:.0%} fewer than `natural`.".replace("%", " %"),
    )  # fmt: skip


def pilots() -> str:
    """Runs with one seed from before the settings."""
    first, second, third = results("feedback-pilots")["pilots"]

    def of(pilot: Item, name: str, lr: float) -> str:
        (run,) = [
            r for r in pilot["runs"] if (r["data"], r["name"], r["lr"]) == ("mnist", name, lr)
        ]
        return f"{100 * run['accuracy']:.2f}"

    top = max(r["accuracy"] for r in third["runs"] if (r["data"], r["name"]) == ("mnist", "top-k"))
    plain = max(
        r["accuracy"] for r in third["runs"] if (r["data"], r["name"]) == ("mnist", "plain")
    )
    return paragraph(
        "**Pilots.** We fixed models, epochs and rates after pilots with one seed, so that runs are short and all come near",
        "convergence, and knew that top-k lags in shorter runs. The pilots are in",
        "`result-pilots.json` of the study, and not all looked like the tables. On MNIST with pixels in",
        "[-1, 1] instead of standardised ones, and hidden layers of 384 and 128 (3 epochs, rate 0.05), plain",
        f"training reached {of(first, 'plain', 0.05)} %, natural dithering {of(first, 'natural-dithering', 0.05)} %,",
        f"sparse dithering {of(first, 'sparse-dithering', 0.05)} % and top-k with natural {of(first, 'top-k', 0.05)} %;",
        f"with one layer of 128 (2 epochs, rate 0.1) {of(second, 'plain', 0.1)} %, top-k {of(second, 'top-k', 0.1)} %",
        f"and sparse dithering at ν = 10 {of(second, 'nu=10', 0.1)} %. If the problem is badly conditioned, sparse",
        "operators with feedback fall behind. On all of MNIST, standardised (2 epochs), top-k was",
        f"{100 * (plain - top):.2f} points behind plain, each at its best rate.",
    )  # fmt: skip
