r"""The best fixed levels for standard normal numbers (Lloyd, 1982; Max, 1960).

Level $c_i$ is the mean of its cell, and cells end half-way between levels. With $D$ the mean
squared error, $E\, c(z)^2 = E\, z\, c(z) = 1 - D$.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_STEPS, _STILL = 20_000, 1e-14
LloydMaxLevels = npt.NDArray[np.float64]


class Quantiser(NamedTuple):
    """Levels and the ends of their cells, in order, and the mean squared error."""

    levels: LloydMaxLevels
    cuts: LloydMaxLevels
    error: float


@cache
def quantiser(bits: int) -> Quantiser:
    """The quantiser of 2^bits levels."""
    levels = np.linspace(-2, 2, 1 << bits)
    mass = np.empty_like(levels)
    for _ in range(_STEPS):
        ends = [-math.inf, *((levels[1:] + levels[:-1]) / 2).tolist(), math.inf]
        mass = np.diff([0.5 * (1 + math.erf(end / math.sqrt(2))) for end in ends])
        density = [math.exp(-end * end / 2) / math.sqrt(2 * math.pi) for end in ends]
        before, levels = levels, -np.diff(density) / mass
        if np.abs(levels - before).max() < _STILL:
            break
    return Quantiser(levels, (levels[1:] + levels[:-1]) / 2, float(1 - mass @ levels**2))
