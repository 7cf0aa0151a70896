"""Shows `transport`: tables, figures, findings and claims."""

from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.record import RecordDocument, Recorded
from fewbits_lab.studies.links.show import link
from fewbits_lab.tables import ShownTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def transport(document: RecordDocument) -> ShownTable:
    """Seconds of an exchange, by the way in which it is made."""
    names = list(document["links"][0]["seconds"])
    rows = [
        [link(own), *(f"{own['seconds'][name]:.4f}" for name in names)] for own in document["links"]
    ]
    return ShownTable(["link", *names], rows, title="Seconds of an exchange")


def draw_transport(document: RecordDocument) -> "Figure":
    """Seconds against those of point to point."""
    names = list(document["links"][0]["seconds"])
    drawn, (plot,) = figures.panels(
        f"An exchange of {document['bytes'] / 1e6:g} MB on gloo, relative to point to point",
        width=8.5, height=4.2,
    )  # fmt: skip
    width = 0.8 / len(names)
    for place, (name, colour) in enumerate(zip(names, figures.COLOURS, strict=False)):
        at = [number + (place - 1.5) * width for number in range(len(document["links"]))]
        heights = [own["seconds"][name] / own["seconds"][names[0]] for own in document["links"]]
        plot.bar(at, heights, 0.9 * width, color=colour, label=name)
    labels = [link(own).replace(", ", "\n") for own in document["links"]]
    plot.set_xticks(range(len(labels)), labels, fontsize=9)
    plot.set_ylabel("times as long")
    plot.grid(visible=False, axis="x")
    drawn.legend(loc="outside lower left", ncols=4, fontsize=9)
    return drawn


TRANSPORT = Recorded(
    name="transport",
    result="transport",
    title="How ranks exchange bytes",
    about="The same bytes between the same ranks, sent in four ways; the median of several "
    "rounds. Measured. fewbits sends point to point, in pieces.",
    command="sudo python -m fewbits_lab.studies.transport.run",
    tables=lambda document: [transport(document)],
    draw=draw_transport,
)
