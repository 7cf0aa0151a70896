r"""The bounds of the paper on optimal compression, each on the vector where it is nearest."""

import math

import numpy as np

import fewbits
from fewbits import registry
from fewbits.theory import uncertainty
from fewbits_lab import information, vectors
from fewbits_lab.experiment import StudySettings
from fewbits_lab.studies.theorems.rows import (
    Sampled,
    TheoremRow,
    four_thirds,
    noise,
    row,
    sampled,
    signed,
)
from fewbits_lab.vectors import VectorValues

_PAPER = "optimal"
_NU = 0.1
_SPHERES = ((0.5, 8), (0.5, 16), (0.25, 8), (0.1, 6), (0.8, 24), (0.9, 32))  # alpha, block


def lower_bounds(settings: StudySettings) -> list[TheoremRow]:
    """No frame is smaller than possible: the nearest of all operators, on a Gaussian vector."""
    d = 65_536
    x = vectors.gaussian(d, settings.seed)
    products = {}
    for spec in registry.all_example_specs(d):
        unbiased = fewbits.operator(spec).guarantee(d).unbiased
        bits, error = vectors.measure(spec, x, settings.seed)
        alpha = error / (1 + error) if unbiased else error
        if 0 < alpha < 1:
            products[spec] = uncertainty.uncertainty_product(alpha, bits, 1)
    nearest = min(products, key=products.__getitem__)
    return [
        row(
            _PAPER, "uncertainty principle", f"α·4^(b/d), the least of {len(products)} operators",
            operator=nearest, vector="Gaussian", d=d, claimed="at least 1", formula=1.0,
            measured=Sampled(products[nearest]), relation="at least",
        )
    ]  # fmt: skip


def sparse_dithering(settings: StudySettings) -> list[TheoremRow]:
    """The bits at most, at the linear programme's worst vector, and the error at its own."""
    found = []
    for d in (1024, 4096):
        x = worst_vector(_NU, d, settings.seed)
        spec = f"sparse-dithering:nu={_NU},coder=paper"
        bits = _stream_bits(spec, x, settings.seed)
        bound = 30 + math.log2(d) + information.sparse_dithering_bits(_NU) * d
        found.append(
            row(
                _PAPER, "Section 3, bits of SD", f"bits at α = 1/10; {bits / d:.3f} a value, the "
                f"programme's optimum is {worst_bits(_NU):.3f}", operator=spec,
                vector="just above thresholds", d=d, claimed="30 + log d + 3.35 d", formula=bound,
                measured=Sampled(bits),
            )
        )  # fmt: skip
    d = 4096
    x = _half_levels(_NU, d, settings.seed)
    for rounding, claimed, relation in (
        ("nearest", "C(ν), surely", "at most"), ("stochastic", "U(ω)", "at most"),
    ):  # fmt: skip
        spec = f"sparse-dithering:nu={_NU},rounding={rounding}"
        found.append(
            row(
                _PAPER, f"Section 3, {claimed}", f"error of SD, {rounding} rounding", operator=spec,
                vector="half-way between levels", d=d,
                claimed=f"{'α' if rounding == 'nearest' else 'ω'} ≤ 1/10", formula=_NU,
                measured=noise(spec, x, 32, settings.seed),
                relation=relation,  # type: ignore[arg-type]
                share=1e-4,
            )
        )  # fmt: skip
    return [*found, *_randomised(settings)]


def _randomised(settings: StudySettings) -> list[TheoremRow]:
    """The mean bits of the unbiased kind, at the worst mixture of zeros and one magnitude."""
    d, draws = 4096, 8 if settings.quick else 64
    found = []
    for omega in (0.1, 0.25, 1.0):
        share = max(np.linspace(0.05, 1, 96), key=lambda part: _mean_bits(omega, part))
        kept = round(share * d)
        x = signed(np.concatenate([np.full(kept, kept**-0.5), np.zeros(d - kept)]), settings.seed)
        spec = f"sparse-dithering:nu={omega},rounding=stochastic,coder=paper"
        bits = sampled([_stream_bits(spec, x, settings.seed + draw) for draw in range(draws)])
        bound = 30 + math.log2(d) + information.stochastic_dithering_bits(omega) * d
        found.append(
            row(
                _PAPER, "Section 3, mean bits of SD", f"mean bits at ω = {omega:g}; "
                f"{bits.mean / d:.3f} a value", operator=spec,
                vector=f"{share:.0%} of one magnitude, else 0", d=d,
                claimed="30 + log d + (log 3 + 1/(2√ω)) d", formula=bound, measured=bits,
            )
        )  # fmt: skip
    return found


def spherical(settings: StudySettings) -> list[TheoremRow]:
    """Bits of an index over the least possible, and what radii add."""
    blocks = 1024 if settings.quick else 8192
    found = []
    for alpha, block in _SPHERES:
        x = vectors.gaussian(blocks * block, settings.seed)
        spec = f"spherical:alpha={alpha},block={block}"
        frame = fewbits.compress(x, f"{spec},scale=unbiased", seed=settings.seed)
        index = 8 * fewbits.inspect(frame).sections["indices"] / blocks
        over = Sampled(index - information.average_bits(alpha, block), 1.6 / math.sqrt(blocks))
        found.append(
            row(
                _PAPER, "Section 4, SC", "bits of a block's index over −log P", operator=spec,
                vector="Gaussian", d=block, claimed="less than 3", formula=3.0, measured=over,
            )
        )  # fmt: skip
        found += _strict(spec, x, alpha, block, settings.seed)
    return found


def _strict(spec: str, x: VectorValues, alpha: float, block: int, seed: int) -> list[TheoremRow]:
    """The sure error of every block, radius and all, and the radius's own bits."""
    frame = fewbits.compress(x, spec, seed=seed)
    y = fewbits.decompress(frame).reshape(-1, block).astype(np.float64)
    wide = x.reshape(-1, block).astype(np.float64)
    errors = np.sum((y - wide) ** 2, axis=1) / np.sum(wide**2, axis=1)
    sections = fewbits.inspect(frame).sections
    radii = 8 * sum(size for name, size in sections.items() if name not in ("indices", "key"))
    bits = radii / len(errors)
    return [
        row(
            _PAPER, "Section 4, C(α)", "the largest error of a block, its radius rounded too",
            operator=spec, vector="Gaussian", d=block, claimed=f"α ≤ {alpha:g}, surely",
            formula=alpha, measured=Sampled(float(errors.max())), share=1e-6,
        ),
        row(
            _PAPER, "Section 4, norm", "bits of a block's radius, against the 31 of a float",
            operator=spec, vector="Gaussian", d=block, claimed="31", formula=31.0,
            measured=Sampled(bits),
        ),
    ]  # fmt: skip


def scaled(settings: StudySettings) -> list[TheoremRow]:
    """C / (1 + ω) is contractive with ω / (1 + ω): where C is at its worst, exactly so."""
    d, draws = 65_536, 4 if settings.quick else 32
    found = []
    for inner, omega in (
        ("natural", 1 / 8),
        ("rand-k:fraction=0.125|natural", 8.0),
        ("sparse-dithering:nu=1,rounding=stochastic", 1.0),
    ):
        spec = f"scale:omega={omega:g}|{inner}"
        own = four_thirds(d, settings.seed, 1 + omega)
        x = np.ones(d, np.float32) if "sparse" in inner else own
        found.append(
            row(
                _PAPER, "U(ω) to B(α)", "error of C/(1 + ω)", operator=spec,
                vector="where C is at its worst", d=d, claimed="α = ω/(1 + ω)",
                formula=omega / (1 + omega), measured=noise(spec, x, draws, settings.seed),
                relation="equals", share=1e-4,
            )
        )  # fmt: skip
    return found


def worst_bits(nu: float) -> float:
    """The most bits a value of the paper's code: the optimum of the linear programme."""
    return max(_programme(nu, zeros)[0] for zeros in np.linspace(0.0, 0.5, 5001))


def worst_vector(nu: float, d: int, seed: int) -> VectorValues:
    """A vector that reaches it: entries just above thresholds, and zeros."""
    zeros = max(np.linspace(0.0, 0.5, 5001), key=lambda share: _programme(nu, share)[0])
    _, k, low = _programme(nu, zeros)
    count, few = round((1 - zeros) * d), round(low * d)
    step, above = math.sqrt(nu / d), 1 + 1e-5
    while (few * (2 * k - 1) ** 2 + (count - few) * (2 * k + 1) ** 2) * (above * step) ** 2 > 1:
        few += 1
    odd = np.array([2 * k - 1] * few + [2 * k + 1] * (count - few), np.float64) * above * step
    rest = math.sqrt((1 - float(odd @ odd)) / (d - count))  # zeros take what is left of the norm
    return signed(np.append(odd, np.full(d - count, min(rest, 0.99 * step))), seed)


def _programme(nu: float, zeros: float) -> tuple[float, int, float]:
    """Bits a value for this share of zeros, and the best mixture of the two magnitudes k, k + 1.

    A value of magnitude k costs k bits and, just above its threshold, (2k - 1)² ν of the squared
    norm, so only two neighbours can be in the best mixture.
    """
    rest = 1 - zeros
    energy = 1 / (nu * rest)
    k = max(1, math.floor((math.sqrt(energy) + 1) / 2))
    low = ((2 * k + 1) ** 2 - energy) / ((2 * k + 1) ** 2 - (2 * k - 1) ** 2)
    low = min(max(low, 0.0), 1.0)
    places = -sum(p * math.log2(p) for p in (zeros, rest) if p > 0)
    return places + rest * (1 + k * low + (k + 1) * (1 - low)), k, low * rest


def _half_levels(nu: float, d: int, seed: int) -> VectorValues:
    """Odd multiples of half a step: every value is as far from its level as can be."""
    few = (1 / nu - 9) / 16  # of 5 half steps, the others have 3: the squares' mean is 1 / ν
    count = round(few * d)
    odd = np.concatenate([np.full(count, 5.0), np.full(d - count, 3.0)])
    return signed(odd * math.sqrt(nu / d), seed)


def _mean_bits(omega: float, share: float) -> float:
    """Expected bits a value if this share has one magnitude and the rest is zero."""
    t = 1 / (2 * math.sqrt(omega * share))
    up = t - math.floor(t)
    zero = 1 - share if t >= 1 else 1 - share * up
    places = -sum(p * math.log2(p) for p in (zero, 1 - zero) if p > 0)
    return places + (1 - zero) + share * t


def _stream_bits(spec: str, x: VectorValues, seed: int) -> float:
    """The bits of all sections: the paper's stream in whole bytes."""
    return 8.0 * sum(fewbits.inspect(fewbits.compress(x, spec, seed=seed)).sections.values())
