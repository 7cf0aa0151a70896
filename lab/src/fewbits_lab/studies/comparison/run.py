r"""Compressors compared: bits and errors of real frames, and one figure of merit.

How many times less is sent in all than with 32 bits a value, if bias costs $1 / (1 - \alpha)$ and
unbiased noise $1 + \omega$ times the iterations, with the measured error for $\alpha$ or $\omega$.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import fewbits
from fewbits_lab import vectors
from fewbits_lab.experiment import StudySettings, Tick
from fewbits_lab.printed import Comparison, agrees

_D = 15_360
_WITHIN = 0.05  # frames have headers, and another vector was drawn
VECTORS: dict[str, Callable[[int, int], vectors.VectorValues]] = {
    "Gaussian": vectors.gaussian,
    "scale varies": vectors.varying,
}


class KnownGain(NamedTuple):
    """A gain that is known for Gaussian vectors, from formulas for bits or in other code."""

    text: str
    reason: str = ""


_SPECS: dict[str, KnownGain | None] = {
    "natural": KnownGain("3.3"),
    "natural:coder=rans": None,
    "natural-dithering:coder=rans": None,
    "standard-dithering:p=2,levels=124,coder=rans": KnownGain("12.7"),
    "standard-dithering:p=inf,levels=1,coder=rans": KnownGain(
        "6.3", "known for log₂ 3 bits a value; entropy coding takes fewer"
    ),
    "sign": KnownGain("20.2"),
    "top-k:fraction=0.01|identity": KnownGain(
        "6.7", "known for log₂ of the number of sets of places; their code takes more"
    ),
    "top-k:fraction=0.1|identity": KnownGain("3.9"),
    "top-k:fraction=0.01|natural": None,
    "top-k:fraction=0.1|natural": None,
    "rand-k:fraction=0.1|identity": KnownGain("1.0"),
    "sparse-dithering:nu=0.1,coder=paper,block=3840": KnownGain("11.0"),
    "sparse-dithering:nu=0.5,coder=paper,block=3840": KnownGain("13.4"),
    "sparse-dithering:nu=1,coder=paper,block=3840": KnownGain("13.9"),
    "sparse-dithering:nu=0.25,rounding=stochastic,coder=paper,block=3840": KnownGain("11.6"),
    "sparse-dithering:nu=0.1": None,
    "sparse-dithering:nu=0.5": None,
    "sparse-dithering:nu=1": None,
    "sparse-dithering:nu=1,scale=least-squares": None,
    "sparse-dithering:nu=0.25,rounding=stochastic": None,
    "sparse-dithering:nu=0.25,rounding=subtractive": None,
    "spherical": None,
    "bfloat16": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow(Comparison):
    """`ours` is the gain; `unbiased` says which figure of merit."""

    vector: str
    operator: str
    unbiased: bool
    bits_per_value: float
    error: float


def rows(settings: StudySettings, tick: Tick) -> list[ComparisonRow]:
    """Every operator on both vectors."""
    found = []
    cases = [(name, spec) for name in VECTORS for spec in _SPECS]
    made = {name: make(_D, settings.seed) for name, make in VECTORS.items()}
    for part, (name, spec) in enumerate(cases, 1):
        operator = fewbits.operator(spec)
        unbiased = operator.guarantee(_D).unbiased
        measured = vectors.measure(spec, made[name], settings.seed)
        ours = gain(measured, unbiased=unbiased)
        known = _SPECS[spec] if name == "Gaussian" else None
        found.append(
            ComparisonRow(
                vector=name,
                operator=operator.spec,
                unbiased=unbiased,
                bits_per_value=measured.bits,
                error=measured.error,
                printed=known.text if known else None,
                ours=ours,
                reproduces=agrees(ours, known.text, within=_WITHIN) if known else None,
                reason=known.reason if known else "",
            )
        )
        tick(part / len(cases))
    return found


def gain(measured: vectors.VectorMeasure, *, unbiased: bool) -> float:
    """Times less in all than 32 bits a value."""
    kept = 1 / (1 + measured.error) if unbiased else max(0.0, 1 - measured.error)
    return 32 * kept / measured.bits
