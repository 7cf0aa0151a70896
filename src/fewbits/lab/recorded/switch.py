"""In-network aggregation: bytes and steps on links, and how fast sums are made."""

from typing import TYPE_CHECKING, Any

from fewbits.lab import figures
from fewbits.lab.experiment import Claim
from fewbits.lab.recorded.record import Document, Recorded
from fewbits.lab.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONTENDERS = {"none": "plain", "natural": "sharded", "natural@switch": "switch"}
SWITCH = "natural@switch"
PAPER_RANKS = 8
PAPER_SAVES = 0.84
_COLOURS = (figures.GREY, figures.BLUE, figures.ORANGE)
Setting = dict[str, Any]


def on_links(document: Document) -> Table:
    """Steps and bytes; lost where the switch is slower than sharded compression."""
    rows, lost = [], set()
    for number, own in enumerate(document):
        found = [own["contenders"][name] for name in CONTENDERS]
        times = [f"{1e3 * one['step_seconds']['median']:.0f} ms" for one in found]
        sent = [f"{one['sent_bytes_a_step'] / 1e6:.2f}" for one in found]
        saves = own["contenders"][SWITCH]["less_data_than_plain"]
        cells = [str(own["ranks"]), f"{100 * own['loss']:g} %"]
        rows.append([*cells, *times, *sent, f"{100 * saves:.1f} %"])
        if found[2]["step_seconds"]["median"] > found[1]["step_seconds"]["median"]:
            lost.add(number)
    titles = ["ranks", "lost", "plain", "sharded", "switch", "plain MB", "sharded MB", "switch MB",
              "switch saves"]  # fmt: skip
    return Table(
        titles, rows, lost=frozenset(lost),
        note="Marked: the switch takes longer than sharded compression, which has the same "
        "operator and no aggregator.",
    )  # fmt: skip


def draw_links(document: Document) -> "Figure":
    """Bytes and milliseconds by the number of ranks and the loss."""
    drawn, plots = figures.panels(
        "In-network aggregation on links of 100 Mbit/s", 2, width=11, height=4.6
    )
    labels = [f"{own['ranks']}\n{100 * own['loss']:g} %" for own in document]
    for place, ((name, text), colour) in enumerate(zip(CONTENDERS.items(), _COLOURS, strict=True)):
        at = [number + (place - 1) * 0.27 for number in range(len(document))]
        found = [own["contenders"][name] for own in document]
        plots[0].bar(at, [one["sent_bytes_a_step"] / 1e6 for one in found], 0.25, color=colour,
                     label=text)  # fmt: skip
        times = [1e3 * one["step_seconds"]["median"] for one in found]
        spread = [
            [1e3 * (one["step_seconds"]["median"] - one["step_seconds"]["low"]) for one in found],
            [1e3 * (one["step_seconds"]["high"] - one["step_seconds"]["median"]) for one in found],
        ]
        plots[1].bar(at, times, 0.25, color=colour, yerr=spread,
                     error_kw={"ecolor": "black", "lw": 1})  # fmt: skip
    for plot, unit in zip(plots, ("MB sent by a rank in a step", "ms a step, and quartiles"),
                          strict=True):  # fmt: skip
        plot.set_xticks(range(len(labels)), labels, fontsize=9)
        plot.set(title=unit, xlabel="ranks, and packets lost")
        plot.grid(visible=False, axis="x")
    drawn.legend(loc="outside lower left", ncols=3)
    return drawn


def link_claims(document: Document) -> list[Claim]:
    """How much less data than plain training, with as many ranks as the paper's."""
    saved = [
        own["contenders"][SWITCH]["less_data_than_plain"]
        for own in document
        if own["ranks"] == PAPER_RANKS
    ]
    low, high = min(saved), max(saved)
    agrees = abs(high - PAPER_SAVES) <= 0.02
    return [
        Claim(
            "natural", "Figure 9", "data sent by a worker, in-network aggregation of C_nat",
            "84 % less with 8 workers (38.0 GB instead of 234.8 GB)",
            f"{100 * low:.1f} to {100 * high:.1f} % less with 8 ranks, packets lost from 0 to 1 %",
            agrees, "" if agrees else "other headers and repetitions of lost packets",
        )
    ]  # fmt: skip


def link_findings(document: Document) -> list[str]:
    """Where the switch wins and loses in time."""
    faster = [own for own in document if _median(own, SWITCH) < _median(own, "none")]
    slower = [own for own in document if _median(own, SWITCH) > _median(own, "natural")]
    said = f"In time the switch beats plain all-reduce in {len(faster)} of {len(document)} settings"
    why = "all ranks and the aggregator share two cores here"
    return [f"{said}, and loses to sharded compression in {len(slower)}: {why}."]


def _median(setting: Setting, name: str) -> float:
    return float(setting["contenders"][name]["step_seconds"]["median"])


def arithmetic(document: Document) -> Table:
    """Codes a second that one core adds."""
    rows = [
        [str(own["workers"]), own["simd"], f"{own['codes_per_second'] / 1e6:,.0f}",
         f"{100 * own['ratio_to_memcpy']:.1f} %"]
        for own in document["arithmetic"]
    ]  # fmt: skip
    titles = ["workers", "instructions", "million codes a second", "of a memcpy's bytes"]
    return Table(titles, rows, title="What one core adds and rounds")


def loopback(document: Document) -> Table:
    """Speed of an exchange over loopback."""
    rows = [
        [str(own["workers"]), own["packet"],
         f"{own['codes_bytes_per_second_per_worker'] / 1e6:.0f}", str(own["resent_packets"])]
        for own in document["loopback"]
    ]  # fmt: skip
    titles = ["workers", "packets", "MB/s a worker", "sent again"]
    return Table(titles, rows, title="Over loopback, all programs on two cores")


def draw_speed(document: Document) -> "Figure":
    """Sums and exchanges by the number of workers."""
    drawn, plots = figures.panels("Speed of the aggregator", 2, width=10, height=4)
    for colour, simd in zip(figures.COLOURS, ("avx2", "scalar"), strict=False):
        own = [row for row in document["arithmetic"] if row["simd"] == simd]
        plots[0].plot([row["workers"] for row in own],
                      [row["codes_per_second"] / 1e6 for row in own], marker="o", color=colour,
                      label=simd)  # fmt: skip
    plots[0].set(title="million codes a second, one core", xlabel="workers", ylim=(0, None))
    plots[0].legend()
    found = document["loopback"]
    plots[1].barh(range(len(found)), [row["codes_bytes_per_second_per_worker"] / 1e6
                  for row in found], 0.6, color=figures.BLUE, alpha=0.8)  # fmt: skip
    plots[1].set(title="MB/s of each worker over loopback")
    figures.names(plots[1], [f"{row['workers']} workers, {row['packet']}" for row in found])
    return drawn


LINKS = Recorded(
    name="switch-links",
    file="switch-links.json",
    title="Natural compression summed in the network",
    about="A model of a million parameters, links of 100 Mbit/s in namespaces of one machine, the "
    "aggregator behind the bridge, packets of 1,024 codes. Bytes are those that a rank's interface "
    "sent, headers and repetitions included. The aggregator is a program that can only add "
    "integers; no switch was used, nor in the paper.",
    command="sudo python benchmarks/switch_links.py --out benchmarks/results/switch-links.json",
    tables=lambda document: [on_links(document)],
    draw=draw_links,
    findings=link_findings,
    claims=link_claims,
)
SPEED = Recorded(
    name="switch-speed",
    file="switch-speed.json",
    title="How fast codes are summed",
    about="The best of several runs on two cores that other programs used as well.",
    command="python benchmarks/switch_speed.py --out benchmarks/results/switch-speed.json",
    tables=lambda document: [arithmetic(document), loopback(document)],
    draw=draw_speed,
)
