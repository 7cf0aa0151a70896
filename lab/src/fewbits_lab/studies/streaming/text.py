"""Makes the text of docs about `streaming`."""

from fewbits_lab.results import results
from fewbits_lab.studies.local_sgd.text import NAMES
from fewbits_lab.studies.streaming.arrangements import WHOLE_ROUNDS
from fewbits_lab.studies.streaming.show import rows, table
from fewbits_lab.tables import markdown


def streaming() -> str:
    """The table, and what follows from it."""
    document = results("streaming")
    cut = [row for row in rows(document) if row["arrangement"] != WHOLE_ROUNDS]
    shares = [row["share"] for row in cut]
    worse = [
        f"{NAMES[row['data']]}, {row['arrangement']} ({row['difference']:+.4f})"
        for row in cut
        if row["difference"] > 2 * row["error"]
    ]
    better = [
        f"{NAMES[row['data']]}, {row['arrangement']} ({row['difference']:+.4f})"
        for row in cut
        if row["difference"] < -2 * row["error"]
    ]
    return (
        f"{markdown(table(document))}\n\n"
        f"{document['ranks']} ranks, DiLoCo with {document['method']['local_steps']} local steps and "
        f"`{document['operator']}`, {cut[0]['seeds']} seeds; the last exchange by `sync()` is left out. "
        f"In no step do the ranks send more than {max(shares):.3f} of the bytes of a whole round's, headers "
        f"included. By two standard errors, losses are worse than those of whole rounds for: "
        f"{'; '.join(worse) or 'none'}; better for: {'; '.join(better) or 'none'}. At the end all "
        f"{'ranks were equal' if all(row['equal'] for row in cut) else 'ranks were NOT equal'}, bit for bit."
    )
