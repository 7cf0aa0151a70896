"""Makes the text of docs about `compatibility`."""

from collections import Counter

from fewbits_lab.prose import paragraph
from fewbits_lab.results import results
from fewbits_lab.studies.compatibility import show
from fewbits_lab.tables import markdown


def matrix_table() -> str:
    """One row for each training loop."""
    return markdown(show.matrix(results("compatibility")))


def matrix_verdict() -> str:
    """How many rows there are of each kind, and with which packages they were run."""
    document = results("compatibility")
    counts = Counter(own["verdict"] for own in document["rows"])
    versions = ", ".join(f"{name} {own}" for name, own in document["versions"].items())
    return paragraph(
        f"{len(document['rows'])} training loops: {counts['yes']} work, {counts['refused']} are "
        f"refused in one line, for {counts['n/a']} it means nothing, and the row says why. Run with "
        f"Python {document['python']}, {versions}."
    )
