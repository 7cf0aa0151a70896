"""Sweeps of ν and ω: iterations and bytes in all, biased against unbiased sparse dithering."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

import fewbits
from fewbits.lab import descent, figures
from fewbits.lab.descent import Quadratic, Sent, Vector
from fewbits.lab.experiment import Experiment, Settings, Tick

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

D, CONDITION = 512, 50.0
NUS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_QUICK_NUS = (0.02, 0.1, 0.25, 1.0)
ROUNDINGS = {
    "nearest": "biased",
    "stochastic": "unbiased",
    "subtractive": "unbiased, shared noise",
}


@dataclass(frozen=True, slots=True)
class Row:
    """Means over the seeds. Bytes are whole frames.

    `predicted` is what rates predict: 1/(1 - ν) or 1 + ω times the steps without compression,
    nothing where it promises nothing. `lost` counts runs that did not reach the target.
    """

    rounding: str
    nu: float
    omega: float | None
    steps: float | None
    predicted: float | None
    bytes_paper: float | None
    bytes_rans: float | None
    times_less_paper: float | None
    times_less_rans: float | None
    lost: int
    runs: int


def rows(settings: Settings, tick: Tick) -> list[Row]:
    """Without compression first, then every rounding with every ν."""
    seeds = range(settings.seed, settings.seed + (1 if settings.quick else 3))
    problems = [Quadratic.random(D, CONDITION, seed) for seed in seeds]
    plain = [descent.plain_steps(problem) for problem in problems]
    whole = fmean(plain) * 4 * D
    found = [Row("none", 0.0, None, fmean(plain), None, whole, whole, 1.0, 1.0, 0, len(plain))]
    nus = _QUICK_NUS if settings.quick else NUS
    cases = [(rounding, nu) for rounding in ROUNDINGS for nu in nus]
    for part, (rounding, nu) in enumerate(cases, 1):
        found.append(_row(rounding, nu, problems, plain))
        tick(part / len(cases))
    return found


def _row(rounding: str, nu: float, problems: Sequence[Quadratic], plain: Sequence[int]) -> Row:
    spec = f"sparse-dithering:nu={nu},rounding={rounding}"
    guarantee = fewbits.operator(spec).guarantee(D)
    omega = guarantee.omega
    grown = 1 + omega if omega is not None else 1 / (1 - nu) if nu < 1 else None
    step = 1.0 if omega is None else 1 / (1 + omega)

    def compress(gradient: Vector, number: int) -> Sent:
        narrow = gradient.astype(np.float32)
        frame = fewbits.compress(narrow, spec, seed=number)
        paper = 0
        if rounding != "subtractive":
            paper = len(fewbits.compress(narrow, f"{spec},coder=paper", seed=number))
        return Sent(fewbits.decompress(frame).astype(np.float64), (8.0 * paper, 8.0 * len(frame)))

    pairs = list(zip(problems, plain, strict=True))
    runs = [descent.descend(one, compress, step, descent.patience(base)) for one, base in pairs]
    reached = [run for run in runs if run.steps is not None]
    lost = len(runs) - len(reached)
    whole = fmean(plain) * 4 * D
    if lost:
        return Row(rounding, nu, omega, None, None, None, None, None, None, lost, len(runs))
    paper, rans = (fmean(run.bits[kind] for run in reached) / 8 for kind in (0, 1))
    has_paper = rounding != "subtractive"
    return Row(
        rounding=rounding,
        nu=nu,
        omega=omega,
        steps=fmean(run.steps or 0 for run in reached),
        predicted=grown * fmean(plain) if grown is not None else None,
        bytes_paper=paper if has_paper else None,
        bytes_rans=rans,
        times_less_paper=whole / paper if has_paper else None,
        times_less_rans=whole / rans,
        lost=lost,
        runs=len(runs),
    )


def findings(table: Sequence[Row]) -> list[str]:
    """What ν and ω cost in iterations and save in bytes, and whether bias pays."""
    plain = table[0].steps or 0.0
    found = []
    for rounding, kind in ROUNDINGS.items():
        mine = [row for row in table if row.rounding == rounding and row.times_less_rans]
        best = max(mine, key=lambda row: row.times_less_rans or 0.0)
        first, last = mine[0], mine[-1]
        found.append(
            f"Iterations and bytes (research question 3), {rounding} rounding ({kind}): from "
            f"ν = {first.nu:g} to {last.nu:g} steps go from {_ratio(first.steps, plain)} to "
            f"{_ratio(last.steps, plain)} times those without compression. Bytes in all are fewest "
            f"at ν = {best.nu:g}, {best.times_less_rans:.1f} times fewer than without."
        )
    pairs = _pairs(table)
    more = [(one.bytes_rans or 0.0) / (other.bytes_rans or 1.0) for one, other in pairs]
    slower = sum((one.steps or 0.0) > (other.steps or 0.0) for one, other in pairs)
    found.append(
        "Biased or unbiased (research question 5): with one worker and exact gradients unbiased "
        f"(stochastic) rounding sends {min(more):.2f} to {max(more):.2f} times what nearest "
        f"rounding sends, for ν up to {pairs[-1][0].nu:g}, and takes more steps at {slower} of "
        f"{len(pairs)} values of ν. Noise of several workers averages out and bias does not, so "
        "this says nothing about many."
    )
    return found


def _pairs(table: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Stochastic and nearest rounding with equal ν, where both reach the target."""
    nearest = {row.nu: row for row in table if row.rounding == "nearest" and row.steps}
    own = [row for row in table if row.rounding == "stochastic" and row.steps]
    return [(row, nearest[row.nu]) for row in own if row.nu in nearest]


def _ratio(steps: float | None, plain: float) -> str:
    return f"{(steps or 0.0) / plain:.2f}"


def draw(table: Sequence[Row]) -> "Figure":
    """Steps on the left, bytes on the right, against ν."""
    drawn, (left, right) = figures.panels(
        "Sparse dithering on a quadratic: biased against unbiased rounding",
        2,
        width=11.5,
        height=5,
    )
    plain = table[0]
    for colour, marker, (rounding, kind) in zip(
        figures.COLOURS, figures.MARKERS, ROUNDINGS.items(), strict=False
    ):
        mine = [row for row in table if row.rounding == rounding and row.steps]
        name = f"{rounding} ({kind})"
        nus = [row.nu for row in mine]
        left.plot(nus, [row.steps or 0 for row in mine], color=colour, marker=marker, label=name)
        kept = [row for row in mine if row.predicted]
        left.plot([row.nu for row in kept], [row.predicted or 0 for row in kept], ":", color=colour)
        _bytes(right, mine, colour, marker, name)
    left.axhline(plain.steps or 0, color="black", lw=1)
    left.annotate("no compression", (NUS[-1], plain.steps or 0), (0, 4), ha="right",
                  textcoords="offset points", fontsize=9)  # fmt: skip
    left.set_title("iterations (log scale; dotted: predicted by 1/(1 − ν) or 1 + ω)", fontsize=10)
    left.set_ylabel("steps to 10⁻⁴ of the first error")
    left.set_yscale("log")
    steps = [row.steps for row in table if row.steps]
    left.set_ylim(min(steps) / 1.4, 1.3 * max(steps))
    figures.plain_ticks(left.yaxis, [t for t in (100, 150, 200, 300, 500, 700, 1000, 2000, 3000)
                                     if min(steps) / 1.4 <= t <= 1.3 * max(steps)])  # fmt: skip
    stalled = [row.nu for row in table if row.lost]
    if stalled:
        left.annotate(f"nearest, ν ≥ {min(stalled):g}:\nstalls", (min(stalled), 0.8 * min(steps)),
                      color=figures.BLUE, ha="center", va="center", fontsize=9)  # fmt: skip
    right.set_title("total bytes, as a saving: higher is better", fontsize=10)
    right.set_ylabel("times fewer bytes in all than 32 bits a value")
    right.set_ylim(0)
    for plot in (left, right):
        plot.set_xscale("log")
        figures.plain_ticks(plot.xaxis, (0.01, 0.1, 1, 10))
        plot.set_xlim(NUS[0] / 1.3, NUS[-1] * 1.3)
        plot.set_xlabel("ν, which sets the grid (log scale)")
    right.plot([], [], "--", color="black", lw=1, label="dashed: the paper's coder")
    drawn.legend(*right.get_legend_handles_labels(), loc="outside lower left", ncols=4, fontsize=9)
    return drawn


def _bytes(plot: "Axes", mine: Sequence[Row], colour: str, marker: str, name: str) -> None:
    nus = [row.nu for row in mine]
    rans = [row.times_less_rans or 0 for row in mine]
    plot.plot(nus, rans, color=colour, marker=marker, label=name)
    paper = [row for row in mine if row.times_less_paper]
    plot.plot([row.nu for row in paper], [row.times_less_paper or 0 for row in paper],
              "--", color=colour, lw=1.2)  # fmt: skip


EXPERIMENT = Experiment(
    name="oc-sweep",
    title="Optimal compression, sweeps of ν and ω",
    about="Gradient descent with one worker on quadratics of 512 values and condition 50, real "
    "frames, until the squared error is 10⁻⁴ of the first. Nearest rounding steps by 1/L, unbiased "
    "rounding by 1/((1 + ω)L). Bytes are whole frames, with the entropy coder and with the "
    "paper's. Above ν = 1 nearest rounding promises no contraction, and stalls: it lowers large "
    "values first, so gradients become flat, and of a flat vector it keeps next to nothing.",
    row=Row,
    compute=rows,
    draw=draw,
    findings=findings,
    version=2,
)
