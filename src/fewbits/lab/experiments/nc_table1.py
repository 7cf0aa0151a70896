"""Table 1 of the paper on natural compression: workers compress, the way back is free."""

from fewbits.lab import speedups
from fewbits.lab.experiment import Experiment, Settings, Tick
from fewbits.lab.speedups import Entry, Row, Slip

PRINTED = (
    Entry("identity", "1", "32 d", speedups.IDENTITY, ("1", "1")),
    Entry("C_nat", "9/8", "9 d", speedups.NATURAL, ("3.2", "3.6")),
    Entry("S^q", "d/q", "(33 + log₂ d) q", speedups.SPARSE, ("0.6", "6.0")),
    Entry(
        "C_nat∘S^q", "9d/8q", "(10 + log₂ d) q", speedups.SPARSE_NATURAL, ("1.0", "10.7"),
        remarks=("0.950, rounded up: it is a slowdown", ""),
    ),
    Entry(
        "D_sta", "1 + κz", "31 + (2 + s) d", speedups.standard(), ("1.8", "15.9"),
        slips=(
            Slip(speedups.FLAT, speedups.standard(flat=True)),
            Slip(
                "the print takes s + 1 bits a value, as the paper's own rule for bits has it, and "
                "not the s + 2 of the table, and cuts off 15.99",
                speedups.standard(spare=1),
            ),
        ),
    ),
    Entry(
        "D_nat", "9/8 + κz", "31 + (2 + log₂ s) d", speedups.natural(), ("4.1", "16.0"),
        slips=(
            Slip(
                "the print is Table 5's, for a compressed norm: 81/64 + 9/8 κz with κ = 1 "
                "(this row's formula with κ = 1 gives 4.62)",
                speedups.natural_norm(flat=True),
            ),
            None,
        ),
    ),
)  # fmt: skip


def rows(_: Settings, __: Tick) -> list[Row]:
    """Every number of the table; nothing in it is random."""
    return speedups.rows(2, PRINTED)


EXPERIMENT = Experiment(
    name="nc-table1",
    title="Natural compression, Table 1",
    about="Total communication against no compression, where only the workers' messages count: "
    "32 d / ((1 + ω)^θ · bits), with θ = 1 for one worker and θ → 0 for many; d = 10⁶, q = d/10, "
    "p = 2, the best number s of levels. z = √d·2^(1−s), κ = min{1, z}.",
    row=Row,
    compute=rows,
    draw=speedups.figure(
        "Total communication (Table 1): only the workers' messages count", "32 bits a value"
    ),
    claims=speedups.claims("Table 1", ("C_nat", "C_nat∘S^q", "D_nat")),
    version=3,
)
