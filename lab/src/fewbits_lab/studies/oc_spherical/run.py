"""Spherical compression: directions searched, bits and errors, by formula and in frames."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

import fewbits
from fewbits.families import caps
from fewbits_lab import information, vectors
from fewbits_lab.experiment import StudySettings, Tick
from fewbits_lab.printed import Comparison, agrees

_MOST_RICE = 30


class KnownDirections(NamedTuple):
    """Known values for (α, d): 1/P and -log₂ P exactly, the rest measured by other code."""

    alpha: float
    d: int
    directions: str
    least: str
    bits: str
    strict: str
    mmse: str
    omega: str


_PRINTED = (
    KnownDirections(0.5, 8, "60.3", "5.915", "7.375", "0.402", "0.398", "0.660"),
    KnownDirections(0.5, 16, "1332", "10.38", "11.91", "0.447", "0.445", "0.802"),
    KnownDirections(0.5, 24, "25823", "14.66", "16.29", "0.461", "0.460", "0.854"),
    KnownDirections(0.25, 8, "789", "9.62", "11.07", "0.198", "0.197", "0.245"),
    KnownDirections(0.25, 10, "3528", "11.78", "13.26", "0.206", "0.206", "0.259"),
    KnownDirections(0.2, 8, "1764", "10.79", "12.31", "0.156", "0.155", "0.184"),
    KnownDirections(0.1, 6, "1795", "10.81", "12.32", "0.073", "0.073", "0.078"),
    KnownDirections(0.8, 24, "80.0", "6.32", "7.81", "0.747", "0.744", "2.91"),
    KnownDirections(0.9, 32, "27.4", "4.78", "6.24", "0.859", "0.855", "5.91"),
)
_SAMPLE = "it was measured on a sample; ours is exact, and our frames agree with it"
_REASONS = {
    ("least bits", 0.2, 8): "10.7846, rounded up; the table of lower bounds has 10.78",
    ("error, mmse", 0.2, 8): _SAMPLE,
    ("error, strict", 0.1, 6): _SAMPLE,
    ("error, mmse", 0.1, 6): _SAMPLE,
}
_WITHIN = 0.01  # for what was measured, with a few thousand random directions


@dataclass(frozen=True, slots=True, kw_only=True)
class OcSphericalRow(Comparison):
    """One quantity at (α, d), exact, and in frames where a frame shows it."""

    quantity: str
    alpha: float
    d: int
    measured: float | None


def rows(settings: StudySettings, tick: Tick) -> list[OcSphericalRow]:
    """Six quantities a case; the frames hold Gaussian blocks."""
    found = []
    for part, known in enumerate(_PRINTED, 1):
        alpha, d = known.alpha, known.d
        chance = caps.probability(alpha, d)
        mean = caps.mean_cosine(alpha, d)
        rice = caps.rice_parameter(chance, _MOST_RICE)
        assert rice is not None
        blocks = 1024 if settings.quick or 1 / chance > 10_000 else 8192
        index_bits, errors = _measured(alpha, d, blocks, settings.seed)
        root = (1 - alpha) ** 0.5
        cells = (
            ("directions 1/P", 1 / chance, known.directions, None, None),
            ("least bits", information.average_bits(alpha, d), known.least, None, None),
            ("bits of an index", caps.rice_bits(chance, rice), known.bits, _WITHIN, index_bits),
            ("error, strict", 2 - alpha - 2 * root * mean, known.strict, _WITHIN, errors["strict"]),
            ("error, mmse", 1 - mean**2, known.mmse, _WITHIN, errors["mmse"]),
            ("ω, unbiased", 1 / mean**2 - 1, known.omega, 2 * _WITHIN, errors["unbiased"]),
        )
        for quantity, ours, text, within, measured in cells:
            found.append(
                OcSphericalRow(
                    quantity=quantity,
                    alpha=alpha,
                    d=d,
                    printed=text,
                    ours=ours,
                    reproduces=agrees(ours, text, within=within),
                    reason=_REASONS.get((quantity, alpha, d), ""),
                    measured=measured,
                )
            )
        tick(part / len(_PRINTED))
    return found


def _measured(alpha: float, d: int, blocks: int, seed: int) -> tuple[float, dict[str, float]]:
    """Bits of an index, and the relative error of a block by the scale, in real frames."""
    x = vectors.gaussian(blocks * d, seed)
    wide = x.astype(np.float64).reshape(blocks, d)
    energy = np.sum(wide**2, axis=1)
    errors, bits = {}, 0.0
    for scale in ("strict", "mmse", "unbiased"):
        spec = f"spherical:alpha={alpha},block={d},scale={scale}"
        frame = fewbits.compress(x, spec, seed=seed)
        y = fewbits.decompress(frame).astype(np.float64).reshape(blocks, d)
        errors[scale] = float(np.mean(np.sum((y - wide) ** 2, axis=1) / energy))
        if scale == "unbiased":  # its directions are accepted without room for the radius
            bits = 8 * fewbits.inspect(frame).sections["indices"] / blocks
    return bits, errors
