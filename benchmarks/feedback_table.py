"""The tables of docs/feedback.md, from the results of `feedback.py` and `bias.py`.

`python benchmarks/feedback_table.py` prints them.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from fewbits.presets import PRESETS
from fewbits.schemes import header

RESULTS = Path(__file__).parent / "results"
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
    error = stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else math.inf
    busiest = fmean(run["bytes_per_step"] for run in own)
    mean = fmean(run["mean_bytes_per_step"] for run in own)
    exact = own[0].get("exact_elements")
    bits = None
    if exact is not None:
        ways = 2 * (ranks - 1) / ranks  # how often a rank sends a value, there and back
        rest = mean - 4 * ways * exact - HEADERS * (ranks - 1) * header.SIZE
        bits = 8 * rest / ways / (own[0]["elements"] - exact)
    return Summary(
        own[0]["lr"], 100 * fmean(run["accuracy"] for run in own), fmean(differences), error,
        busiest, mean, own[0]["fp32_bytes_per_step"] / mean, bits,
    )  # fmt: skip


def summaries(results: Run, data: str) -> dict[str, Summary]:
    """All configurations on one data set."""
    runs = [run for run in results["runs"] if run["data"] == data]
    named = {name: [run for run in runs if run["name"] == name] for name in ORDER}
    return {
        name: summary(own, named[PLAIN], results["ranks"]) for name, own in named.items() if own
    }


def label(run: Run) -> str:
    """A configuration as a cell."""
    if run["operator"] == "none":
        return "plain"
    operator = run["operator"].replace("|", "\\|")
    own = f"`{operator}` " + (f"with `{run['feedback']}`" if run["feedback"] else "without")
    tiny = (run["operator"], run["feedback"]) == (TINY.operator, TINY.feedback)
    return f"`tiny`: {own}" if tiny else own


def accuracy_table(results: Run, data: str) -> str:
    """Accuracies and bytes."""
    labels = {run["name"]: label(run) for run in results["runs"]}
    lines = [
        "| operator | rate | accuracy | difference | equal | bytes | busiest | smaller | bits |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, own in summaries(results, data).items():
        plain = name == PLAIN
        difference = "" if plain else f"{own.difference:+.2f} ± {own.standard_error:.2f}"
        equal = "" if plain else "yes" if own.equal else "**no**"
        bits = "32" if own.bits is None else f"{own.bits:.2f}"
        lines.append(
            f"| {labels[name]} | {own.lr:g} | {own.accuracy:.2f} % | {difference} | {equal} "
            f"| {own.mean:,.0f} | {own.busiest:,.0f} | {own.smaller:.1f} | {bits} |"
        )
    return "\n".join(lines)


def search_table(results: Run) -> str:
    """What was tried with few seeds, cheapest first, each at the best of the rates tried."""
    lines = [
        "| operator | feedback | seeds | accuracy | training loss | bits |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    rows = []
    for name in {run["name"] for run in results["runs"]} - {PLAIN}:
        runs = [run for run in results["runs"] if run["name"] == name]
        own, chosen = summary(runs, runs, results["ranks"]), best(runs)
        rows.append((own.bits or 0.0, name, own, chosen))
    for bits, _, own, chosen in sorted(rows, key=lambda row: row[:2]):
        operator, loss = chosen[0]["operator"], fmean(run["loss"] for run in chosen)
        lines.append(
            f"| `{operator}` | `{chosen[0]['feedback']}` | {len(chosen)} | {own.accuracy:.2f} % "
            f"| {loss:.2g} | {bits:.3f} |".replace(operator, operator.replace("|", "\\|"))
        )
    return "\n".join(lines)


def draws_table(results: Run) -> str:
    """What averaging leaves."""
    lines = [
        "| gradient | mean of `natural` | noise | bias | smallest seen | E4M3 | E4M3 / `natural` |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, own in results["draws"]["gradients"].items():
        lines.append(
            f"| {name} | {own['natural']:.2e} | {own['floor']:.2e} | {own['without_noise']:.1e} "
            f"| {own['resolution']:.1e} | {own['e4m3']:.2e} | {own['e4m3'] / own['natural']:.1f} |"
        )
    return "\n".join(lines)


def tail_table(results: Run) -> str:
    """What rounding does to the end of training."""
    lines = [
        "| rounding | feedback | difference of the tail loss, 95 % interval | in % of plain |",
        "| --- | --- | --- | --- |",
    ]
    for row in results["training"]["rows"]:
        low, mean, high = (1e6 * row[key] for key in ("low", "difference", "high"))
        lines.append(
            f"| {row['rounding']} | {'`ef14`' if row['feedback'] else 'none'} "
            f"| {mean:+.1f} ({low:+.1f} to {high:+.1f}) · 10⁻⁶ "
            f"| {row['percent']:+.3f} ± {row['percent_half_width']:.3f} |"
        )
    return "\n".join(lines)


def tables() -> list[str]:
    """All of them."""
    accuracy, search, cnn, bias = (
        json.loads((RESULTS / f"{name}.json").read_text())
        for name in ("feedback", "feedback-search", "feedback-cnn", "bias")
    )
    own = [accuracy_table(accuracy, data) for data in ("digits", "mnist")]
    return [*own, search_table(cnn), search_table(search), draws_table(bias), tail_table(bias)]


if __name__ == "__main__":
    print("\n\n".join(tables()))
