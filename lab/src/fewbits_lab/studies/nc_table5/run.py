"""Table 5 of the paper on natural compression: both directions compressed, equally fast."""

from fewbits_lab import speedups
from fewbits_lab.experiment import StudySettings, Tick
from fewbits_lab.speedups import Entry, Slip, SpeedupRow

_SHORT = Slip(
    "the print takes 9 + log₂ d bits for each value that is kept, its own column has 10 + log₂ d",
    speedups.SPARSE_NATURAL_SHORT,
)
_STANDARD = Slip(speedups.FLAT, speedups.standard(flat=True))
_NATURAL = Slip(speedups.FLAT, speedups.natural_norm(flat=True))
_PRINTED = (
    Entry("C_nat", "9/8", "9 d", speedups.NATURAL, ("2.81", "3.16")),
    Entry("S^q", "d/q", "(33 + log₂ d) q", speedups.SPEEDUP_SPARSE, ("0.06", "0.60")),
    Entry(
        "S^q∘C_nat", "9d/8q", "(10 + log₂ d) q", speedups.SPARSE_NATURAL, ("0.09", "0.98"),
        slips=(_SHORT, _SHORT),
    ),
    Entry(
        "D_sta", "1 + κz", "31 + (2 + s) d", speedups.standard(), ("1.67", "1.78"),
        slips=(_STANDARD, _STANDARD),
    ),
    Entry(
        "D_nat, norm too", "81/64 + 9/8 κz", "8 + (2 + log₂ s) d", speedups.natural_norm(),
        ("3.19", "4.10"), slips=(_NATURAL, _NATURAL),
    ),
)  # fmt: skip


def rows(_: StudySettings, __: Tick) -> list[SpeedupRow]:
    """Every number of the table; nothing in it is random."""
    return speedups.rows(1, _PRINTED)
