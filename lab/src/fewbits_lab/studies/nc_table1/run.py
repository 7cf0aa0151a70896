"""Table 1 of the paper on natural compression: workers compress, the way back is free."""

from fewbits_lab import speedups
from fewbits_lab.experiment import StudySettings, Tick
from fewbits_lab.speedups import Entry, Slip, SpeedupRow

_PRINTED = (
    Entry("identity", "1", "32 d", speedups.SPEEDUP_IDENTITY, ("1", "1")),
    Entry("C_nat", "9/8", "9 d", speedups.NATURAL, ("3.2", "3.6")),
    Entry("S^q", "d/q", "(33 + log₂ d) q", speedups.SPEEDUP_SPARSE, ("0.6", "6.0")),
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


def rows(_: StudySettings, __: Tick) -> list[SpeedupRow]:
    """Every number of the table; nothing in it is random."""
    return speedups.rows(2, _PRINTED)
