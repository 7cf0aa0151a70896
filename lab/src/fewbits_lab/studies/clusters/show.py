"""Shows `clusters`: tables, figure and findings."""

from typing import TYPE_CHECKING

from fewbits_lab import figures
from fewbits_lab.record import Item, RecordDocument, Recorded
from fewbits_lab.studies.clusters.run import FLAT_EXCHANGE, NODE_EXCHANGE
from fewbits_lab.tables import ShownTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def ideal(document: RecordDocument, row: Item) -> float:
    """2 (N − 1)/N times the code bytes of one model: what a node must send."""
    nodes: int = document["nodes"]
    return 2 * (nodes - 1) / nodes * float(row["code_bytes"])


def both(document: RecordDocument, operator: str) -> tuple[Item, Item]:
    """The rows of an operator, flat and in nodes."""
    mine = {row["arrangement"]: row for row in document["rows"] if row["operator"] == operator}
    return mine[FLAT_EXCHANGE], mine[NODE_EXCHANGE]


def operators(document: RecordDocument) -> list[str]:
    """All operators, in the order of the file."""
    return list(dict.fromkeys(row["operator"] for row in document["rows"]))


def steps(document: RecordDocument) -> ShownTable:
    """Bytes that a node sends in a step, and seconds."""
    rows = [
        [
            row["operator"],
            row["arrangement"],
            f"{row['payload_bytes'] / 1e6:.2f}",
            f"{row['payload_bytes'] / ideal(document, row):.3f}",
            f"{row['interface_bytes'] / 1e6:.2f}",
            f"{row['inside_bytes'] / 1e6:.1f}",
            f"{row['seconds']:.2f}",
        ]
        for row in document["rows"]
    ]
    names = ["operator", "exchange", "MB between nodes", "of 2(N−1)/N of the codes",
             "MB at the interface", "MB inside", "seconds"]  # fmt: skip
    return ShownTable(names, rows, title="A node's bytes in a step, and the step's seconds")


def faults(document: RecordDocument) -> ShownTable:
    """What the survivors of faults raised, and when."""
    rows = [
        [own["fault"], str(own["survivors"]), ", ".join(own["errors"]), f"{own['seconds']:.1f}"]
        for own in document["faults"]
    ]
    names = ["fault", "survivors", "all raised", "seconds until the last one"]
    return ShownTable(names, rows, title=f"Time-out {document['timeout_seconds']:g} s")


def draw(document: RecordDocument) -> "Figure":
    """Bytes between nodes and seconds, beside those of a flat exchange."""
    drawn, (plot,) = figures.panels("In nodes, relative to a flat exchange", width=6, height=3.5)
    names, width = operators(document), 0.3
    for place, field in enumerate(("payload_bytes", "seconds")):
        pairs = [both(document, name) for name in names]
        at = [number + (place - 0.5) * width for number in range(len(names))]
        heights = [own[field] / flat[field] for flat, own in pairs]
        label = field.replace("_", " ")
        plot.bar(at, heights, 0.9 * width, color=figures.COLOURS[place], label=label)
    plot.set_xticks(range(len(names)), names)
    plot.set_ylabel("times as much")
    plot.grid(visible=False, axis="x")
    drawn.legend(loc="outside lower left", ncols=2, fontsize=9)
    return drawn


def findings(document: RecordDocument) -> list[str]:
    """Bytes and seconds in words, and whether replicas parted."""
    found = []
    for operator in operators(document):
        flat, own = both(document, operator)
        share = own["payload_bytes"] / flat["payload_bytes"]
        times = flat["seconds"] / own["seconds"]
        found.append(
            f"`{operator}`: a node sends {share:.2f} of a flat exchange's bytes to other nodes, "
            f"and a flat step takes {times:.2f} times as long."
        )
    long = document["long"]
    ranks = document["nodes"] * document["ranks_in_node"]
    parted = "the same" if long["different_models"] == 1 else "different"
    found.append(
        f"After {long['steps']} steps of {long['values']:,} values all {ranks} ranks have "
        f"{parted} parameters, bit for bit."
    )
    return found


CLUSTERS = Recorded(
    name="clusters",
    result="clusters",
    title="Nodes with slow links between them",
    about="Four nodes of two ranks, a link of 100 Mbit/s for each node, ten million values; "
    "computing is a timed wait. Measured.",
    command="sudo python -m fewbits_lab.studies.clusters.run",
    tables=lambda document: [steps(document), faults(document)],
    draw=draw,
    findings=findings,
)
