r"""The variances of the paper on natural compression, each on the vector where it is tight."""

import math

import numpy as np

import fewbits
from fewbits_lab import vectors
from fewbits_lab.experiment import StudySettings
from fewbits_lab.studies.theorems.rows import (
    Sampled,
    TheoremRow,
    decoded,
    four_thirds,
    noise,
    row,
    signed,
)
from fewbits_lab.vectors import VectorValues

_PAPER = "natural"
_WORST = "±4/3·2^k"


def variance(settings: StudySettings) -> list[TheoremRow]:
    """Theorems 3, 15 and 5: natural compression, sparsification, one after the other."""
    d, draws, seed = _size(settings), 8, settings.seed
    worst, normal = four_thirds(d, seed), vectors.gaussian(d, seed)
    eighth, tenth = "rand-k:fraction=0.125|natural", "rand-k:fraction=0.1|natural"
    cases = (
        ("Theorem 3", "variance of C_nat", "natural", worst, _WORST, "ω = 1/8", 0.125),
        ("Theorem 3", "it is typically less", "natural", normal, "Gaussian", "ω ≤ 1/8",
         3 / (4 * math.log(2)) - 1),
        ("Theorem 3", "powers of two are fixed", "natural", signed(np.exp2(np.arange(d) % 40 - 20),
         seed), "±2^k", "ω = 0", 0.0),
        ("Theorem 15", "variance of S^q", "rand-k:fraction=0.1|identity", normal, "Gaussian",
         "ω = d/q − 1", 9.0),
        ("Theorem 5", "composition", eighth, worst, _WORST, "1 + ω = (1 + 7)(1 + 1/8)", 8.0),
        ("Theorem 5, eq. 18", "composition", tenth, four_thirds(d, seed, 0.1), "±4/3·2^k/10",
         "ω = 9d/8q − 1", 10.25),
    )  # fmt: skip
    found = [
        row(
            _PAPER, where, statement, operator=spec, vector=kind, d=d, claimed=claimed,
            formula=omega, measured=noise(spec, x, draws, seed), relation="equals",
            share=0.01 if kind == "Gaussian" and spec == "natural" else 0.0,
        )
        for where, statement, spec, x, kind, claimed, omega in cases
    ]  # fmt: skip
    return [*found, *_unbiased(settings)]


def _unbiased(settings: StudySettings) -> list[TheoremRow]:
    """The mean of R frames is R times nearer than one frame: noise averages out, bias would not."""
    d, draws = 4096, 64 if settings.quick else 1024
    found = []
    for spec, where in (
        ("natural", "Theorem 3"),
        ("rand-k:fraction=0.125|natural", "Theorem 5"),
        ("natural-dithering:p=2,levels=8", "Theorem 7"),
    ):
        x = four_thirds(d, settings.seed)
        frames = np.array([decoded(spec, x, seed) for seed in range(draws)], np.float64)
        one = float(np.mean(np.sum((frames - x) ** 2, axis=1)))
        mean = float(np.sum((frames.mean(axis=0) - x) ** 2))
        # The squared length of the mean's error is a sum of d terms, each with a chi-square law.
        value = Sampled(draws * mean / one, math.sqrt(2 / d))
        found.append(
            row(
                _PAPER, where, f"unbiased: |mean error|² of {draws:,} frames, times "
                f"{draws:,}, over that of one", operator=spec, vector=_WORST, d=d,
                claimed="E C(x) = x", formula=1.0, measured=value, relation="equals", share=0.01,
            )
        )  # fmt: skip
    return found


def dithering(settings: StudySettings) -> list[TheoremRow]:
    """Theorem 7 with p = 2, above and below z = 9/4."""
    d, draws = 4096, 16 if settings.quick else 200
    found = []
    for levels in (3, 5, 7, 8, 10):
        z = math.sqrt(d) * 2.0 ** (1 - levels)
        spec = f"natural-dithering:p=2,levels={levels}"
        x = _worst_of_dithering(d, levels, settings.seed)
        printed = 1 / 8 + z * min(1.0, z)
        found.append(
            row(
                _PAPER, "Theorem 7", f"variance of D_nat at z = {z:g}, in our sharper form",
                operator=spec, vector="flat" if z >= 9 / 4 else "4/9 of the last level, and a few "
                "at 4/3·2^−k", d=d, claimed=f"ω ≤ 1/8 + z·min(1, z) = {printed:.4g}",
                formula=fewbits.operator(spec).guarantee(d).omega or 0.0,
                measured=noise(spec, x, draws, settings.seed),
            )
        )  # fmt: skip
    return found


def _worst_of_dithering(d: int, levels: int, seed: int) -> VectorValues:
    """A unit vector at which our bound on natural dithering is reached, nearly."""
    last = 2.0 ** (1 - levels)
    if math.sqrt(d) * last >= 9 / 4:
        return signed(np.full(d, d**-0.5), seed)
    small, large = 4 / 9 * last, np.array([])
    for k in range(2, levels):  # from values large enough to be few, and small enough to be many
        value = 4 / 3 * 2.0**-k
        rest = 1 - float(large @ large) - (d - large.size) * small**2
        count = math.floor(rest / (value**2 - small**2))
        if value >= last and (large.size or d // 200 < count):
            large = np.append(large, np.full(max(count, 0), value))
    return signed(np.append(large, np.full(d - large.size, small)), seed)


def _size(settings: StudySettings) -> int:
    return 65_536 if settings.quick else 1 << 20
