"""docs/when-not.md, from `fewbits bench link`, the race to an accuracy, and the transports."""

import math
from collections.abc import Iterable
from statistics import fmean, stdev
from typing import Any

from benchmarks.rendered.blocks import paragraph, results, span, table
from scipy.stats import t as student

from fewbits.lab.recorded import links
from fewbits.lab.recorded import race as races
from fewbits.lab.recorded.links import AUTO_FROM, OURS, interval, link, median, row
from fewbits.lab.tables import markdown

POWERSGD = ("powersgd:rank=1", "powersgd:rank=4")
WITH_RATES_OF_PLAIN = {"fp16-hook", "bfloat16"}  # casts, which change next to nothing
NEAR = 0.25  # a forecast's share of the step by which it may be off and still be called near
Result = dict[str, Any]


def settings() -> list[Result]:
    """All links, slowest first."""
    return links.settings(results("links"))


def fastest(setting: Result, names: Iterable[str]) -> str:
    """Of these contenders."""
    return min(names, key=lambda name: median(setting, name))


def some(chosen: list[Result]) -> str:
    """Links in a sentence."""
    return "; ".join(link(own) for own in chosen) or "none of them"


def steps_table() -> str:
    """Seconds of a step of everyone on every link."""
    return markdown(links.steps(results("links")))


def gains_table() -> str:
    """Our best against plain and the better cast, and auto against the best it could choose."""
    rows = []
    for own in settings():
        ours, best = fastest(own, OURS), fastest(own, AUTO_FROM)
        plain, cast = (interval(row(own, ours)[key]) for key in ("times_plain", "times_cast"))
        low, high = behind(own, "auto", best)
        auto = (
            f"{median(own, 'auto') / median(own, best):.3f} (`{best}`; {low:+.3f} to {high:+.3f})"
        )
        rows.append([link(own), f"`{ours}`", plain, f"{cast} ({own['better_cast']})", auto])
    titles = (
        "link|best of `natural`, packed or coded|x plain|x better cast|"
        "`auto` / best (which; their difference as a share of its step, 95 %)"
    )
    return table(titles, rows)


def behind(setting: Result, name: str, other: str) -> tuple[float, float]:
    """Where the mean difference of their steps lies in 95 of 100 cases, as a share of `other`'s.

    Both took turns, so steps of the same round are compared.
    """
    pairs = zip(row(setting, name)["samples"], row(setting, other)["samples"], strict=True)
    gaps = [first - second for first, second in pairs]
    error = float(student.ppf(0.975, len(gaps) - 1)) * stdev(gaps) / math.sqrt(len(gaps))
    whole = median(setting, other)
    return (fmean(gaps) - error) / whole, (fmean(gaps) + error) / whole


def crossing(ranks: int, first: str, second: str) -> str:
    """Where both take the same time, `second` being faster below."""
    rate = links.crossing(settings(), ranks, first, second)
    return "nowhere between the measured links" if rate is None else f"at {rate:.1f} Gbit/s"


def crossings() -> str:
    """Where the better choice changes."""
    plain = [crossing(ranks, "none", "natural") for ranks in (2, 4)]
    coded = [crossing(ranks, *OURS) for ranks in (2, 4)]
    return paragraph(
        "**Where the better choice changes**, with time on the wire in inverse proportion to the rate",
        f"between measured links: plain DDP catches up with `natural` {plain[0]} on two ranks and",
        f"{plain[1]} on four, and `natural` with `natural:coder=rans` {coded[0]} and {coded[1]}.",
    )


def auto_verdict() -> str:
    """Auto against the best that it could choose, and against plain DDP where nothing pays."""
    every = settings()
    idle = [own for own in every if fastest(own, AUTO_FROM) == "none"]
    over = {link(own): median(own, "auto") / median(own, fastest(own, AUTO_FROM)) for own in every}
    near = [ratio for ratio in over.values() if ratio <= 1.05]
    doubtful = [
        own
        for own in every
        if over[link(own)] > 1.05 and behind(own, "auto", fastest(own, AUTO_FROM))[0] <= 0
    ]
    worst = max(over, key=lambda name: over[name])
    cost = [100 * (median(own, "auto") / median(own, "none") - 1) for own in idle]
    there = (
        f"there its steps differ from those of DDP without a hook by {span(cost, 0, '+')} %"
        if idle
        else ""
    )
    return paragraph(
        "**What `auto` costs.** It is within 5 % of the best that it could choose on",
        f"{len(near)} of {len(every)} links, on {len(doubtful)} more the steps do not tell them apart, and it is furthest from the best,",
        f"{over[worst]:.2f} times its step, at {worst}.",
        f"Plain DDP is best at: {some(idle)}{'; ' if there else ''}{there}. Where `auto` goes on with plain all-reduce, a hook divides",
        "the gradient, in a pass that DDP alone need not make, and every step has a header from all ranks, so that errors keep their types.",
        "On links that are fast for sure do not attach anything.",
    )  # fmt: skip


def powersgd_verdict() -> str:
    """Where torch's PowerSGD is faster than what is unbiased."""
    every = settings()
    lost = [
        own
        for own in every
        if median(own, fastest(own, POWERSGD)) < median(own, fastest(own, OURS))
    ]
    return paragraph(
        "**Then rather** use `bfloat16` where a factor of two is enough: it costs next to nothing. On a",
        "slow link with a model whose matrices have low rank, torch's PowerSGD sends less than any of our",
        f"unbiased operators. It was faster than both forms of `natural` on {len(lost)} of the",
        f"{len(every)} links below ({some(lost)}). It is biased, keeps a memory, and its replicas drifted",
        "apart in other runs when ranks had different numbers of threads.",
    )  # fmt: skip


def planned(setting: Result) -> dict[str, float]:
    """What the planner says from what was measured, over what the clock says."""
    return {
        own["contender"]: own["planned_seconds"] / own["step_seconds"]["median"]
        for own in setting["contenders"]
        if own.get("planned_seconds") is not None
    }


def plans_table() -> str:
    """The planner over the clock."""
    return markdown(links.plans(results("links")))


def plans_verdict() -> str:
    """How far off the planner is, where, and how the links were measured."""
    every, tiny = settings(), "tiny"
    slow = [own for own in every if (own["rate_bits_per_second"] or math.inf) <= 1e9]
    fast = [own for own in every if own not in slow]
    ratios = [ratio for own in every for ratio in planned(own).values()]
    near = sum(abs(ratio - 1) <= NEAR for ratio in ratios)
    without = {
        name: [r for own in group for key, r in planned(own).items() if key != tiny]
        for name, group in (("slow", slow), ("fast", fast))
    }
    old = [own for own in every if "exchange_seconds" not in own["inputs"]["link"]]
    return paragraph(
        f"{near} of {len(ratios)} forecasts are within {NEAR:.0%} of the measured step. Up to 1 Gbit/s".replace("%", " %"),
        f"they are {span(without['slow'], 2)} times the step for all but `tiny`, on faster links, where",
        f"processors are what ranks wait for, {span(without['fast'], 2)} times, and for `tiny`",
        f"{span((planned(own)[tiny] for own in every), 2)} times on all of them: the planner knows the codec,",
        "and not what else a rank does for many small messages and memories.",
        *([f"Measured without a rank's work for messages among the planner's inputs, and with an older codec of `tiny`: {some(old)}."] if old else []),
        f"The load average when a link's measurement began was {span((own['load_average'] for own in every), 1)};",
        "two cores are busy at 2.0, and ranks of the link before count for a minute.",
    )  # fmt: skip


def race() -> dict[str, list[Result]]:
    """The runs of the race by contender."""
    return races.by_name(results("time-to-accuracy"))


def mean_seconds(runs: list[Result]) -> float:
    """Until the goal."""
    return fmean(run["seconds"] for run in runs)


def standard_error(runs: list[Result]) -> float:
    """Of the mean of seconds."""
    seconds = [run["seconds"] for run in runs]
    return stdev(seconds) / math.sqrt(len(seconds)) if len(seconds) > 1 else math.nan


def race_table() -> str:
    """Seconds until the goal of the race."""
    return markdown(races.race(results("time-to-accuracy")))


def race_verdict() -> str:
    """Tiny against plain, the cast and PowerSGD."""
    runs = race()
    seconds = {name: mean_seconds(own) for name, own in runs.items()}
    steps = {
        name: 1e3 * fmean(run["seconds"] / run["steps"] for run in own)
        for name, own in runs.items()
    }
    tiny, other = "tiny", "powersgd:rank=4"
    gap = seconds[tiny] - seconds[other]
    error = math.hypot(standard_error(runs[tiny]), standard_error(runs[other]))
    doubt = (
        "less than two standard errors, so"
        if abs(gap) < 2 * error
        else "more than two standard errors, and"
    )
    return paragraph(
        f"`tiny` is {seconds['none'] / seconds[tiny]:.1f} times as fast as plain DDP and",
        f"{seconds['fp16-hook'] / seconds[tiny]:.1f} times as fast as the cast. PowerSGD of rank 4 took {abs(gap):.1f} s",
        f"{'less' if gap > 0 else 'more'} than `tiny`, which is {doubt} the seeds",
        f"{'do not decide' if abs(gap) < 2 * error else 'decide'} between them: a step takes",
        f"{steps[tiny]:.0f} and {steps[other]:.0f} ms, most of it on the processors.",
    )  # fmt: skip


def transport_table() -> str:
    """Seconds of an exchange, by the way in which it is made."""
    return markdown(races.transport(results("transport")))


BLOCKS = {
    "then-rather": powersgd_verdict,
    "steps": steps_table,
    "gains": gains_table,
    "crossings": crossings,
    "auto": auto_verdict,
    "plans": plans_table,
    "plans-verdict": plans_verdict,
    "race": race_table,
    "race-verdict": race_verdict,
    "transport": transport_table,
}
