"""Errors on recorded gradients at equal measured bytes: every operator against baselines."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import fewbits
from fewbits_lab import baselines, fitting, vectors
from fewbits_lab.baselines import Baseline, Eden, Fp8, IntegerBlocks
from fewbits_lab.experiment import StudySettings, Tick
from fewbits_lab.fitting import Knob
from fewbits_lab.recordings.gradients import RecordedModel, last_of_each
from fewbits_lab.vectors import VectorMeasure

# By nominal bits. The shortest message of a line is what our frames may have at most.
BUDGETS: dict[int, tuple[Baseline, ...]] = {
    1: (Eden(1),),
    2: (Eden(2),),
    4: (Eden(4), IntegerBlocks(4)),
    8: (IntegerBlocks(8), Fp8()),
}
# Numbers that are whole are rounded by the format.
KNOBS = {
    "sparse, least squares": Knob("sparse-dithering:nu={:.6g},scale=least-squares", 60, 1e-5),
    "sparse, stochastic": Knob("sparse-dithering:nu={:.6g},rounding=stochastic", 60, 1e-5),
    "sparse, subtractive": Knob("sparse-dithering:nu={:.6g},rounding=subtractive", 60, 1e-5),
    "sparse, matched, rotated": Knob(
        "hadamard:signs=private|sparse-dithering:nu={:.6g},scale=matched", 60, 1e-5
    ),
    "standard dithering": Knob("standard-dithering:p=2,levels={:.0f},coder=rans", 1, 60_000),
    "natural dithering": Knob("natural-dithering:levels={:.0f},coder=rans", 1, 60),
    "top-k, natural": Knob("top-k:fraction={:.6g}|natural:coder=rans", 1e-4, 1),
    "rand-k, natural": Knob("rand-k:fraction={:.6g}|natural:coder=rans", 1e-4, 1),
    "spherical": Knob("spherical:alpha={:.6g}", 0.95, 0.4),
}
FIXED = {
    "sign": "sign",
    "natural": "natural:coder=rans",
    "natural, nearest": "natural:rounding=nearest,coder=rans",
}
LAYER, WHOLE = "largest layer", "whole model"
_USED = 0.5  # an operator that leaves more of the bytes unused cannot use them
_NEARLY = ("sparse, matched, rotated",)  # unbiased over rotations but for what a quantiser drops
_SEEDS, _QUICK_SEEDS, _QUICK_HALVINGS = 3, 1, 11
_QUICK_VALUES = 1 << 18


@dataclass(frozen=True, slots=True)
class EqualBytesRow:
    """`error` is the mean over seeds, `deviation` their standard deviation (None with one seed).

    `bias` is "no", "nearly none" or "yes"; `budget` are nominal bits, `bits` those measured.
    """

    model: str
    data: str
    step: int
    vector: str
    values: int
    budget: int
    operator: str
    spec: str
    baseline: bool
    bias: str
    bits: float
    error: float
    deviation: float | None
    seeds: int


def rows(settings: StudySettings, tick: Tick) -> list[EqualBytesRow]:
    """Every model's last gradient, at every budget; quick: of the largest layer, cut short."""
    found: list[EqualBytesRow] = []
    cases = [
        (own, name, budget)
        for own in last_of_each(settings)
        for name in ((LAYER,) if settings.quick else (LAYER, WHOLE))
        for budget in BUDGETS
    ]
    for part, (own, name, budget) in enumerate(cases, 1):
        found += _at(own, name, budget, settings)
        tick(part / len(cases))
    return found


def _vector(own: RecordedModel, name: str, settings: StudySettings) -> vectors.VectorValues:
    if name == WHOLE:
        return own.vector
    layer = max(own.step.gradients.values(), key=lambda layer: layer.size).ravel()
    return layer[:_QUICK_VALUES] if settings.quick else layer


def _at(
    own: RecordedModel, vector: str, budget: int, settings: StudySettings
) -> Iterator[EqualBytesRow]:
    x = _vector(own, vector, settings)
    seeds = range(settings.seed, settings.seed + (_QUICK_SEEDS if settings.quick else _SEEDS))

    def row(name: str, spec: str, bias: str, measured: Sequence[VectorMeasure]) -> EqualBytesRow:
        errors = [one.error for one in measured]
        return EqualBytesRow(
            model=own.model,
            data=own.data,
            step=own.step.number,
            vector=vector,
            values=x.size,
            budget=budget,
            operator=name,
            spec=spec,
            baseline=not spec,
            bias=bias,
            bits=max(one.bits for one in measured),
            error=fmean(errors),
            deviation=stdev(errors) if len(errors) > 1 else None,
            seeds=len(errors),
        )

    for other in BUDGETS[budget]:
        bias = "nearly none" if isinstance(other, Eden) else "no"
        yield row(other.name, "", bias, [baselines.measure(other, x, seed) for seed in seeds])
    room = min(len(other.encode(x, settings.seed)) for other in BUDGETS[budget])
    for name, spec in _fitting(x, room, settings):
        unbiased = fewbits.operator(spec).guarantee(x.size).unbiased
        bias = "nearly none" if name in _NEARLY else "no" if unbiased else "yes"
        yield row(name, spec, bias, [vectors.measure(spec, x, seed) for seed in seeds])


def _fitting(
    x: vectors.VectorValues, room: int, settings: StudySettings
) -> Iterator[tuple[str, str]]:
    """Every operator that can use the bytes, with the finest setting that fits."""
    size = fitting.frame_size(x, settings.seed)
    halvings = _QUICK_HALVINGS if settings.quick else fitting.HALVINGS
    for name, knob in KNOBS.items():
        if name == "spherical" and 8 * room > 1.1 * x.size:
            continue  # it tries directions, exponentially many in the bits of a block
        spec = fitting.finest(size, knob, room, halvings)
        if spec is not None and size(spec) >= _USED * room:
            yield name, spec
    for name, spec in FIXED.items():
        if _USED * room <= size(spec) <= room:
            yield name, spec
