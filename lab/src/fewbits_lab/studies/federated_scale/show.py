"""Shows `federated-scale`: figure, findings and claims."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fewbits_lab import figures
from fewbits_lab.experiment import Experiment
from fewbits_lab.record import RecordDocument
from fewbits_lab.studies.federated_scale.run import (
    CONTENDERS,
    FEDERATED_MOST,
    FederatedScaleRow,
    rows,
)
from fewbits_lab.tables import ShownTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def by_clients(document: RecordDocument) -> ShownTable:
    """Rounds, bytes and seconds by the number of clients."""
    rows, lost = [], set()
    for number, row in enumerate(document["rows"]):
        reached = row["rounds"] is not None
        rounds = f"{row['rounds']:,}" if reached else f"> {FEDERATED_MOST:,}"
        less = f"{row['times_less_up']:.1f}" if row["times_less_up"] else "1" if reached else ""
        rows.append([
            f"{row['clients']:,}", str(row["present"]), row["operator"], rounds,
            f"{row['bytes_a_message'] / 1000:.2f}", less,
            f"{row['seconds']:,.0f}" if reached else "",
        ])  # fmt: skip
        if not reached:
            lost.add(number)
    titles = ["clients", "a round", "updates", "rounds", "kB up a message", "fewer bytes up",
              "seconds"]  # fmt: skip
    return ShownTable(titles, rows, lost=frozenset(lost), note="Marked: did not get there.")


def findings(table: Sequence[FederatedScaleRow]) -> list[str]:
    """The saving of each contender at each scale."""
    found = []
    for clients in dict.fromkeys(row.clients for row in table):
        own = [row for row in table if row.clients == clients]
        parts = [
            f"{row.operator} {row.times_less_up:.1f} times fewer bytes up in {row.rounds} rounds"
            if row.times_less_up
            else f"{row.operator} not within {FEDERATED_MOST:,} rounds"
            for row in own[1:]
        ]
        found.append(
            f"{clients:,} clients, {own[0].present} of them a round ({own[0].rounds} rounds "
            f"without compression): {'; '.join(parts)}."
        )
    return found


def draw(table: Sequence[FederatedScaleRow]) -> "Figure":
    """Rounds, bytes and seconds against the number of clients."""
    drawn, plots = figures.panels(
        "FedAvg until the excess is 10⁻² of the first: simulated clients, real frames, modelled "
        "links",
        3, width=13, height=4.8,
    )  # fmt: skip
    rounds, sent, seconds = plots
    for number, contender in enumerate(CONTENDERS):
        own = [row for row in table if row.operator == contender.label and row.rounds]
        look: Any = {
            "color": ("black", *figures.COLOURS)[number], "label": contender.label,
            "marker": figures.MARKERS[number], "alpha": 0.85,
        }  # fmt: skip
        x = [row.clients for row in own]
        rounds.plot(x, [row.rounds or 0 for row in own], **look)
        sent.plot(x, [(row.up_bytes or 0) / row.present / 1000 for row in own], **look)
        seconds.plot(x, [row.seconds or 0 for row in own], **look)
    axes = {
        "rounds": (20, 50, 100, 200, 500, 1000),
        "kB up in all, for each place in a round": (10, 20, 50, 100, 200),
        "modelled seconds": (30, 100, 300, 1000, 3000),
    }
    for plot, (name, ticks) in zip(plots, axes.items(), strict=True):
        _axes(plot, table, name, ticks)
    lost = [f"{row.operator} with {row.clients:,}" for row in table if not row.rounds]
    if lost:
        text = f"not within {FEDERATED_MOST:,} rounds:\n{', '.join(lost)}"
        rounds.annotate(
            text, (0.98, 0.6), ha="right", xycoords="axes fraction", fontsize=9, bbox=figures.PAPER
        )
    drawn.legend(*rounds.get_legend_handles_labels(), loc="outside lower left", ncols=6, fontsize=9)
    return drawn


def _axes(
    plot: "Axes", table: Sequence[FederatedScaleRow], name: str, ticks: Sequence[float]
) -> None:
    plot.set_xscale("log")
    plot.set_yscale("log")
    scales = list(dict.fromkeys((row.clients, row.present) for row in table))
    labels = [f"{clients:,}\n({present})" for clients, present in scales]
    plot.set_xticks([clients for clients, _ in scales], labels=labels)
    plot.minorticks_off()
    figures.plain_ticks(plot.yaxis, ticks)
    plot.set_title(name, fontsize=10)
    plot.set_xlabel("clients (of which take part in a round)")


FEDERATED_SCALE = Experiment(
    name="federated-scale",
    title="FedAvg with 10 to 10,000 simulated clients",
    about="Simulated: clients, their quadratic functions of 2048 values, and who takes part. Real: "
    "every update is a frame, and bytes are those of the frames. Modelled: seconds, from links "
    "whose rates have a lognormal law around 50 kB/s, a tenth of them ten times slower, 50 ms of "
    "latency each way and 0.1 s of work; a round lasts as long as its slowest client. The model "
    "goes down without compression. Rounds end when (f − f*) / (f₀ − f*) is 10⁻². With EF21 the "
    "server's step is the share of clients that take part, because it moves by what absent clients "
    "said last.",
    row=FederatedScaleRow,
    compute=rows,
    draw=draw,
    findings=findings,
)
