"""Regressions on the data sets of the second paper's field, which are not bundled."""

from fewbits.lab.experiments import oc_regressions
from fewbits.lab.recorded.record import Document, Recorded
from fewbits.lab.tables import Table


def regressions(document: Document) -> Table:
    """How many times fewer bits, by regression and operator; lost where it stalls."""
    rows, lost = [], set()
    for number, row in enumerate(document["rows"]):
        steps = "stalls" if row["steps"] is None else f"{row['steps']:,}"
        values = [row[f"times_less_{name}"] for name in ("sections", "without_key", "frames")]
        cells = ["" if value is None else f"{value:.1f}" for value in values]
        regression = f"{row['kind']}, {row['data']}"
        rows.append([regression, str(row["d"]), f"`{row['spec']}`", steps, *cells])
        if row["steps"] is None or values[2] < 1:
            lost.add(number)
    titles = ["regression", "d", "operator", "steps", "sections", "without key", "frames"]
    note = "Marked: it stalls, or whole frames send more than no compression."
    return Table(titles, rows, lost=frozenset(lost), note=note)


def _rows(document: Document) -> list[oc_regressions.Row]:
    return [oc_regressions.Row(**row) for row in document["rows"]]


REGRESSIONS = Recorded(
    name="regressions-libsvm",
    file="regressions.json",
    title="Bits until 10⁻⁴ on regressions, LIBSVM's sets among them",
    about="One worker, compressed gradient descent, real frames; times fewer bits than without "
    "compression, in the sections, without keys, and in whole frames.",
    command="python benchmarks/regressions.py --data LIBSVM-DIR",
    tables=lambda document: [regressions(document)],
    draw=lambda document: oc_regressions.draw(_rows(document)),
)
