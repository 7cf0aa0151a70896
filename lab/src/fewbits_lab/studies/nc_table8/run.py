"""Table 8 of the paper on natural compression: a master that adds integers, the way back free."""

from fewbits_lab import speedups
from fewbits_lab.experiment import StudySettings, Tick
from fewbits_lab.speedups import Entry, Slip, SpeedupRow

_PRINTED = (
    Entry("C_nat", "9/8", "9 d", speedups.NATURAL, ("1", "1")),
    Entry("S^q∘C_nat", "9d/8q", "(10 + log₂ d) q", speedups.SPARSE_NATURAL, ("0.30", "3.0")),
    Entry(
        "D_nat, norm too", "81/64 + 9/8 κz", "8 + (2 + log₂ s) d", speedups.natural_norm(),
        ("1.3", "4.5"), slips=(Slip(speedups.FLAT, speedups.natural_norm(flat=True)), None),
    ),
)  # fmt: skip


def rows(_: StudySettings, __: Tick) -> list[SpeedupRow]:
    """Every number of the table; nothing in it is random."""
    return speedups.rows(4, _PRINTED)
