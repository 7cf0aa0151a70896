"""Makes the text of docs about `oc-vectors`."""

from statistics import fmean

from fewbits_lab.prose import paragraph
from fewbits_lab.results import results
from fewbits_lab.studies.oc_vectors import show
from fewbits_lab.studies.oc_vectors.run import OF_DESCENT, OF_SIZES, OcVectorsRow


def vectors_verdict() -> str:
    """How to send several small vectors."""
    table = [OcVectorsRow(**row) for row in results("oc-vectors")["rows"]]
    sizes = {(d, count): own for (_, d, count), own in show.groups(table, OF_SIZES).items()}
    one, many = (fmean(row.bits for row in sizes[10, count]) for count in (1, 64))
    told = []
    for (_, d, count), own in show.groups(table, OF_DESCENT).items():
        if count > 1:
            told.append(
                f"{fmean(row.times_less for row in own):.1f} times with {count} vectors of {d} values"
            )
    return paragraph(
        "**Send small vectors together.** A matrix of m rows compressed with `block=d` is m vectors of d values in one",
        f"frame, which pays its header and its key once: a vector of 10 values takes {one:.0f} bits alone and {many:.0f}",
        f"among 64 (`alpha=0.2`), where the paper counts {sizes[10, 1][0].paper_bits:.0f} and float32 is 320. Until the",
        f"target of a regression with several outputs, whole frames save {' and '.join(told)} (study `oc-vectors`).",
    )
