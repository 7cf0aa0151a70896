"""Bits and variance of natural and standard dithering, packed and entropy coded.

The paper's claim is about codes of a fixed width: natural dithering needs exponentially fewer
levels for the same variance. An entropy coder does not pay for levels that nobody uses.
"""

import math
from dataclasses import dataclass

from fewbits_lab import vectors
from fewbits_lab.experiment import StudySettings, Tick

_VALUES = 100_000
_DEEPEST = 13  # s of natural dithering, beside 2^(s-1) levels of standard dithering


@dataclass(frozen=True, slots=True)
class DitheringBitsRow:
    """One operator on the Gaussian vector: bits a value of whole frames, and the variance."""

    p: str
    s: int
    operator: str
    levels: int
    error: float
    packed: float
    rans: float


def rows(settings: StudySettings, tick: Tick) -> list[DitheringBitsRow]:
    """Natural dithering with s levels and standard dithering with 2^(s-1), by norm."""
    x = vectors.gaussian(_VALUES, settings.seed)
    cases = [
        (p, s, kind)
        for p in (2.0, math.inf)
        for s in range(1, _DEEPEST + 1, 2 if settings.quick else 1)
        for kind in ("natural-dithering", "standard-dithering")
    ]
    found = []
    for part, (p, s, kind) in enumerate(cases, 1):
        levels = s if kind == "natural-dithering" else 2 ** (s - 1)
        spec = f"{kind}:p={p:g},levels={levels}"
        packed = vectors.measure(spec, x, settings.seed)
        coded = vectors.measure(f"{spec},coder=rans", x, settings.seed)
        name = "∞" if p == math.inf else f"{p:g}"
        found.append(DitheringBitsRow(name, s, kind, levels, packed.error, packed.bits, coded.bits))
        tick(part / len(cases))
    return found
