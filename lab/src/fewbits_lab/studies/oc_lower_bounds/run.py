"""The fewest bits that can suffice: -log₂ P, and the interval of the worst case."""

from dataclasses import dataclass

from fewbits.theory import uncertainty
from fewbits_lab import information
from fewbits_lab.experiment import StudySettings, Tick
from fewbits_lab.printed import Comparison, agrees

_DIMENSIONS = (4, 8, 10, 14, 16, 24, 32, 100, 1000, 10**6)
# By alpha, in the order of DIMENSIONS.
AVERAGE = {
    0.1: "7.17 14.35 17.84 24.73 28.15 41.74 55.23 169.01 1665.5 1660973.6",
    0.2: "5.63 10.78 13.27 18.16 20.58 30.16 39.65 119.4 1165.9 1160974.0",
    0.25: "5.12 9.62 11.78 16.03 18.12 26.41 34.62 103.4 1005.1 1000010.1",
    0.5: "3.46 5.92 7.06 9.29 10.38 14.66 18.86 53.66 505.3 500010.3",
    0.8: "2.15 3.14 3.57 4.40 4.80 6.32 7.78 19.47 165.96 160974.0",
    0.9: "1.73 2.30 2.54 3.00 3.21 4.02 4.78 10.62 80.6 76011.1",
}
# (alpha, d): the interval of the worst case, without its O(1).
WORST = {
    (0.1, 100): ("175.6", "178.4"),
    (0.1, 1000): ("1675.5", "1678.8"),
    (0.5, 1000): ("515.3", "518.6"),
    (0.5, 10**6): ("500030", "500035"),
}
_REASONS = {
    ("average", 0.2, 1000): "1165.9508, cut off and not rounded",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OcLowerBoundsRow(Comparison):
    """Bits of a message; `floor` is ½ log₂ 1/α, what a value takes in high dimensions."""

    quantity: str
    alpha: float
    d: int
    bits_per_value: float
    floor: float


def rows(_: StudySettings, tick: Tick) -> list[OcLowerBoundsRow]:
    """Every number of the table; nothing in it is random."""
    found = [
        _row("average", alpha, d, information.average_bits(alpha, d), text)
        for alpha, line in AVERAGE.items()
        for d, text in zip(_DIMENSIONS, line.split(), strict=True)
    ]
    for (alpha, d), (lower, upper) in WORST.items():
        bits = information.worst_case_bits(alpha, d)
        found.append(_row("worst, from", alpha, d, bits.lower, lower))
        found.append(_row("worst, to", alpha, d, bits.upper, upper))
    tick(1.0)
    return found


def _row(quantity: str, alpha: float, d: int, bits: float, printed: str) -> OcLowerBoundsRow:
    return OcLowerBoundsRow(
        quantity=quantity,
        alpha=alpha,
        d=d,
        printed=printed,
        ours=bits,
        reproduces=agrees(bits, printed),
        reason=_REASONS.get((quantity, alpha, d), ""),
        bits_per_value=bits / d,
        floor=uncertainty.uncertainty_bits(alpha, 1),
    )
