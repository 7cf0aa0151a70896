r"""Theorem 8: natural levels against standard ones."""

import numpy as np

import fewbits
from fewbits_lab import vectors
from fewbits_lab.experiment import StudySettings
from fewbits_lab.studies.nc_figures16_18.run import variance
from fewbits_lab.studies.theorems.rows import Sampled, TheoremRow, decoded, row, sampled

_PAPER = "natural"
EQUAL = "Theorem 8, variance"
_DEPTHS = range(2, 13)  # s of natural dithering beside 2^(s-1) levels of standard dithering


def equal_levels(settings: StudySettings) -> list[TheoremRow]:
    """Theorem 8: s natural levels have the variance of 2^(s-1) standard ones, until the floor."""
    d = 100_000
    x = vectors.gaussian(d, settings.seed)
    found = []
    for s in _DEPTHS:
        many = 2 ** (s - 1)
        natural = f"natural-dithering:p=2,levels={s}"
        standard = f"standard-dithering:p=2,levels={many}"
        seeds = range(settings.seed, settings.seed + 4)
        pairs = [[vectors.measure(spec, x, seed).error for spec in (natural, standard)]
                 for seed in seeds]  # fmt: skip
        kinds = (("natural-dithering", s), ("standard-dithering", many))
        exact = [variance(x.astype(np.float64), name, 2.0, levels) for name, levels in kinds]
        found += [
            row(
                _PAPER, "Theorem 8", f"1 + ω of {s} natural levels over that of {many:,} standard "
                "ones", operator=natural, vector="Gaussian", d=d, claimed="at most 9/8",
                formula=9 / 8,
                measured=sampled([(1 + own) / (1 + other) for own, other in pairs]),
            ),
            row(
                _PAPER, EQUAL, f"ω of {s} natural levels over that of {many:,} standard ones, "
                f"which is {exact[1]:.3g}", operator=natural, vector="Gaussian", d=d,
                claimed="about equal", formula=exact[0] / exact[1],
                measured=sampled([own / other for own, other in pairs]), relation="equals",
                share=0.01,
            ),
        ]  # fmt: skip
    return [*found, *_identity(settings)]


def _identity(settings: StudySettings) -> list[TheoremRow]:
    """Standard dithering, then natural compression of its levels, against natural dithering."""
    s, d, seed = 5, 4096, settings.seed
    draws = 20 if settings.quick else 200
    x = np.tile(vectors.gaussian(64, seed), d // 64)
    norm = np.float32(np.max(np.abs(x)))
    direct, composed = (np.zeros((64, s + 1)) for _ in range(2))
    for draw in range(draws):
        own = decoded(f"natural-dithering:levels={s}", x, seed + draw) / norm
        first = decoded(f"standard-dithering:levels={2 ** (s - 1)}", x, seed + 7919 * draw) / norm
        both = decoded("natural", first.astype(np.float32), seed + draw)
        for counts, y in ((direct, own), (composed, both)):
            for place, level in enumerate([0.0, *(2.0**-k for k in range(s))]):
                hit = np.isclose(np.abs(y), level, rtol=1e-5)
                counts[:, place] += hit.reshape(-1, 64).sum(axis=0)
    trials = draws * d // 64
    share = (direct + composed) / (2 * trials)
    spread = np.sqrt(np.maximum(2 * trials * share * (1 - share), 1.0))
    furthest = float(np.max(np.abs(direct - composed) / spread))
    same = fewbits.operator(f"standard-dithering:levels={2 ** (s - 1)}|natural")
    equal = same == fewbits.operator(f"natural-dithering:levels={s}")
    spec = f"standard-dithering:levels={2 ** (s - 1)}|natural"
    said = f"D_nat with {s} levels has the law of C_nat after D_sta with {2 ** (s - 1)}"
    return [
        row(
            _PAPER, "Theorem 8", f"{said}: furthest of 384 frequencies, in standard errors, at "
            f"most", operator=spec, vector="64 values, repeated", d=d, claimed="the same law",
            formula=4.5, measured=Sampled(furthest),
        ),
        row(
            _PAPER, "Theorem 8", "the spec is that operator (1: yes)", operator=spec, vector="any",
            d=d, claimed="the same operator", formula=1.0, measured=Sampled(float(equal)),
            relation="equals",
        ),
    ]  # fmt: skip
