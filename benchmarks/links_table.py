"""The tables of docs/when-not.md, from the results of `fewbits bench link` and the race.

`python benchmarks/links_table.py` prints them.
"""

import json
import math
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

RESULTS = Path(__file__).parent / "results"
OURS = ("natural", "natural:coder=rans")
WITH_RATES_OF_PLAIN = {"fp16-hook", "bfloat16"}  # casts, which change next to nothing
AUTO_FROM = ("none", "bfloat16", *OURS)  # what auto may choose without bias
Result = dict[str, Any]


def settings() -> list[Result]:
    """All links, slowest first."""
    found: list[Result] = json.loads((RESULTS / "links.json").read_text())["settings"]
    return sorted(found, key=lambda own: (own["rate_bits_per_second"] or math.inf, own["ranks"]))


def row(setting: Result, name: str) -> Result:
    """One contender's figures."""
    found: Result = next(own for own in setting["contenders"] if own["contender"] == name)
    return found


def median(setting: Result, name: str) -> float:
    """Seconds of its step."""
    return float(row(setting, name)["step_seconds"]["median"])


def link(setting: Result) -> str:
    """The link and the ranks, as a cell."""
    rate = setting["rate_bits_per_second"]
    texts = {None: "not shaped", 1e8: "100 Mbit/s", 1e9: "1 Gbit/s", 1e10: "10 Gbit/s"}
    return f"{texts.get(rate, rate)}, {setting['ranks']} ranks"


def steps_table() -> str:
    """Seconds of a step of everyone on every link."""
    every = settings()
    names = [own["contender"] for own in every[0]["contenders"]]
    lines = [
        "| | " + " | ".join(link(own) for own in every) + " |",
        "| --- " * (len(every) + 1) + "|",
    ]
    for name in names:
        cells = [
            f"{median(own, name):.3f}" if row(own, name)["status"] == "measured" else "does not run"
            for own in every
        ]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def gains_table() -> str:
    """Our best against plain and the better cast, and auto against the best it could choose."""
    lines = [
        "| link | best of `natural`, packed or coded | x plain | x better cast | `auto` / best |",
        "| --- | --- | --- | --- | --- |",
    ]
    for own in settings():
        ours = min(OURS, key=lambda name: median(own, name))
        times = [interval(row(own, ours)[key]) for key in ("times_plain", "times_cast")]
        best = min(AUTO_FROM, key=lambda name: median(own, name))
        lines.append(
            f"| {link(own)} | `{ours}` | {times[0]} | {times[1]} ({own['better_cast']}) "
            f"| {median(own, 'auto') / median(own, best):.3f} (`{best}`) |"
        )
    return "\n".join(lines)


def interval(ratio: dict[str, float]) -> str:
    """A ratio and where it lies in 95 of 100 cases."""
    return f"{ratio['value']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"


def crossing(ranks: int, rates: tuple[float, float], first: str, second: str) -> float:
    """Bits a second at which both take the same time.

    Between two measured links, where what `second` saves falls as one over the rate.
    """
    by_rate = {own["rate_bits_per_second"]: own for own in settings() if own["ranks"] == ranks}
    slow, fast = (median(by_rate[r], first) - median(by_rate[r], second) for r in rates)
    saved = (slow - fast) / (1 / rates[0] - 1 / rates[1])
    return saved / (saved / rates[1] - fast)


def crossings() -> str:
    """Where the better choice changes."""
    plain = [crossing(ranks, (1e9, 1e10), "none", "natural") / 1e9 for ranks in (2, 4)]
    coded = [crossing(ranks, (1e8, 1e9), *OURS) / 1e9 for ranks in (2, 4)]
    return (
        "**Where the better choice changes**, with time on the wire in inverse proportion to the\n"
        "rate between measured links: plain DDP catches up with `natural` at "
        f"{plain[0]:.1f} Gbit/s on\ntwo ranks and {plain[1]:.1f} Gbit/s on four, and `natural` "
        f"with `natural:coder=rans` at {coded[0]:.2f}\nand {coded[1]:.2f} Gbit/s."
    )


def plans_table() -> str:
    """What the planner says from what was measured, over what the clock says."""
    every = settings()
    names = [
        own["contender"] for own in every[0]["contenders"] if own.get("planned_seconds") is not None
    ]
    lines = ["| | " + " | ".join(link(own) for own in every) + " |"]
    lines.append("| --- " * (len(every) + 1) + "|")
    for name in names:
        ratios = [row(own, name)["planned_seconds"] / median(own, name) for own in every]
        lines.append(f"| `{name}` | " + " | ".join(f"{one:.2f}" for one in ratios) + " |")
    return "\n".join(lines)


def race_table() -> str:
    """Seconds until the goal of the race."""
    found = json.loads((RESULTS / "time-to-accuracy.json").read_text())
    runs = [own for own in found["runs"] if own["part"] == "race"]
    lines = [
        "| contender | rate | steps | seconds | ± | MB of a rank |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name in dict.fromkeys(own["name"] for own in runs):
        own = [run for run in runs if run["name"] == name]
        seconds = [run["seconds"] for run in own]
        error = stdev(seconds) / math.sqrt(len(seconds)) if len(seconds) > 1 else math.nan
        missed = sum(not run["reached"] for run in own)
        note = f", {missed} of {len(own)} did not arrive" if missed else ""
        steps = ", ".join(str(run["steps"]) for run in own)
        sent = fmean(run["interface_bytes"] for run in own) / 1e6
        lines.append(
            f"| `{name}` | {own[0]['lr']} | {steps}{note} | {fmean(seconds):.1f} | {error:.1f} "
            f"| {sent:.1f} |"
        )
    return "\n".join(lines)


def transport_table() -> str:
    """Seconds of an exchange, by the way in which it is made."""
    found = json.loads((RESULTS / "transport.json").read_text())
    names = list(found["links"][0]["seconds"])
    lines = ["| link | " + " | ".join(names) + " |", "| --- " * (len(names) + 1) + "|"]
    for own in found["links"]:
        cells = [f"{own['seconds'][name]:.4f}" for name in names]
        lines.append(f"| {link(own)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def tables() -> list[str]:
    """All of them, in the page's order."""
    return [
        steps_table(),
        gains_table(),
        crossings(),
        plans_table(),
        race_table(),
        transport_table(),
    ]


if __name__ == "__main__":
    print("\n\n".join(tables()))
