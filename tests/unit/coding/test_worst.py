"""The promised size of codes with a bounded sum of squares holds, and is nearly reached."""

import math

import numpy as np
import pytest

import fewbits
from fewbits import registry
from fewbits.coding import worst
from fewbits.coding.frequencies import TOTAL
from fewbits.coding.rans import CODER_BLOCK

D = 2 * CODER_BLOCK


def gibbs(nu: float, d: int) -> np.ndarray:
    """Values that round to the codes whose entropy is largest for their sum of squares.

    That is 2 % below what is allowed, so that the step is surely small enough for all of them.
    """
    rng = np.random.default_rng(0)
    levels = np.arange(1, 200) - 0.5
    slopes = 2.0 ** np.arange(-8, 8, 1 / 32)
    sums = np.exp(-slopes[:, None] * levels**2)
    bits = np.log2(1 + 2 * sums.sum(axis=1)) + slopes * 0.98 / (4 * nu) * math.log2(math.e)
    weights = np.r_[1, 2 * sums[bits.argmin()]]
    codes = rng.choice(levels.size + 1, d, p=weights / weights.sum())
    x = np.where(codes > 0, codes - 0.5, 0.0) * rng.choice([-1.0, 1.0], d)
    return x.astype(np.float32)


def test_the_losses_of_a_symbol() -> None:
    words = max(math.log2(1 + (TOTAL - f) / TOTAL / 8) for f in range(1, TOTAL))
    others = max(math.log2(1 + (TOTAL - f) / TOTAL / ((1 << 15) // f)) for f in range(1, TOTAL))
    assert worst.ROUNDED - 0.001 < words <= worst.ROUNDED
    assert worst.KEPT_BACK - 0.001 < others <= worst.KEPT_BACK


@pytest.mark.parametrize("nu", [0.02, 0.1, 0.5, 1.0])
def test_worst_vectors_nearly_reach_the_promise(nu: float) -> None:
    spec = f"sparse-dithering:nu={nu}"
    x = gibbs(nu, D)
    size = 8 * len(fewbits.compress(x, spec))
    promised = registry.operator(spec).guarantee(D).bits
    assert promised == 8 * fewbits.largest_frame(x, spec)
    assert (0.9 if nu >= 0.1 else 0.8) * promised < size <= promised
    assert 0.95 < size / worst._entropy(D, D / (4 * nu), 0.5) < 1.02


def test_the_promise_at_the_default_is_near_the_entropy() -> None:
    default = registry.operator("sparse-dithering")
    random = registry.operator("sparse-dithering:rounding=stochastic")
    assert default.guarantee(10**6).bits < 3.25 * 10**6
    assert default.guarantee(10**8).bits < 3.25 * 10**8
    for d in (9, 100, 5000, 10**6):
        assert (
            default.guarantee(d).bits <= random.guarantee(d).bits < 1.1 * default.guarantee(d).bits
        )


@pytest.mark.filterwarnings("ignore::fewbits.SaturationWarning")
@pytest.mark.parametrize("rounding", ["nearest", "stochastic", "subtractive"])
@pytest.mark.parametrize("nu", [0.001, 0.1, 1.0, 100.0])
def test_vectors_of_every_kind_keep_the_promise(rounding: str, nu: float) -> None:
    """Energy in one block, in one value, in equal values, in many different codes, near the end."""
    rng = np.random.default_rng(1)
    everywhere = rng.standard_normal(D)
    vectors = [
        everywhere,
        np.where(np.arange(D) < 3000, 100 * everywhere, everywhere),
        np.where(np.arange(D) % 300 == 5, np.arange(D) // 300, 0.0),
        np.where(np.arange(D) == 77, 1e9, everywhere),
        np.finfo(np.float32).max * (rng.random(D) < 0.5) * np.sign(everywhere),
        np.r_[np.arange(2000.0), np.zeros(D - 2000)],
        everywhere[:77],
        np.r_[1e-45, np.zeros(99)],
    ]
    spec = f"sparse-dithering:nu={nu},rounding={rounding}"
    for x in (vector.astype(np.float32) for vector in vectors):
        frame = fewbits.compress(x, spec, seed=3)
        assert len(frame) <= fewbits.largest_frame(x, spec)
        assert fewbits.decompress(frame).shape == x.shape


def test_a_step_cut_to_the_largest_float_keeps_the_promise_of_the_stream() -> None:
    x = np.full(4000, np.finfo(np.float32).max)
    spec = "sparse-dithering:nu=100,coder=paper"
    frame = fewbits.compress(x, spec)
    assert len(frame) <= fewbits.largest_frame(x, spec)
    assert np.array_equal(fewbits.decompress(frame), x)


def test_threads_do_not_change_the_bytes_within_the_promise() -> None:
    x = np.concatenate([np.zeros(300_000), gibbs(0.1, 300_000)]).astype(np.float32)
    one, two = (fewbits.compress(x, "sparse-dithering", threads=number) for number in (1, 2))
    assert one == two
    assert np.count_nonzero(fewbits.decompress(one)) > 100_000
