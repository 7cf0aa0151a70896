"""Errors on recorded gradients at equal measured bytes: every operator against baselines."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING

import fewbits
from fewbits.lab import baselines, figures, fitting, vectors
from fewbits.lab.baselines import Baseline, Eden, Fp8, Integers
from fewbits.lab.experiment import Experiment, Settings, Tick
from fewbits.lab.fitting import Knob
from fewbits.lab.gradients import Recorded, last_of_each
from fewbits.lab.vectors import Measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# By nominal bits. The shortest message of a line is what our frames may have at most.
BUDGETS: dict[int, tuple[Baseline, ...]] = {
    1: (Eden(1),),
    2: (Eden(2),),
    4: (Eden(4), Integers(4)),
    8: (Integers(8), Fp8()),
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
class Row:
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


def rows(settings: Settings, tick: Tick) -> list[Row]:
    """Every model's last gradient, at every budget; quick: of the largest layer, cut short."""
    found: list[Row] = []
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


def _vector(own: Recorded, name: str, settings: Settings) -> vectors.Values:
    if name == WHOLE:
        return own.vector
    layer = max(own.step.gradients.values(), key=lambda layer: layer.size).ravel()
    return layer[:_QUICK_VALUES] if settings.quick else layer


def _at(own: Recorded, vector: str, budget: int, settings: Settings) -> Iterator[Row]:
    x = _vector(own, vector, settings)
    seeds = range(settings.seed, settings.seed + (_QUICK_SEEDS if settings.quick else _SEEDS))

    def row(name: str, spec: str, bias: str, measured: Sequence[Measured]) -> Row:
        errors = [one.error for one in measured]
        return Row(
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


def _fitting(x: vectors.Values, room: int, settings: Settings) -> Iterator[tuple[str, str]]:
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


def findings(table: Sequence[Row]) -> list[str]:
    """The best without bias against the best baseline, and who falls behind it."""
    cases = dict.fromkeys((row.vector, row.budget) for row in table)
    return [
        _finding(vector, budget, [r for r in table if (r.vector, r.budget) == (vector, budget)])
        for vector, budget in cases
    ]


def _finding(vector: str, budget: int, own: Sequence[Row]) -> str:
    ratios, behind = [], []
    for model in dict.fromkeys(row.model for row in own):
        mine = [row for row in own if row.model == model]
        best = min((row for row in mine if row.baseline), key=lambda row: row.error)
        ours = [row for row in mine if not row.baseline]
        first = min((row for row in ours if row.bias != "yes"), key=lambda row: row.error)
        ratios.append(
            f"{model}: {first.operator} {first.error:.2g}, {best.operator} {best.error:.2g}, "
            f"{best.error / first.error:.1f} times"
        )
        behind += [row.operator for row in ours if row.error > best.error]
    names = "; ".join(dict.fromkeys(behind)) or "none"
    return (
        f"{vector.capitalize()}, {budget} bit{'s' if budget > 1 else ''}: our best without bias, "
        f"or nearly so, and the best baseline: {'; '.join(ratios)}. Behind that baseline on some "
        f"model: {names}."
    )


def draw(table: Sequence[Row]) -> "Figure":
    """A plot for each budget: operators down the side, errors of the models as markers."""
    order = list(dict.fromkeys(row.operator for row in sorted(table, key=_place)))
    drawn, plots = figures.panels(
        "Errors on gradients at equal measured bytes", len(BUDGETS), width=12.5, height=6
    )
    for plot, budget in zip(plots, BUDGETS, strict=True):
        own = [row for row in table if row.budget == budget]
        _errors(plot, own, order)
        figures.names(plot, order)
        plot.set_xscale("log")
        plot.set_xlabel("relative squared error (log)")
        plot.set_title(f"{budget} bit{'s' if budget > 1 else ''} a value", fontsize=10)
        low, high = (end(row.error for row in own) for end in (min, max))
        plot.set_xlim(10 ** (math.log10(low) - 0.3), 10 ** (math.log10(high) + 0.3))
    for plot in plots[1:]:
        plot.set_yticklabels([])
    plots[0].plot([], [], ":", color="black", label="best baseline on that layer")
    drawn.legend(*plots[0].get_legend_handles_labels(), loc="outside lower left", ncols=4)
    return drawn


def _errors(plot: "Axes", own: Sequence[Row], order: Sequence[str]) -> None:
    for colour, marker, model in zip(
        figures.COLOURS, figures.MARKERS, dict.fromkeys(row.model for row in own), strict=False
    ):
        for vector in dict.fromkeys(row.vector for row in own):
            mine = [row for row in own if (row.model, row.vector) == (model, vector)]
            plot.plot([row.error for row in mine], [order.index(row.operator) for row in mine],
                      marker, ls="none", color=colour, label=f"{model}, {vector}",
                      mfc=colour if vector == LAYER else "none")  # fmt: skip
            if vector == LAYER:
                best = min(row.error for row in mine if row.baseline)
                plot.axvline(best, color=colour, ls=":", lw=1)


def _place(row: Row) -> tuple[bool, int, int]:
    """Baselines first, then ours as listed."""
    names = [*KNOBS, *FIXED]
    return not row.baseline, 0 if row.baseline else names.index(row.operator), row.budget


EXPERIMENT = Experiment(
    name="equal-bytes",
    title="Recorded gradients: errors at equal measured bytes",
    about="The last recorded gradient of each model: of its largest layer, as training compresses "
    "it, and of the whole model as one vector. The latter favours codes that spend bits where the "
    "norm is, because layers differ much in scale. Baselines send whole messages with scales and "
    "keys; every operator has the finest setting whose whole frame is not longer than the shortest "
    "baseline's message of that line with the first seed (with others frames are up to 0.7 % "
    "longer), so int4, with its scales, has 3 % more bytes than ours. Operators that cannot use "
    "half of the bytes are left out, as are those that need more (natural without a coder, "
    "float16). Some of ours are biased, which the table says.",
    row=Row,
    compute=rows,
    draw=draw,
    findings=findings,
)
