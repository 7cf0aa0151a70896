"""Spherical compression in blocks: what an index takes a value, and how many directions."""

from dataclasses import dataclass

from fewbits.families import caps
from fewbits.theory import uncertainty
from fewbits_lab.experiment import StudySettings, Tick
from fewbits_lab.printed import Comparison, agrees

MOST_RICE = 40
_SIZES = (4, 8, 12, 16, 24, 32)
# By alpha, in the order of SIZES: bits a value, directions.
OC_BLOCKS_PRINTED = {
    0.9: (".737 .459 .344 .292 .229 .195", "3 5 7 9 16 27"),
    0.8: (".876 .576 .456 .391 .325 .290", "4 9 16 28 80 220"),
    0.5: ("1.219 .927 .809 .741 .672 .636", "11 60 291 1.3e3 2.6e4 4.7e5"),
    0.25: ("1.661 1.387 1.286 1.229 1.162", "35 789 1.6e4 2.9e5 8.9e7"),
    0.1: ("2.174 1.980 1.900 1.855", "144 2.1e4 2.6e6 3e8"),
}
REASONS = {("directions", 0.25, 12): "15,456, rounded up"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OcBlocksRow(Comparison):
    """One quantity for blocks of d values; `floor` is ½ log₂ 1/α."""

    quantity: str
    alpha: float
    d: int
    floor: float


def rows(_: StudySettings, tick: Tick) -> list[OcBlocksRow]:
    """Every number of the table; nothing in it is random."""
    found = []
    for alpha, (bits, directions) in OC_BLOCKS_PRINTED.items():
        for d, bit_text, count_text in zip(_SIZES, bits.split(), directions.split(), strict=False):
            chance = caps.probability(alpha, d)
            rice = caps.rice_parameter(chance, MOST_RICE)
            assert rice is not None
            cells = (
                ("bits a value", caps.rice_bits(chance, rice) / d, f"0{bit_text}".lstrip("0")),
                ("directions", 1 / chance, count_text),
            )
            for quantity, ours, text in cells:
                found.append(
                    OcBlocksRow(
                        quantity=quantity,
                        alpha=alpha,
                        d=d,
                        printed=text,
                        ours=ours,
                        reproduces=agrees(ours, text),
                        reason=REASONS.get((quantity, alpha, d), ""),
                        floor=uncertainty.uncertainty_bits(alpha, 1),
                    )
                )
    tick(1.0)
    return found
