"""Sweeps of ν and ω: iterations and bytes in all, biased against unbiased sparse dithering."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

import fewbits
from fewbits_lab.experiment import StudySettings, Tick
from fewbits_lab.problems import descent
from fewbits_lab.problems.descent import Float64Vector, Quadratic, SentVector

D, SWEEP_CONDITION = 512, 50.0
NUS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_QUICK_NUS = (0.02, 0.1, 0.25, 1.0)
ROUNDINGS = {
    "nearest": "biased",
    "stochastic": "unbiased",
    "subtractive": "unbiased, shared noise",
}


@dataclass(frozen=True, slots=True)
class OcSweepRow:
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


def rows(settings: StudySettings, tick: Tick) -> list[OcSweepRow]:
    """Without compression first, then every rounding with every ν."""
    seeds = range(settings.seed, settings.seed + (1 if settings.quick else 3))
    problems = [Quadratic.random(D, SWEEP_CONDITION, seed) for seed in seeds]
    plain = [descent.plain_steps(problem) for problem in problems]
    whole = fmean(plain) * 4 * D
    found = [
        OcSweepRow("none", 0.0, None, fmean(plain), None, whole, whole, 1.0, 1.0, 0, len(plain))
    ]
    nus = _QUICK_NUS if settings.quick else NUS
    cases = [(rounding, nu) for rounding in ROUNDINGS for nu in nus]
    for part, (rounding, nu) in enumerate(cases, 1):
        found.append(_row(rounding, nu, problems, plain))
        tick(part / len(cases))
    return found


def _row(
    rounding: str, nu: float, problems: Sequence[Quadratic], plain: Sequence[int]
) -> OcSweepRow:
    spec = f"sparse-dithering:nu={nu},rounding={rounding}"
    guarantee = fewbits.operator(spec).guarantee(D)
    omega = guarantee.omega
    grown = 1 + omega if omega is not None else 1 / (1 - nu) if nu < 1 else None
    step = 1.0 if omega is None else 1 / (1 + omega)

    def compress(gradient: Float64Vector, number: int) -> SentVector:
        narrow = gradient.astype(np.float32)
        frame = fewbits.compress(narrow, spec, seed=number)
        paper = 0
        if rounding != "subtractive":
            paper = len(fewbits.compress(narrow, f"{spec},coder=paper", seed=number))
        return SentVector(
            fewbits.decompress(frame).astype(np.float64), (8.0 * paper, 8.0 * len(frame))
        )

    pairs = list(zip(problems, plain, strict=True))
    runs = [descent.descend(one, compress, step, descent.patience(base)) for one, base in pairs]
    reached = [run for run in runs if run.steps is not None]
    lost = len(runs) - len(reached)
    whole = fmean(plain) * 4 * D
    if lost:
        return OcSweepRow(rounding, nu, omega, None, None, None, None, None, None, lost, len(runs))
    paper, rans = (fmean(run.bits[kind] for run in reached) / 8 for kind in (0, 1))
    has_paper = rounding != "subtractive"
    return OcSweepRow(
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
