"""Shows `switch-speed`: tables, figures, findings and claims."""

from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.record import RecordDocument, Recorded
from fewbits_lab.tables import ShownTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def arithmetic(document: RecordDocument) -> ShownTable:
    """Codes a second that one core adds."""
    rows = [
        [str(own["workers"]), own["simd"], f"{own['codes_per_second'] / 1e6:,.0f}",
         f"{100 * own['ratio_to_memcpy']:.1f} %"]
        for own in document["arithmetic"]
    ]  # fmt: skip
    titles = ["workers", "instructions", "million codes a second", "of a memcpy's bytes"]
    return ShownTable(titles, rows, title="What one core adds and rounds")


def loopback(document: RecordDocument) -> ShownTable:
    """Speed of an exchange over loopback."""
    rows = [
        [str(own["workers"]), own["packet"],
         f"{own['codes_bytes_per_second_per_worker'] / 1e6:.0f}", str(own["resent_packets"])]
        for own in document["loopback"]
    ]  # fmt: skip
    titles = ["workers", "packets", "MB/s a worker", "sent again"]
    return ShownTable(titles, rows, title="Over loopback, all programs on two cores")


def draw_speed(document: RecordDocument) -> "Figure":
    """Sums and exchanges by the number of workers."""
    drawn, plots = figures.panels("Speed of the aggregator", 2, width=10, height=4)
    for colour, simd in zip(figures.COLOURS, ("avx2", "portable"), strict=False):
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


SWITCH_SPEED = Recorded(
    name="switch-speed",
    result="switch-speed",
    title="How fast codes are summed",
    about="The best of several runs on two cores that other programs used as well.",
    command="python -m fewbits_lab.studies.switch_speed.run --out results/switch-speed.json",
    tables=lambda document: [arithmetic(document), loopback(document)],
    draw=draw_speed,
)
