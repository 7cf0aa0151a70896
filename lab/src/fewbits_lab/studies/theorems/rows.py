"""A row: what is claimed, what a formula gives, what frames gave, and the verdict."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

import fewbits
from fewbits_lab import vectors
from fewbits_lab.vectors import VectorValues

_SIGMAS = 4.0  # standard errors: an honest row is beyond them once in 30,000
_TIGHT = 0.03  # a share: a bound that is met this closely is called tight

Relation = Literal["equals", "at most", "at least"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TheoremRow:
    """One claim on one vector. `deviation` is the standard error of what was measured.

    `relation` says how measured must stand to formula; `share` is what of the formula a difference
    may be besides, where a size has whole bytes in it.
    """

    paper: str
    where: str
    statement: str
    operator: str
    vector: str
    d: int
    claimed: str
    formula: float
    measured: float
    deviation: float
    relation: str
    share: float
    verdict: str


class Sampled(NamedTuple):
    """A mean over frames and its standard error."""

    mean: float
    deviation: float = 0.0


def sampled(values: Sequence[float]) -> Sampled:
    """The mean of independent values; one value has no known error."""
    if len(values) < 2:
        return Sampled(values[0])
    return Sampled(fmean(values), stdev(values) / len(values) ** 0.5)


def noise(spec: str, x: VectorValues, draws: int, seed: int) -> Sampled:
    """The mean of |C(x) - x|² / |x|² over frames with different seeds."""
    return sampled([vectors.measure(spec, x, seed + draw).error for draw in range(draws)])


def decoded(spec: str, x: VectorValues, seed: int) -> VectorValues:
    """What a frame gives back."""
    back: VectorValues = fewbits.decompress(fewbits.compress(x, spec, seed=seed))
    return back


def stated_omega(spec: str, d: int) -> float:
    """The operator's ω for d values; an exact operator has 0."""
    guarantee = fewbits.operator(spec).guarantee(d)
    assert guarantee.unbiased or guarantee.alpha == 0, f"{spec} is biased"
    return guarantee.omega or 0.0


def row(
    paper: str,
    where: str,
    statement: str,
    *,
    operator: str,
    vector: str,
    d: int,
    claimed: str,
    formula: float,
    measured: Sampled,
    relation: Relation = "at most",
    share: float = 0.0,
) -> TheoremRow:
    """A row with its verdict."""
    return TheoremRow(
        paper=paper,
        where=where,
        statement=statement,
        operator=operator,
        vector=vector,
        d=d,
        claimed=claimed,
        formula=formula,
        measured=measured.mean,
        deviation=measured.deviation,
        relation=relation,
        share=share,
        verdict=judged(relation, formula, measured, share),
    )


def judged(relation: Relation, formula: float, measured: Sampled, share: float) -> str:
    """Whether it holds, and whether the bound is reached."""
    room = _SIGMAS * measured.deviation + (share + 1e-6) * abs(formula)
    above, below = measured.mean - formula, formula - measured.mean
    missed = {"equals": abs(above), "at most": above, "at least": below}[relation] > room
    if missed:
        return "does not hold"
    if relation != "equals" and abs(above) <= _TIGHT * abs(formula) + room:
        return "holds, tight"
    return "holds"


def signed(magnitudes: npt.NDArray[np.floating], seed: int) -> VectorValues:
    """Magnitudes in a random order with random signs."""
    rng = np.random.default_rng(seed)
    mixed = rng.permutation(magnitudes) * rng.choice([-1.0, 1.0], magnitudes.size)
    values: VectorValues = mixed.astype(np.float32)
    return values


def four_thirds(d: int, seed: int, factor: float = 1.0) -> VectorValues:
    """Values 4/3 of a power of two: where natural compression is at its worst."""
    powers = 2.0 ** np.random.default_rng(seed).integers(-3, 4, d)
    return signed(4 / 3 * factor * powers, seed)
