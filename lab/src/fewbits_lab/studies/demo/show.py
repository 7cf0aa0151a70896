"""Shows `demo`: the table that the command prints, and the speeds as bars."""

from typing import TYPE_CHECKING

from fewbits.train import table
from fewbits.train.references import PLAIN_DDP
from fewbits_lab import figures
from fewbits_lab.prose import one
from fewbits_lab.record import RecordDocument, Recorded
from fewbits_lab.studies.demo.run import DEMO_COMMAND
from fewbits_lab.tables import ShownTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def times(document: RecordDocument) -> dict[str, float]:
    """How many times as fast a step is as plain DDP's, by operator."""
    plain = one(document["runs"], operator=PLAIN_DDP)["step_ms"]["total"]
    return {run["operator"]: plain / run["step_ms"]["total"] for run in document["runs"]}


def rows(document: RecordDocument) -> ShownTable:
    """Every run on the link."""
    titles = ["operator", "accuracy", "MB a step", "step, ms", "times as fast as plain DDP"]
    speeds = times(document)
    cells = [
        [f"`{run['operator']}`", f"{100 * run['accuracy']:.1f} %",
         f"{run['bytes_per_step'] / 1e6:.3f}", f"{run['step_ms']['total']:.1f}",
         f"{speeds[run['operator']]:.2f}"]
        for run in document["runs"]
    ]  # fmt: skip
    return ShownTable(titles, cells, title=table.trained(document))


def draw_demo(document: RecordDocument) -> "Figure":
    """A bar for each operator."""
    drawn, (plot,) = figures.panels("The demo: times as fast as plain DDP", width=8, height=2.8)
    speeds = times(document)
    for at, value in enumerate(speeds.values()):
        plot.barh(at, value, 0.66, color=figures.BLUE, alpha=0.8)
        plot.annotate(f"{value:.2f}", (value, at), (3, 0), textcoords="offset points", va="center")
    plot.axvline(1, color="black", lw=1, ls=":")
    figures.names(plot, list(speeds))
    return drawn


_DEMO = Recorded(
    name="demo",
    result="demo",
    title="The demo on an emulated link",
    about="What `make demo` shows on its last screen, on one machine with two cores. Measured.",
    command=f"{DEMO_COMMAND} --json",
    tables=lambda document: [rows(document)],
    draw=draw_demo,
    findings=lambda document: list(document["summary"]),
)
