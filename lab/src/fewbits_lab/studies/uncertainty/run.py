r"""The uncertainty principle, $\alpha\, 4^{b/d} \ge 1$, at every operator's measured worst case.

$b$ is the longest frame and α the largest mean error over vectors of many kinds; an unbiased
operator counts with $\omega / (1 + \omega)$.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import fewbits
from fewbits import registry
from fewbits.theory import uncertainty
from fewbits_lab import vectors
from fewbits_lab.experiment import StudySettings, Tick

DIMENSIONS = (100, 1000, 10_000)
_TRIALS, _QUICK = 12, 2
_MORE = (
    "natural-dithering:p=2,levels=4",
    "standard-dithering:p=2,levels=1,coder=rans",
    "standard-dithering:p=2,levels=8,coder=rans",
    "sparse-dithering:nu=0.01",
    "sparse-dithering:nu=1",
    "sparse-dithering:nu=4,scale=least-squares",
    "spherical:alpha=0.9,block=32",
    "top-k:fraction=0.01|natural",
    "top-k:fraction=0.01|sign",
    "rand-k:fraction=0.01|natural",
    "hadamard|sign",
    "hadamard|sparse-dithering:nu=1,scale=least-squares",
)


@dataclass(frozen=True, slots=True)
class UncertaintyRow:
    """A row; the product is None if the operator lost nothing, or kept nothing of some vector."""

    operator: str
    d: int
    unbiased: bool
    bits_per_value: float
    error: float
    worst_on: str
    alpha: float
    product: float | None


def rows(settings: StudySettings, tick: Tick) -> list[UncertaintyRow]:
    """Every operator that the registry offers, and some that are sparser or finer."""
    dimensions = DIMENSIONS[:1] if settings.quick else DIMENSIONS
    found = []
    cases = [(d, spec) for d in dimensions for spec in specs(d)]
    kinds = {d: vectors.families(d, settings.seed) for d in dimensions}
    trials = _QUICK if settings.quick else _TRIALS
    for part, (d, spec) in enumerate(cases, 1):
        found.append(worst(spec, kinds[d], range(settings.seed, settings.seed + trials)))
        tick(part / len(cases))
    return found


def specs(d: int) -> list[str]:
    """The specs of all operators and of their aliases."""
    return [*registry.all_example_specs(d), *registry.catalogue().aliases, *_MORE]


def worst(
    spec: str, kinds: dict[str, vectors.VectorValues], seeds: Sequence[int]
) -> UncertaintyRow:
    """The longest frame of any vector, and the largest mean error of any."""
    operator = fewbits.operator(spec)
    bits, errors = 0.0, {}
    d = len(next(iter(kinds.values())))
    for name, x in kinds.items():
        measured = [vectors.measure(spec, x, seed) for seed in seeds]
        bits = max(bits, *(one.bits for one in measured))
        errors[name] = float(np.mean([one.error for one in measured]))
    name = max(errors, key=errors.__getitem__)
    unbiased = operator.guarantee(d).unbiased
    error = errors[name]
    alpha = error / (1 + error) if unbiased else error
    product = uncertainty.uncertainty_product(alpha, bits, 1) if 0 < alpha < 1 else None
    return UncertaintyRow(operator.spec, d, unbiased, bits, error, name, alpha, product)
