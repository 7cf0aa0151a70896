r"""Figures 16 to 18 of the paper on natural compression: variance on a Gaussian vector.

The variance of dithering is $\sum_i (y_i - l)(u - y_i) \|x\|_p^2 / \|x\|^2$ with the levels
$l \le y_i \le u$ next to $y_i = |x_i| / \|x\|_p$. `ours` is that; `measured` is one frame.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits_lab import vectors
from fewbits_lab.experiment import StudySettings, Tick
from fewbits_lab.printed import Comparison, agrees

_D = 100_000
_WITHIN = 0.03  # another vector was drawn, and some values were read off a figure
_NORMS = (1.0, 2.0, math.inf)
DEEPEST = 16  # the largest s of the curves
_MOST = {"natural-dithering": 127, "standard-dithering": 32_767}  # levels that frames can have


class Print(NamedTuple):
    """A printed value, and the reason if it does not reproduce."""

    text: str
    reason: str = ""


_PRINTED = {
    ("natural-dithering", 1.0, 16): Print("0.966"),
    ("standard-dithering", 1.0, 2**15): Print("0.968"),
    ("natural-dithering", 2.0, 8): Print("0.993"),
    ("standard-dithering", 2.0, 2**7): Print("0.993"),
    ("natural-dithering", math.inf, 3): Print("0.22"),
    ("standard-dithering", math.inf, 4): Print("0.212"),
    ("standard-dithering", 2.0, 16): Print("14.8"),
    ("standard-dithering", 1.0, 32): Print("2000"),
    ("natural-dithering", math.inf, 5): Print("0.085"),
    ("natural-dithering", math.inf, 32): Print("0.082"),
    ("standard-dithering", math.inf, 5): Print(
        "0.217", "the label looks wrong: 4 levels give 0.21, 5 do not"
    ),
    ("standard-dithering", math.inf, 32): Print(
        "0.053", "the label looks wrong: 8 levels give 0.0525, 32 do not"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NcFigures1618Row(Comparison):
    """One operator: its exact variance on the vector, and the error of one frame."""

    operator: str
    p: str
    s: int
    measured: float
    frame_levels: int


def rows(settings: StudySettings, tick: Tick) -> list[NcFigures1618Row]:
    """The printed cells, and curves over the number of levels."""
    x = vectors.gaussian(_D, settings.seed)
    wanted = dict.fromkeys(_PRINTED)
    depths = range(1, DEEPEST + 1, 3 if settings.quick else 1)
    for p in _NORMS:
        for s in depths:
            wanted |= dict.fromkeys(
                [
                    ("natural-dithering", p, s),
                    ("standard-dithering", p, s),
                    ("standard-dithering", p, 2 ** (s - 1)),
                ]
            )
    found = []
    for part, (operator, p, s) in enumerate(sorted(wanted), 1):
        found.append(_row(x, operator, p, s, settings.seed))
        tick(part / len(wanted))
    return found


def _row(x: vectors.VectorValues, operator: str, p: float, s: int, seed: int) -> NcFigures1618Row:
    levels = min(s, _MOST[operator])
    printed = _PRINTED.get((operator, p, s))
    ours = variance(x.astype(np.float64), operator, p, s)
    spec = f"{operator}:p={p:g},levels={levels}"
    return NcFigures1618Row(
        operator=operator,
        p="∞" if p == math.inf else f"{p:g}",
        s=s,
        printed=printed.text if printed else None,
        ours=ours,
        reproduces=agrees(ours, printed.text, within=_WITHIN) if printed else None,
        reason=printed.reason if printed else "",
        measured=vectors.measure(spec, x, seed).error,
        frame_levels=levels,
    )


def variance(x: npt.NDArray[np.float64], operator: str, p: float, s: int) -> float:
    """Exact, for this vector."""
    norm = float(np.linalg.norm(x, p))
    grid = np.arange(s + 1) / s
    if operator == "natural-dithering":
        grid = np.concatenate([[0.0], 2.0 ** np.arange(1 - s, 1)])
    y = np.minimum(np.abs(x) / norm, 1.0)
    above = np.clip(np.searchsorted(grid, y, "right"), 1, s)
    terms = (y - grid[above - 1]) * (grid[above] - y)
    return float(np.sum(terms) * norm**2 / np.sum(x**2))
