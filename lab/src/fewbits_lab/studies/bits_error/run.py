r"""The one figure: bits per coordinate against error, operators and baselines on a Gaussian vector.

A size is the length of a whole frame, or of a baseline's whole message; an error is
$|C(x) - x|^2 / |x|^2$ of the decoded vector. Nothing is from a formula but the lower bound: $b$
bits per coordinate cannot give a relative error below $4^{-b}$ (Albasyoni et al., 2020).
"""

import math
from dataclasses import dataclass

import numpy as np

import fewbits
from fewbits_lab import baselines, vectors
from fewbits_lab.baselines import BASELINES
from fewbits_lab.experiment import StudySettings, Tick
from fewbits_lab.vectors import VectorMeasure

DIMENSION, _QUICK = 1_000_000, 1 << 17
_SPECS = (
    "identity",
    "float16",
    "bfloat16",
    "natural",
    "natural:rounding=nearest",
    "natural:coder=rans",
    "natural-dithering",
    "standard-dithering",
    "standard-dithering:p=2,levels=1000,coder=rans",
    "sparse-dithering",
    "sparse-dithering:rounding=stochastic",
    "sparse-dithering:rounding=subtractive",
    "sparse-dithering:nu=1,scale=least-squares",
    "trellis:nu=0.32,rounding=subtractive",
    "trellis:scale=least-squares",
    "hadamard:signs=private|sparse-dithering:nu=1.5,scale=matched",
    "spherical",
    "spherical:scale=unbiased",
    "sign",
    "top-k:fraction=0.01|natural",
    "rand-k:fraction=0.01|natural",
    "hadamard|natural",
)
TRELLIS_CURVE, TRELLIS_FIT_CURVE = "trellis", "trellis, least squares"
CURVES = {
    "least squares": "sparse-dithering:nu={},scale=least-squares",
    "subtractive": "sparse-dithering:nu={},rounding=subtractive",
    "stochastic": "sparse-dithering:nu={},rounding=stochastic",
    TRELLIS_CURVE: "trellis:nu={},rounding=subtractive",
    TRELLIS_FIT_CURVE: "trellis:nu={},scale=least-squares",
}
_NUS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.5, 1, 2, 4)
# Levels have at most 16 bits, and what is rounded to the nearest level must lose less than it has.
_RANGES = {TRELLIS_CURVE: (0.0003, 4), TRELLIS_FIT_CURVE: (0.0003, 0.5)}
OPERATOR, BASELINE = "operator", "baseline"  # or the name of a curve


@dataclass(frozen=True, slots=True)
class BitsErrorRow:
    """`above_bound`: bits beyond those that the error needs at least; None where it is 0."""

    kind: str
    operator: str
    unbiased: bool
    d: int
    frame_bytes: int
    bits_per_coordinate: float
    relative_squared_error: float
    above_bound: float | None


def rows(settings: StudySettings, tick: Tick) -> list[BitsErrorRow]:
    """Operators first, then curves, then baselines."""
    d = _QUICK if settings.quick else DIMENSION
    x = vector(d, settings.seed)
    cases = [(OPERATOR, spec) for spec in _SPECS]
    for curve, template in CURVES.items():
        low, high = _RANGES.get(curve, (0, math.inf))
        cases += [(curve, template.format(nu)) for nu in _NUS if low <= nu <= high]
    found = []
    for part, (kind, spec) in enumerate(cases, 1):
        unbiased = fewbits.operator(spec).guarantee(d).unbiased
        found.append(_row(kind, spec, vectors.measure(spec, x, settings.seed), d, unbiased))
        tick(part / (len(cases) + len(BASELINES)))
    for own in BASELINES:
        measured = baselines.measure(own, x, settings.seed)
        found.append(_row(BASELINE, own.name, measured, d, unbiased=True))
    return found


def vector(d: int, seed: int) -> vectors.VectorValues:
    """Standard normal values, drawn as float32."""
    return np.random.default_rng(seed).standard_normal(d, dtype=np.float32)


def _row(kind: str, name: str, measured: VectorMeasure, d: int, unbiased: bool) -> BitsErrorRow:
    bits, error = measured
    least = math.log(1 / error, 4) if error else None
    above = None if least is None else bits - max(0.0, least)
    return BitsErrorRow(kind, name, unbiased, d, round(bits * d / 8), bits, error, above)
