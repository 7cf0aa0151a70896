"""Shows `race`: tables, figures and findings."""

from collections.abc import Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING

import numpy as np

from fewbits_lab import figures
from fewbits_lab.links import figures as ratios
from fewbits_lab.links import names
from fewbits_lab.record import Item, RecordDocument, Recorded, with_error
from fewbits_lab.results import results
from fewbits_lab.studies.links import show as links_show
from fewbits_lab.studies.race.links import LOW_RANK_8, POWERSGD_1, POWERSGD_4
from fewbits_lab.tables import ShownTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RACE_GOALS = "loss_steps", "accuracy_steps"
_RESAMPLED, _DRAWS_SEED = 4000, 7


def against(setting: Item, name: str, other: str) -> ratios.Ratio:
    """How many times as fast a contender's step is as another's; they took turns."""
    samples = [links_show.row(setting, own)["samples"] for own in (other, name)]
    return ratios.ratio(*samples)


def fewer(setting: Item, name: str, other: str) -> float:
    """How many times fewer bytes leave a rank's interface in a step."""
    first, second = (
        links_show.row(setting, own)["interface_bytes"]["mean"] for own in (other, name)
    )
    return float(first / second)


def link_steps(document: RecordDocument) -> ShownTable:
    """Steps, processor time and bytes of everyone on every link."""
    rows: list[list[str]] = []
    lost: set[int] = set()
    for own in links_show.settings(document):
        for row in own["contenders"]:
            name, seconds = row["contender"], row["step_seconds"]
            four, alike = against(own, name, POWERSGD_4), name in (names.COMPUTE, POWERSGD_4)
            if name == LOW_RANK_8 and four.value < 1:
                lost.add(len(rows))
            rows.append([
                links_show.link(own), f"`{name}`", f"{1e3 * seconds['median']:.0f}",
                f"{1e3 * seconds['low']:.0f} to {1e3 * seconds['high']:.0f}",
                f"{1e3 * row['cpu_seconds']:.0f}", f"{row['interface_bytes']['mean'] / 1e3:.1f}",
                "" if alike else f"{four.value:.2f} ({four.low:.2f} to {four.high:.2f})",
                "" if alike else f"{fewer(own, name, POWERSGD_4):.1f}",
            ])  # fmt: skip
    titles = ["link", "", "ms a step, median", "quartiles", "processor ms", "kB of a rank",
              "x PowerSGD-4", "fewer bytes than it"]  # fmt: skip
    return ShownTable(titles, rows, lost=frozenset(lost), title="Steps that took turns")


def link_findings(document: RecordDocument) -> list[str]:
    """`low-rank` against both."""
    return [
        f"{links_show.link(own)}: `{LOW_RANK_8}` is {against(own, LOW_RANK_8, POWERSGD_4)} times as"
        f" fast as PowerSGD-4 and {against(own, LOW_RANK_8, POWERSGD_1)} times as fast as"
        f" PowerSGD-1, with {fewer(own, LOW_RANK_8, POWERSGD_4):.1f} times fewer bytes than the"
        " first."
        for own in links_show.settings(document)
    ]


def draw_links(document: RecordDocument) -> "Figure":
    """A panel for each link: bars of milliseconds, lines from quartile to quartile."""
    every = links_show.settings(document)
    drawn, plots = figures.panels(
        "Steps of low rank and of PowerSGD, 10 million parameters", len(every), width=10, height=3.4
    )
    for plot, own in zip(plots, every, strict=False):
        called = [row["contender"] for row in own["contenders"]]
        for at, name in enumerate(called):
            seconds = links_show.row(own, name)["step_seconds"]
            colour = figures.ORANGE if name.startswith("powersgd") else figures.BLUE
            plot.barh(at, 1e3 * seconds["median"], 0.66, color=colour, alpha=0.8)
            plot.plot([1e3 * seconds["low"], 1e3 * seconds["high"]], [at, at], color="black")
        plot.set_title(links_show.link(own), fontsize=10)
        plot.set_xlabel("ms a step")
        figures.names(plot, called if own is every[0] else [""] * len(called))
    return drawn


def raced(document: RecordDocument) -> dict[str, list[Item]]:
    """The runs by contender."""
    runs = document["runs"]
    found = dict.fromkeys(own["name"] for own in runs)
    return {name: [own for own in runs if own["name"] == name] for name in found}


def counted(runs: Sequence[Item], goal: str, most: int) -> str:
    """Steps to a goal; a run that did not arrive counts with all its steps, and is told."""
    steps = [own[goal] or most for own in runs]
    missed = sum(own[goal] is None for own in runs)
    text = with_error(steps, 0) if len(steps) > 1 else f"{steps[0]} (1 seed)"
    return f"{text}{f', {missed} of {len(runs)} did not arrive' if missed else ''}"


def race_steps(document: RecordDocument) -> ShownTable:
    """Steps and bytes to the goals."""
    most, rows = document["most_steps"], []
    for name, own in raced(document).items():
        sent = fmean(run["sent_bytes_per_step"] for run in own)
        total = fmean((run["loss_steps"] or most) * run["sent_bytes_per_step"] for run in own)
        spent = fmean(1e3 * run["exchange_cpu_seconds"] / run["steps"] for run in own)
        rows.append([
            f"`{name}`", str(len(own)), counted(own, "loss_steps", most),
            counted(own, "accuracy_steps", most), f"{sent / 1e3:.1f}", f"{total / 1e6:.2f}",
            f"{spent:.1f}",
        ])  # fmt: skip
    titles = ["", "seeds", "steps to the loss", "steps to the accuracy", "kB a step",
              "MB to the loss", "processor ms a step"]  # fmt: skip
    return ShownTable(titles, rows, title="Steps to both goals, mean ± standard error")


def arrivals(steps: RecordDocument, seconds: RecordDocument, rate: float) -> ShownTable:
    """Seconds to both goals on a link: steps, times the seconds of one."""
    runs, most = raced(steps), steps["most_steps"]
    rows: list[list[str]] = []
    lost: set[tuple[int, int]] = set()
    for own in seconds["runs"]:
        name = own["name"]
        if own["link_bits_per_second"] != rate or name not in runs:
            continue
        cells = [f"`{name}`", f"{1e3 * median(own['seconds']):.1f}"]
        for goal in RACE_GOALS:
            other = best_powersgd(steps, seconds, rate, goal)
            taken = median(own["seconds"]) * fmean(run[goal] or most for run in runs[name])
            times = sooner(steps, seconds, rate, goal, name, other)
            cells += [f"{taken:.2f}", "" if name == other else str(times)]
            if name == LOW_RANK_8 and times.low < 1:
                lost.add((len(rows), len(cells) - 1))
        rows.append(cells)
    titles = ["", "ms a step, median", "s to the loss", "x best PowerSGD", "s to the accuracy",
              "x best PowerSGD"]  # fmt: skip
    return ShownTable(titles, rows, lost_cells=frozenset(lost), title=f"{rate / 1e6:g} Mbit/s")


def best_powersgd(steps: RecordDocument, seconds: RecordDocument, rate: float, goal: str) -> str:
    """The rank of PowerSGD that arrives first."""
    runs, most = raced(steps), steps["most_steps"]
    taken: dict[str, float] = {
        own["name"]: median(own["seconds"]) * fmean(run[goal] or most for run in runs[own["name"]])
        for own in seconds["runs"]
        if own["name"].startswith("powersgd") and own["link_bits_per_second"] == rate
    }
    return min(taken, key=lambda name: taken[name])


def sooner(
    steps: RecordDocument, seconds: RecordDocument, rate: float, goal: str, name: str, other: str
) -> ratios.Ratio:
    """How many times as soon a contender arrives as another one, with seeds and rounds drawn anew.

    Both have the same seeds, and took turns.
    """
    runs, most = raced(steps), steps["most_steps"]
    counts, taken = [], []
    for each in (other, name):
        by_seed = sorted(runs[each], key=lambda run: run["seed"])
        counts.append(np.array([run[goal] or most for run in by_seed], np.float64))
        (own,) = (
            row for row in seconds["runs"]
            if (row["name"], row["link_bits_per_second"]) == (each, rate)
        )  # fmt: skip
        taken.append(np.array(own["seconds"]))
    draws = np.random.default_rng(_DRAWS_SEED)
    seeds = draws.integers(counts[0].size, size=(_RESAMPLED, counts[0].size))
    rounds = draws.integers(taken[0].size, size=(_RESAMPLED, taken[0].size))
    drawn = [
        each[seeds].mean(axis=1) * np.median(own[rounds], axis=1)
        for each, own in zip(counts, taken, strict=True)
    ]
    low, high = np.quantile(drawn[0] / drawn[1], (0.025, 0.975))
    whole = [each.mean() * np.median(own) for each, own in zip(counts, taken, strict=True)]
    return ratios.Ratio(float(whole[0] / whole[1]), float(low), float(high))


def draw_seconds(document: RecordDocument) -> "Figure":
    """Bars of milliseconds a step."""
    rows = document["runs"]
    drawn, (plot,) = figures.panels("Steps of 0.4 M parameters", height=1.6 + 0.38 * len(rows))
    for at, own in enumerate(rows):
        colour = figures.ORANGE if own["name"].startswith("powersgd") else figures.BLUE
        plot.barh(at, 1e3 * median(own["seconds"]), 0.6, color=colour, alpha=0.8)
    plot.set_xlabel("ms a step, median")
    figures.names(plot, [own["name"] for own in rows])
    return drawn


def race_rates(document: RecordDocument) -> list[float]:
    """The rates of links that were measured."""
    return sorted({own["link_bits_per_second"] for own in document["runs"]})


def draw_steps(document: RecordDocument) -> "Figure":
    """Bars of steps, a dot for each seed."""
    found = raced(document)
    drawn, (plot,) = figures.panels("Steps to the loss", height=1.6 + 0.38 * len(found), width=8.5)
    for at, (name, own) in enumerate(found.items()):
        steps = [run["loss_steps"] or document["most_steps"] for run in own]
        colour = figures.ORANGE if name.startswith("powersgd") else figures.BLUE
        plot.barh(at, fmean(steps), 0.6, color=figures.GREY if name == "none" else colour)
        plot.plot(steps, [at] * len(steps), "o", color="black", ms=3.5)
    plot.set_xlabel("steps, mean of the seeds; dots: single seeds")
    figures.names(plot, list(found))
    return drawn


def islands(document: RecordDocument) -> ShownTable:
    """Losses and bytes of islands."""
    every: dict[str, list[Item]] = {}
    for run in document["runs"]:
        every.setdefault(run["name"], []).append(run)
    base = {run["seed"]: run for run in every["DiLoCo"]}
    rows = []
    for name in document["contenders"]:
        own = [run for run in every.get(name, []) if run["seed"] in base]
        if not own:
            rows.append([name, "", "0", "not run", "", ""])
            continue
        operator, feedback, outer = document["contenders"][name]
        how = f"`{operator}`{f' with `{feedback}`' if feedback else ''}, `{outer}`"
        gaps = [run["test_loss"] - base[run["seed"]]["test_loss"] for run in own]
        gap = with_error(gaps, 4, "+") if len(gaps) > 1 else f"{gaps[0]:+.4f}"
        times = fmean(base[run["seed"]]["sent"] / run["sent"] for run in own)
        rows.append([
            name, how, str(len(own)), f"{fmean(run['test_loss'] for run in own):.4f}",
            "" if name == "DiLoCo" else gap, f"{times:.1f} ×",
        ])  # fmt: skip
    titles = ["", "operator, outer step", "seeds", "test loss", "difference to DiLoCo",
              "fewer bytes"]  # fmt: skip
    return ShownTable(titles, rows, title="Four islands, 32 local steps")


def draw_islands(document: RecordDocument) -> "Figure":
    """Test losses against bytes."""
    drawn, (plot,) = figures.panels("Test loss against bytes of an island", width=8.5, height=3.6)
    for colour, name in zip(figures.COLOURS, document["contenders"], strict=False):
        own = [run for run in document["runs"] if run["name"] == name]
        plot.plot([run["sent"] / 1e6 for run in own], [run["test_loss"] for run in own], "o",
                  color=colour, label=name)  # fmt: skip
    plot.set_xscale("log")
    plot.set_xlabel("MB that an island sends")
    plot.set_ylabel("test loss")
    plot.legend(fontsize=8)
    return drawn


RACE_ON_LINKS = Recorded(
    name="race-links",
    result="race-links",
    title="Low rank against PowerSGD: steps on a slow link",
    about="The link laboratory's workload with links of 100 Mbit/s: `low-rank`, torch's PowerSGD "
    "with warm start, and a step without communication take turns. Measured.",
    command="sudo python -m fewbits_lab.studies.race.links --ranks 2 4",
    tables=lambda document: [link_steps(document)],
    draw=draw_links,
    findings=link_findings,
)
RACE_BY_STEPS = Recorded(
    name="race-steps",
    result="race-steps",
    title="Low rank against PowerSGD: steps to a loss and an accuracy",
    about="A convolutional network on MNIST, four simulated ranks; goals fixed before the runs, "
    "one rate for all. Steps and bytes are counted, of PowerSGD by formula.",
    command="python -m fewbits_lab.studies.race.run --data MNIST-DIR",
    tables=lambda document: [race_steps(document)],
    draw=draw_steps,
)
RACE_IN_SECONDS = Recorded(
    name="race-seconds",
    result="race-seconds",
    title="Low rank against PowerSGD: seconds to a loss and an accuracy",
    about="Steps of the same network on four ranks, taking turns, times the steps that each "
    "contender needs. Seconds of a step are measured, those to a goal are the product.",
    command="sudo python -m fewbits_lab.studies.race.seconds",
    tables=lambda document: [
        arrivals(results("race-steps"), document, rate) for rate in race_rates(document)
    ],
    draw=draw_seconds,
)
RACE_ON_ISLANDS = Recorded(
    name="race-islands",
    result="race-islands",
    title="Islands that send fifty times less: SparseLoCo beside DiLoCo",
    about="A GPT on tiny-shakespeare, four simulated islands that meet every 32 steps: test losses "
    "and counted bytes, paired by seeds.",
    command="python -m fewbits_lab.studies.race.islands --data TEXT-DIR",
    tables=lambda document: [islands(document)],
    draw=draw_islands,
)
