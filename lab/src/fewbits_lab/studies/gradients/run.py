"""Entropy of what `natural` sends for recorded gradients, by layer and step."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fewbits_lab import vectors
from fewbits_lab.coders import comparison as coding
from fewbits_lab.experiment import StudySettings, Tick
from fewbits_lab.recordings.gradients import RecordedModel, recorded
from fewbits_lab.vectors import VectorValues

ALL, GRADIENTS_SMALL = "whole model", "small layers together"
LEAST = 4096  # values of a layer with a row of its own


@dataclass(frozen=True, slots=True)
class GradientsRow:
    """A layer's exponents as `natural` sends them. Bits are for a value.

    `entropy` is that of single exponents, signs not counted; `rans_bits` is the whole frame of
    `natural:coder=rans`, signs, tables, header and checksum included.
    """

    model: str
    data: str
    step: int
    layer: str
    values: int
    zeros: float
    distinct: int
    entropy: float
    rans_bits: float
    error: float


def rows(settings: StudySettings, tick: Tick) -> list[GradientsRow]:
    """The whole model and its layers, at every recorded step."""
    found = []
    every = recorded(settings)
    for part, own in enumerate(every, 1):
        found += [_row(own, name, x, settings.seed) for name, x in layers(own.step.gradients)]
        tick(part / len(every))
    return found


def layers(gradients: dict[str, VectorValues]) -> Iterator[tuple[str, VectorValues]]:
    """Everything, each large parameter, and what is left; none whose gradient is all 0."""
    flat = {name: own.ravel() for name, own in gradients.items()}
    large = {name: own for name, own in flat.items() if own.size >= LEAST}
    small = [own for own in flat.values() if own.size < LEAST]
    named = {ALL: np.concatenate(list(flat.values())), **large}
    if small:
        named[GRADIENTS_SMALL] = np.concatenate(small)
    return ((name, own) for name, own in named.items() if own.any())


def _row(own: RecordedModel, layer: str, x: VectorValues, seed: int) -> GradientsRow:
    known = coding.described(layer, coding.exponents(x))
    bits, error = vectors.measure("natural:coder=rans", x, seed)
    return GradientsRow(
        model=own.model,
        data=own.data,
        step=own.step.number,
        layer=layer,
        values=x.size,
        zeros=known.zeros,
        distinct=known.distinct,
        entropy=known.entropy,
        rans_bits=bits,
        error=error,
    )
