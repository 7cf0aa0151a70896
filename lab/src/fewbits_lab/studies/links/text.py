"""Makes the text of README and docs about `links`."""

import math
from collections.abc import Iterable
from statistics import fmean, stdev

from scipy.stats import t as student

from fewbits_lab.prose import paragraph, span, table
from fewbits_lab.record import Item
from fewbits_lab.results import results
from fewbits_lab.studies.links import show
from fewbits_lab.studies.links.show import AUTO_FROM, LINK_OURS, interval, link, median, row
from fewbits_lab.tables import markdown

LINK_POWERSGD = ("powersgd:rank=1", "powersgd:rank=4")
NEAR = 0.25  # a forecast's share of the step by which it may be off and still be called near


def settings() -> list[Item]:
    """All links, slowest first."""
    return show.settings(results("links"))


def fastest(setting: Item, names: Iterable[str]) -> str:
    """The fastest of these contenders."""
    return min(names, key=lambda name: median(setting, name))


def some(chosen: list[Item]) -> str:
    """Links in a sentence."""
    return "; ".join(link(own) for own in chosen) or "none of them"


def steps_table() -> str:
    """Seconds of a step of everyone on every link."""
    return markdown(show.steps(results("links")))


def gains_table() -> str:
    """Our best against plain and the better cast, and auto against the best it could choose."""
    rows = []
    for own in settings():
        ours, best = fastest(own, LINK_OURS), fastest(own, AUTO_FROM)
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


def behind(setting: Item, name: str, other: str) -> tuple[float, float]:
    """The 95 % interval of the mean difference of their steps, as a share of `other`'s.

    Both took turns, so steps of the same round are compared.
    """
    pairs = zip(row(setting, name)["samples"], row(setting, other)["samples"], strict=True)
    gaps = [first - second for first, second in pairs]
    error = float(student.ppf(0.975, len(gaps) - 1)) * stdev(gaps) / math.sqrt(len(gaps))
    whole = median(setting, other)
    return (fmean(gaps) - error) / whole, (fmean(gaps) + error) / whole


def crossing(ranks: int, first: str, second: str) -> str:
    """The rate at which both take the same time; below it `second` is faster."""
    rate = show.crossing(settings(), ranks, first, second)
    return "nowhere between the measured links" if rate is None else f"at {rate:.1f} Gbit/s"


def crossings() -> str:
    """The rates at which the better choice changes."""
    plain = [crossing(ranks, "none", "natural") for ranks in (2, 4)]
    coded = [crossing(ranks, *LINK_OURS) for ranks in (2, 4)]
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
        "**The cost of `auto`.** It is within 5 % of the best that it could choose on",
        f"{len(near)} of {len(every)} links, on {len(doubtful)} more the steps do not tell them apart, and it is furthest from the best,",
        f"{over[worst]:.2f} times its step, at {worst}.",
        f"Plain DDP is best at: {some(idle)}{'; ' if there else ''}{there}. If `auto` keeps plain all-reduce, a hook divides",
        "the gradient in a pass that DDP alone does not need, and every step has a header from all ranks, so that errors keep their types.",
        "On links that are certainly fast, attach nothing.",
    )  # fmt: skip


def powersgd_verdict() -> str:
    """The links on which torch's PowerSGD is faster than our unbiased operators."""
    every = settings()
    lost = [
        own
        for own in every
        if median(own, fastest(own, LINK_POWERSGD)) < median(own, fastest(own, LINK_OURS))
    ]
    return paragraph(
        "**Instead** use `bfloat16` if a factor of two is enough: it costs almost nothing. On a",
        "slow link with a model whose matrices have low rank, torch's PowerSGD sends less than any of our",
        f"unbiased operators. It was faster than both forms of `natural` on {len(lost)} of the",
        f"{len(every)} links below ({some(lost)}). It is biased, keeps a memory, and its replicas drifted",
        "apart in other runs when ranks had different numbers of threads.",
    )  # fmt: skip


def planned(setting: Item) -> dict[str, float]:
    """The planner's forecasts over the measured steps."""
    return {
        own["contender"]: own["planned_seconds"] / own["step_seconds"]["median"]
        for own in setting["contenders"]
        if own.get("planned_seconds") is not None
    }


def plans_table() -> str:
    """The planner over the clock."""
    return markdown(show.plans(results("links")))


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
        f"they are {span(without['slow'], 2)} times the step for all but `tiny`. On faster links, on which ranks wait",
        f"for processors, they are {span(without['fast'], 2)} times. For `tiny` they are",
        f"{span((planned(own)[tiny] for own in every), 2)} times on all links: the planner knows the codec, but not",
        "the other work of a rank for many small messages and memories.",
        *([f"Measured without a rank's work for messages among the planner's inputs, and with an older codec of `tiny`: {some(old)}."] if old else []),
        f"The load average when a link's measurement began was {span((own['load_average'] for own in every), 1)};",
        "two cores are busy at 2.0, and ranks of the link before count for a minute.",
    )  # fmt: skip
