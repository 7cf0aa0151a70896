"""Shows `top-k`: tables, figures, findings and claims."""

from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.record import RecordDocument, Recorded
from fewbits_lab.tables import ShownTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def selection(document: RecordDocument) -> ShownTable:
    """CPU seconds of each way to select."""
    seconds = document["cpu_seconds"]
    rows = [
        [name, f"{1e3 * own:.1f}", f"{seconds['torch.topk'] / own:.1f}"]
        for name, own in seconds.items()
    ]
    titles = ["job", "ms of one thread", "times as fast as torch.topk"]
    note = f"The {document['k']:,} largest of {document['elements']:,}; `compress` has the frame."
    return ShownTable(titles, rows, note=note)


def draw_selection(document: RecordDocument) -> "Figure":
    """Milliseconds, logarithmic."""
    seconds = document["cpu_seconds"]
    drawn, (plot,) = figures.panels("Selecting the largest 1 % of 25 million values", width=8,
                                    height=2.9)  # fmt: skip
    plot.barh(range(len(seconds)), [1e3 * own for own in seconds.values()], 0.6,
              color=figures.BLUE, alpha=0.8)  # fmt: skip
    figures.log_x(plot)
    plot.set(xlabel="ms of one thread, log scale")
    figures.names(plot, list(seconds))
    return drawn


TOP_K = Recorded(
    name="top-k",
    result="top-k",
    title="Selecting the largest magnitudes",
    about="One thread, interleaved, the best of several rounds; torch gets the magnitudes ready "
    "made and need not sort.",
    command="python -m fewbits_lab.studies.top_k.run",
    tables=lambda document: [selection(document)],
    draw=draw_selection,
)
