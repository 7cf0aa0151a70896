"""Shows `links`: tables, figures, findings and claims."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.record import Headline, Item, RecordDocument, Recorded
from fewbits_lab.studies.links.run import LINK_COMMANDS
from fewbits_lab.tables import ShownTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LINK_OURS = ("natural", "natural:coder=rans")
AUTO_FROM = ("none", "bfloat16", *LINK_OURS)  # what auto may choose without bias
_COLOURS = {"plain": figures.GREY, "torch": figures.ORANGE, "fewbits": figures.BLUE}


def settings(document: RecordDocument) -> list[Item]:
    """All links, slowest first."""
    return sorted(
        document["settings"],
        key=lambda own: (own["rate_bits_per_second"] or math.inf, own["ranks"]),
    )


def row(setting: Item, name: str) -> Item:
    """One contender's figures."""
    found: Item = next(own for own in setting["contenders"] if own["contender"] == name)
    return found


def median(setting: Item, name: str) -> float:
    """Seconds of its step."""
    return float(row(setting, name)["step_seconds"]["median"])


def link(setting: Item) -> str:
    """The link and the ranks, as a cell."""
    rate = setting["rate_bits_per_second"]
    texts = {None: "not shaped", 1e8: "100 Mbit/s", 1e9: "1 Gbit/s", 1e10: "10 Gbit/s"}
    return f"{texts.get(rate, rate)}, {setting['ranks']} ranks"


def interval(ratio: dict[str, float]) -> str:
    """A ratio and where it lies in 95 of 100 cases."""
    return f"{ratio['value']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"


def steps(document: RecordDocument) -> ShownTable:
    """Seconds of a step of everyone on every link."""
    every = settings(document)
    rows = []
    for name in [own["contender"] for own in every[0]["contenders"]]:
        cells = [
            f"{median(own, name):.3f}" if row(own, name)["status"] == "measured" else "does not run"
            for own in every
        ]
        rows.append([f"`{name}`", *cells])
    return ShownTable(["", *map(link, every)], rows, title="Seconds a step, the median")


def times(document: RecordDocument) -> ShownTable:
    """How many times as fast as plain DDP, with intervals; lost where no link gains."""
    every = settings(document)
    rows: list[list[str]] = []
    lost = set()
    names = [own["contender"] for own in every[0]["contenders"] if own["kind"] != "silent"]
    for name in names:
        found = [row(own, name).get("times_plain") for own in every]
        if name == "none" or not any(found):
            continue
        lost |= {
            (len(rows), place) for place, own in enumerate(found, 1) if own and own["high"] < 1
        }
        rows.append([f"`{name}`", *(interval(own) if own else "does not run" for own in found)])
    return ShownTable(
        ["", *map(link, every)], rows, lost_cells=frozenset(lost),
        title="Times as fast as plain DDP, with 95 % intervals",
        note="Marked: slower than plain DDP, with its whole interval.",
    )  # fmt: skip


def gains(document: RecordDocument) -> ShownTable:
    """Our best against plain and the better cast, and auto against the best it could choose."""
    rows, lost = [], set()
    for number, own in enumerate(settings(document)):
        ours = min(LINK_OURS, key=lambda name: median(own, name))
        found = [row(own, ours)[key] for key in ("times_plain", "times_cast")]
        best = min(AUTO_FROM, key=lambda name: median(own, name))
        rows.append([
            link(own), f"`{ours}`", interval(found[0]),
            f"{interval(found[1])} ({own['better_cast']})",
            f"{median(own, 'auto') / median(own, best):.3f} (`{best}`)",
        ])  # fmt: skip
        if found[0]["value"] < 1:
            lost.add(number)
    titles = ["link", "best of `natural`, packed or coded", "x plain", "x better cast",
              "`auto` / best"]  # fmt: skip
    return ShownTable(
        titles, rows, lost=frozenset(lost), title="What compression without bias gains"
    )


def crossing(every: Sequence[Item], ranks: int, first: str, second: str) -> float | None:
    """Gbit/s at which both take the same time, `second` being faster below; None if nowhere.

    Between two measured links, where what `second` saves falls as one over the rate.
    """
    shaped = [own for own in every if own["rate_bits_per_second"] and own["ranks"] == ranks]
    saved = {
        own["rate_bits_per_second"]: median(own, first) - median(own, second) for own in shaped
    }
    for slow, fast in pairwise(saved):
        if saved[slow] > 0 >= saved[fast]:
            share = (saved[slow] - saved[fast]) / (1 / slow - 1 / fast)
            return float(share / (share / fast - saved[fast]) / 1e9)
    return None


def plans(document: RecordDocument) -> ShownTable:
    """The planner's forecasts over the measured steps."""
    every = settings(document)
    first = every[0]["contenders"]
    names = [own["contender"] for own in first if own.get("planned_seconds") is not None]
    rows = []
    for name in names:
        ratios = [row(own, name)["planned_seconds"] / median(own, name) for own in every]
        rows.append([f"`{name}`", *(f"{one:.2f}" for one in ratios)])
    return ShownTable(
        ["", *map(link, every)], rows, title="Planned over measured seconds of a step"
    )


def findings(document: RecordDocument) -> list[str]:
    """The best gain, and who is ahead of us."""
    found = []
    for own in settings(document):
        measured = [one for one in own["contenders"] if one.get("times_plain")]
        best = max(measured, key=lambda one: float(one["times_plain"]["value"]))
        ours = min(LINK_OURS, key=lambda name: median(own, name))
        found.append(
            f"{link(own)}: `{ours}` is {interval(row(own, ours)['times_plain'])} times as fast as "
            f"plain DDP; the fastest of all is `{best['contender']}`, "
            f"{best['times_plain']['value']:.2f} times."
        )
    return found


def headline(document: RecordDocument) -> Headline:
    """The gain on the slowest link, with the fewest ranks."""
    slowest = settings(document)[0]
    ours = min(LINK_OURS, key=lambda name: median(slowest, name))
    ratio, cast = (row(slowest, ours)[key] for key in ("times_plain", "times_cast"))
    return Headline(
        f"{ratio['value']:.1f}×",
        f"as fast a training step as plain DDP on {link(slowest)} with `{ours}` (95 %: "
        f"{ratio['low']:.1f} to {ratio['high']:.1f}), and {cast['value']:.1f} times as fast as "
        "with the better cast",
    )


def limits(document: RecordDocument) -> list[str]:
    """The rates at which the better choice changes."""
    every = settings(document)
    ranks = sorted({own["ranks"] for own in every})

    def found(first: str, second: str) -> str:
        rates = [(own, crossing(every, own, first, second)) for own in ranks]
        texts = [
            f"{'nowhere between measured links' if rate is None else f'at {rate:.1f} Gbit/s'} on "
            f"{own} ranks"
            for own, rate in rates
        ]
        return " and ".join(texts)

    note = "interpolated between measured links, with time on the wire in inverse proportion to the"
    return [
        f"Plain DDP catches up with `natural` {found('none', 'natural')}.",
        f"`natural` catches up with `natural:coder=rans` {found(*LINK_OURS)}.",
        f"Both are {note} rate.",
    ]


def draw(document: RecordDocument) -> "Figure":
    """A panel for each rate, bars of times as fast as plain, lines for intervals."""
    every = settings(document)
    half = (len(every) + 1) // 2
    drawn, plots = figures.panels(
        "Training steps on shaped links: times as fast as plain DDP", half, 2,
        width=3.1 * half, height=7.4,
    )  # fmt: skip
    for number, own in enumerate(every):
        plot = plots[number % 2 * half + number // 2]
        shown = [one for one in own["contenders"]
                 if one.get("times_plain") and one["contender"] != "none"]  # fmt: skip
        for at, one in enumerate(shown):
            ratio, kind = one["times_plain"], one["kind"].partition(",")[0]
            plot.barh(at, ratio["value"], 0.66, color=_COLOURS[kind], alpha=0.8)
            plot.plot([ratio["low"], ratio["high"]], [at, at], color="black", lw=1.2)
            plot.annotate(f"{ratio['value']:.2f}", (max(ratio["value"], ratio["high"]), at), (3, 0),
                          textcoords="offset points", va="center", fontsize=8)  # fmt: skip
        plot.axvline(1, color="black", lw=1, ls=":")
        plot.set_xlim(0, 1.22 * max(one["times_plain"]["high"] for one in shown))
        plot.set_title(link(own), fontsize=10)
        figures.names(
            plot, [one["contender"] for one in shown] if number < 2 else [""] * len(shown)
        )
    for kind, text in (("torch", "torch's hooks"), ("fewbits", "fewbits")):
        plots[0].barh([0], [0], color=_COLOURS[kind], alpha=0.8, label=text)
    drawn.legend(loc="outside lower left", ncols=3, fontsize=9)
    return drawn


def draw_limits(document: RecordDocument) -> "Figure":
    """Times as fast as plain against the rate, for what has no bias."""
    drawn, (plot,) = figures.panels("Where compression stops paying, measured", width=8.5)
    styles = (("-", "o", 2), ("--", "s", 4))
    names = ("fp16-hook", "bfloat16", *LINK_OURS)
    for colour, name in zip(figures.COLOURS, names, strict=False):
        for dash, marker, ranks in styles:
            own = [one for one in settings(document)
                   if one["ranks"] == ranks and one["rate_bits_per_second"]]  # fmt: skip
            points = [row(one, name)["times_plain"]["value"] for one in own]
            plot.plot([one["rate_bits_per_second"] / 1e9 for one in own], points, dash,
                      marker=marker, color=colour, label=f"{name}, {ranks} ranks")  # fmt: skip
    plot.axhline(1, color="black", lw=1)
    plot.set(xscale="log", yscale="log")
    plot.set_xlabel("link, Gbit/s (shaped, in network namespaces of one machine)")
    plot.set_ylabel("times as fast as plain DDP")
    figures.plain_ticks(plot.xaxis, (0.1, 1, 10))
    figures.plain_ticks(plot.yaxis, (0.5, 1, 2, 4, 8))
    plot.legend(fontsize=8, ncols=2)
    return drawn


def _about(ways: str) -> str:
    return (
        f"Ranks in network namespaces of one machine, links shaped by the kernel; {ways} Step "
        "times are medians of interleaved rounds, bytes are counted by the interface. Measured."
    )


_LINKS = Recorded(
    name="links",
    result="links",
    title="Step times on links from 100 Mbit/s to 10 Gbit/s",
    about=_about(
        "plain DDP, torch's hooks (PowerSGD too, which is biased) and fewbits train the same model "
        "of ten million parameters."
    ),
    command=" && ".join(LINK_COMMANDS),
    tables=lambda document: [times(document), steps(document)],
    draw=draw,
    findings=findings,
    headline=headline,
)
LIMITS = Recorded(
    name="links-limits",
    result="links",
    title="Where compression stops paying",
    about=_about("the same runs, read the other way round."),
    command=" && ".join(LINK_COMMANDS),
    tables=lambda document: [gains(document), plans(document)],
    draw=draw_limits,
    findings=limits,
)
