"""Makes the text of docs about `clusters`."""

from fewbits_lab.results import results
from fewbits_lab.studies.clusters import show
from fewbits_lab.tables import markdown


def clusters_text() -> str:
    """A node's bytes and seconds, and what was found."""
    document = results("clusters")
    rate = document["rate_bits_per_second"] / 1e6
    where = (
        f"Measured with {document['nodes']} network namespaces of {document['ranks_in_node']} "
        f"ranks, {rate:g} Mbit/s each way for each of them, and {document['values']:,} values. All "
        "ranks shared the cores of one machine, so compare the seconds with each other only."
    )
    tables = markdown(show.steps(document)), markdown(show.faults(document))
    return "\n\n".join([where, tables[0], " ".join(show.findings(document)), tables[1]])
