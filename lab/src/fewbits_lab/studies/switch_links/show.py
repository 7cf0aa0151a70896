"""Shows `switch-links`: tables, figures, findings and claims."""

from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.experiment import Claim
from fewbits_lab.record import Item, RecordDocument, Recorded
from fewbits_lab.tables import ShownTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_CONTENDERS = {"none": "plain", "natural": "sharded", "natural@switch": "switch"}
_SWITCH = "natural@switch"
PAPER_RANKS = 8
PAPER_SAVES = 0.84
_COLOURS = (figures.GREY, figures.BLUE, figures.ORANGE)


def on_links(document: RecordDocument) -> ShownTable:
    """Steps and bytes; lost where the switch is slower than sharded compression."""
    rows, lost = [], set()
    for number, own in enumerate(document):
        found = [own["contenders"][name] for name in _CONTENDERS]
        times = [f"{1e3 * one['step_seconds']['median']:.0f} ms" for one in found]
        sent = [f"{one['sent_bytes_a_step'] / 1e6:.2f}" for one in found]
        saves = own["contenders"][_SWITCH]["less_data_than_plain"]
        cells = [str(own["ranks"]), f"{100 * own['loss']:g} %"]
        rows.append([*cells, *times, *sent, f"{100 * saves:.1f} %"])
        if found[2]["step_seconds"]["median"] > found[1]["step_seconds"]["median"]:
            lost.add(number)
    titles = ["ranks", "lost", "plain", "sharded", "switch", "plain MB", "sharded MB", "switch MB",
              "switch saves"]  # fmt: skip
    return ShownTable(
        titles, rows, lost=frozenset(lost),
        note="Marked: the switch takes longer than sharded compression, which has the same "
        "operator and no aggregator.",
    )  # fmt: skip


def draw_links(document: RecordDocument) -> "Figure":
    """Bytes and milliseconds by the number of ranks and the loss."""
    drawn, plots = figures.panels(
        "In-network aggregation on links of 100 Mbit/s", 2, width=11, height=4.6
    )
    labels = [f"{own['ranks']}\n{100 * own['loss']:g} %" for own in document]
    for place, ((name, text), colour) in enumerate(zip(_CONTENDERS.items(), _COLOURS, strict=True)):
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


def link_claims(document: RecordDocument) -> list[Claim]:
    """How much less data than plain training, with as many ranks as the paper's."""
    saved = [
        own["contenders"][_SWITCH]["less_data_than_plain"]
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


def link_findings(document: RecordDocument) -> list[str]:
    """The settings in which the switch wins and loses in time."""
    faster = [own for own in document if _median(own, _SWITCH) < _median(own, "none")]
    slower = [own for own in document if _median(own, _SWITCH) > _median(own, "natural")]
    said = f"In time the switch beats plain all-reduce in {len(faster)} of {len(document)} settings"
    why = "all ranks and the aggregator share two cores here"
    return [f"{said}, and loses to sharded compression in {len(slower)}: {why}."]


def _median(setting: Item, name: str) -> float:
    return float(setting["contenders"][name]["step_seconds"]["median"])


SWITCH_LINKS = Recorded(
    name="switch-links",
    result="switch-links",
    title="Natural compression summed in the network",
    about="A model of a million parameters, links of 100 Mbit/s in namespaces of one machine, the "
    "aggregator behind the bridge, packets of 1,024 codes. Bytes are those that a rank's interface "
    "sent, headers and repetitions included. The aggregator is a program that can only add "
    "integers; no switch was used, nor in the paper.",
    command="sudo python -m fewbits_lab.studies.switch_links.run --out results/switch-links.json",
    tables=lambda document: [on_links(document)],
    draw=draw_links,
    findings=link_findings,
    claims=link_claims,
)
