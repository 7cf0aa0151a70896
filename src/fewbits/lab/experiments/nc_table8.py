"""Table 8 of the paper on natural compression: a master that adds integers, the way back free."""

from fewbits.lab import speedups
from fewbits.lab.experiment import Experiment, Settings, Tick
from fewbits.lab.speedups import Entry, Row, Slip

PRINTED = (
    Entry("C_nat", "9/8", "9 d", speedups.NATURAL, ("1", "1")),
    Entry("S^q∘C_nat", "9d/8q", "(10 + log₂ d) q", speedups.SPARSE_NATURAL, ("0.30", "3.0")),
    Entry(
        "D_nat, norm too", "81/64 + 9/8 κz", "8 + (2 + log₂ s) d", speedups.natural_norm(),
        ("1.3", "4.5"), slips=(Slip(speedups.FLAT, speedups.natural_norm(flat=True)), None),
    ),
)  # fmt: skip


def rows(_: Settings, __: Tick) -> list[Row]:
    """Every number of the table; nothing in it is random."""
    return speedups.rows(4, PRINTED)


EXPERIMENT = Experiment(
    name="nc-table8",
    title="Natural compression, Table 8",
    about="As Table 7, but only the workers' messages cost: "
    "(9 / bits a value) · ((9/8) / (1 + ω))^θ.",
    row=Row,
    compute=rows,
    draw=speedups.figure(
        "Total communication (Table 8): the master adds integers, workers' messages count",
        "natural compression",
    ),
    claims=speedups.claims("Table 8", ("D_nat, norm too",)),
    version=3,
)
