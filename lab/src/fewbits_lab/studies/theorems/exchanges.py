r"""Lemma 13 and Table 1: what workers and master send, with the bytes of frames."""

import numpy as np

from fewbits.theory import bounds
from fewbits.theory.cost import MODELS
from fewbits_lab import speedups, vectors
from fewbits_lab.experiment import StudySettings
from fewbits_lab.studies.theorems.rows import (
    Sampled,
    TheoremRow,
    decoded,
    four_thirds,
    row,
    sampled,
    stated_omega,
)

_PAPER = "natural"


def second_moment(settings: StudySettings) -> list[TheoremRow]:
    """Lemma 13 with operators that reach their bound on every vector, and with C_nat."""
    n, d, seed = 8, 4096, settings.seed
    draws = 40 if settings.quick else 400
    rng = np.random.default_rng(seed)
    mean = four_thirds(d, seed).astype(np.float64)
    shifts = rng.standard_normal((n, d))
    shifts -= shifts.mean(axis=0)
    deviation = 0.7
    problem = bounds.Problem(
        smoothness=1.0, gap=1.0, workers=n, variance=deviation**2 * d,
        dissimilarity=float(np.mean(np.sum(shifts**2, axis=1))),
    )  # fmt: skip
    found = []
    for uplink, downlink, relation in (
        ("rand-k:fraction=0.25|identity", "rand-k:fraction=0.5|identity", "equals"),
        ("rand-k:fraction=0.125|natural", "natural", "at most"),
        ("natural", "natural", "at most"),
    ):
        pair = bounds.Pair(*(stated_omega(spec, d) for spec in (uplink, downlink)))
        bound = bounds.noise_floor(problem, pair)
        bound += bounds.noise_slope(n, pair) * float(mean @ mean)
        values = []
        for draw in range(draws):
            total = np.zeros(d)
            for worker in range(n):
                g = mean + shifts[worker] + deviation * rng.standard_normal(d)
                total += decoded(uplink, g.astype(np.float32), seed + draw * (n + 1) + worker)
            sent = decoded(downlink, total.astype(np.float32), seed + draw * (n + 1) + n)
            values.append(float(np.sum((sent.astype(np.float64) / n) ** 2)) / bound)
        found.append(
            row(
                _PAPER, "Lemma 13", f"E|g/n|² with {n} workers, {uplink} up and {downlink} down, "
                "over α + β|∇f|²", operator=f"{uplink} / {downlink}", vector="±4/3·2^k, and noise",
                d=d, claimed="at most 1", formula=1.0, measured=sampled(values),
                relation=relation,  # type: ignore[arg-type]
            )
        )  # fmt: skip
    return found


def table1(settings: StudySettings) -> list[TheoremRow]:
    """Table 1 with the bytes of frames: what each operator saves in all, at its best."""
    d = 1_000_000
    x = vectors.gaussian(d, settings.seed)
    depths = range(1, 16)
    cases = (
        ("C_nat", ["natural"], speedups.NATURAL, "3.2 to 3.6"),
        ("S^q", ["rand-k:fraction=0.1|identity"], speedups.SPEEDUP_SPARSE, "0.6 to 6.0"),
        ("C_nat∘S^q", ["rand-k:fraction=0.1|natural"], speedups.SPARSE_NATURAL, "1.0 to 10.7"),
        ("D_sta", [f"standard-dithering:p=2,levels={2 ** (s - 1)}" for s in depths],
         speedups.standard(), "1.8 to 15.9"),
        ("D_nat", [f"natural-dithering:p=2,levels={s}" for s in range(1, 32)],
         speedups.natural(), "4.1 to 16.0"),
    )  # fmt: skip
    found = []
    for name, specs, formula, claimed in cases:
        costs = [(spec, stated_omega(spec, d), vectors.measure(spec, x, settings.seed).bits)
                 for spec in specs]  # fmt: skip
        for theta, workers in speedups.ENDS:
            best, spec = max((MODELS[2].speedup(omega, bits, theta), spec)
                             for spec, omega, bits in costs)  # fmt: skip
            found.append(
                row(
                    _PAPER, "Table 1", f"{name}, {workers}: total communication, times less, with "
                    "the bytes of frames", operator=spec, vector="Gaussian", d=d, claimed=claimed,
                    formula=speedups.best(2, formula, theta)[0], measured=Sampled(best),
                    relation="at least", share=0.001,
                )
            )  # fmt: skip
    return found
