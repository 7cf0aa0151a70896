"""Vectors that operators are tried on, and what a frame of one takes and loses."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import fewbits

VectorValues = npt.NDArray[np.float32]


def gaussian(d: int, seed: int) -> VectorValues:
    """Standard normal values."""
    return np.random.default_rng(seed).standard_normal(d).astype(np.float32)


def varying(d: int, seed: int, block: int = 512) -> VectorValues:
    """Normal values whose scale differs between blocks, from 1 down to 10⁻⁴, log-uniformly."""
    rng = np.random.default_rng(seed)
    scales = 10.0 ** rng.uniform(-4, 0, -(-d // block))
    return (rng.standard_normal(d) * np.repeat(scales, block)[:d]).astype(np.float32)


def families(d: int, seed: int) -> dict[str, VectorValues]:
    """Vectors of many kinds: typical ones, and those at which operators are at their worst."""
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], d)
    spike = np.zeros(d)
    spike[d // 3] = 1.0
    spike_and_dust = np.full(d, 1e-3)
    spike_and_dust[d // 3] = 1.0
    found = {
        "Gaussian": rng.standard_normal(d),
        "Laplace": rng.laplace(size=d),
        "Student, 3 degrees": rng.standard_t(3, d),
        "Student, 1.5 degrees": rng.standard_t(1.5, d),
        "uniform": rng.uniform(-1, 1, d),
        "scale varies": varying(d, seed).astype(np.float64),
        "5 % not zero": rng.standard_normal(d) * (rng.random(d) < 0.05),
        "constant": np.ones(d),
        "one magnitude": signs,
        "4/3 of powers of two": signs * 4 / 3 * 2.0 ** rng.integers(-3, 4, d),
        "3/2 of powers of two": signs * 1.5 * 2.0 ** rng.integers(-3, 4, d),
        "geometric": signs * 0.9 ** np.arange(d),
        "one value": spike,
        "one value and dust": spike_and_dust,
    }
    return {name: x.astype(np.float32) for name, x in found.items()}


class VectorMeasure(NamedTuple):
    """Bits a value of the whole frame, and the relative squared error."""

    bits: float
    error: float


def measure(spec: str, x: VectorValues, seed: int) -> VectorMeasure:
    """Bits and error of one frame."""
    frame = fewbits.compress(x, spec, seed=seed)
    return VectorMeasure(8 * len(frame) / x.size, relative_error(x, fewbits.decompress(frame)))


def relative_error(x: VectorValues, y: VectorValues) -> float:
    """|y - x|² / |x|²."""
    wide = x.astype(np.float64)
    error = y.astype(np.float64) - wide
    return float(error @ error / (wide @ wide))
