"""Table 7 of the paper on natural compression: a master that adds integers, both directions."""

from fewbits.lab import speedups
from fewbits.lab.experiment import Experiment, Settings, Tick
from fewbits.lab.speedups import Entry, Row, Slip

_NATURAL = Slip(speedups.FLAT, speedups.natural_norm(flat=True))

PRINTED = (
    Entry("C_nat", "9/8", "9 d", speedups.NATURAL, ("1", "1")),
    Entry("S^q∘C_nat", "9d/8q", "(10 + log₂ d) q", speedups.SPARSE_NATURAL, ("0.03", "0.30")),
    Entry(
        "D_nat, norm too", "81/64 + 9/8 κz", "8 + (2 + log₂ s) d", speedups.natural_norm(),
        ("1.14", "1.30"), slips=(_NATURAL, _NATURAL),
    ),
)  # fmt: skip


def rows(_: Settings, __: Tick) -> list[Row]:
    """Every number of the table; nothing in it is random."""
    return speedups.rows(3, PRINTED)


EXPERIMENT = Experiment(
    name="nc-table7",
    title="Natural compression, Table 7",
    about="A master that can only add integers, so the baseline is natural compression; both "
    "directions cost: (9 / bits a value) · ((9/8) / (1 + ω))^(1+θ).",
    row=Row,
    compute=rows,
    draw=speedups.figure(
        "Total communication (Table 7): the master adds integers, both directions count",
        "natural compression",
    ),
    version=3,
)
