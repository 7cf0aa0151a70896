"""Figure 21 of the paper on natural compression: which exponents gradients have."""

from dataclasses import dataclass

import numpy as np

from fewbits_lab.experiment import StudySettings, Tick
from fewbits_lab.recordings import gradients
from fewbits_lab.vectors import VectorValues


@dataclass(frozen=True, slots=True)
class NcFigure21Row:
    """How many values of a gradient have an exponent; None is for those that are 0."""

    model: str
    data: str
    step: int
    exponent: int | None
    values: int
    share: float


def rows(settings: StudySettings, tick: Tick) -> list[NcFigure21Row]:
    """Every exponent that occurs, at every recorded step."""
    found = []
    for own in gradients.recorded(settings):
        counts = exponents(own.vector)
        total = sum(counts.values())
        found += [
            NcFigure21Row(own.model, own.data, own.step.number, exponent, count, count / total)
            for exponent, count in counts.items()
        ]
    tick(1.0)
    return found


def exponents(x: VectorValues) -> dict[int | None, int]:
    """How many values lie in [2^e, 2^(e+1)), by e; under None, how many are 0."""
    magnitudes = np.abs(x[x != 0])
    own, counts = np.unique(np.frexp(magnitudes)[1] - 1, return_counts=True)
    zeros = {None: x.size - magnitudes.size} if magnitudes.size < x.size else {}
    return {**zeros, **dict(zip(own.tolist(), counts.tolist(), strict=True))}
