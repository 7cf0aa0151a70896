"""The trellis operator: what it promises, what it refuses, how near the limit it comes."""

import math

import numpy as np
import pytest

import fewbits
from fewbits import SpecError
from fewbits.reference.formats import BFLOAT16


def gauss(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


def measured(x: np.ndarray, spec: str) -> tuple[float, float]:
    """Bits a value of the frame, and the error relative to the squared norm."""
    frame = fewbits.compress(x, spec, seed=1)
    y = fewbits.decompress(frame).astype(np.float64)
    return 8 * len(frame) / x.size, float(((y - x) ** 2).sum() / (x.astype(np.float64) ** 2).sum())


@pytest.mark.parametrize(("states", "gap"), [(4, 0.125), (8, 0.11), (16, 0.1)])
@pytest.mark.parametrize("nu", [0.8, 0.1, 0.01])
def test_frames_are_a_tenth_of_a_bit_from_the_limit(states: int, gap: float, nu: float) -> None:
    """On 2^17 values; the tables cost 0.01 bit of that."""
    bits, error = measured(gauss(1 << 17), f"trellis:nu={nu},scale=least-squares,states={states}")
    assert 0 < bits - math.log2(1 / error) / 2 < gap


@pytest.mark.parametrize("nu", [4.0, 1.0, 0.1])
def test_unbiased_frames_are_nearer_than_those_of_sparse_dithering(nu: float) -> None:
    x = gauss(1 << 17)
    gaps = []
    for spec in (
        f"trellis:nu={nu},rounding=subtractive",
        f"sparse-dithering:nu={nu},rounding=subtractive",
    ):
        bits, error = measured(x, spec)
        gaps.append(bits - math.log2(1 + 1 / error) / 2)
    assert 0 < gaps[0] < gaps[1] - 0.08


@pytest.mark.parametrize("rounding", ["nearest", "subtractive"])
def test_the_error_is_below_what_is_promised(rounding: str) -> None:
    for nu in (0.9, 0.2, 0.01):
        for x in (gauss(5000), gauss(5000) ** 5, np.ones(300, np.float32), gauss(1)):
            _, error = measured(x, f"trellis:nu={nu},rounding={rounding}")
            assert error <= (nu if rounding == "nearest" or x.size > 1 else 4 * nu)


@pytest.mark.parametrize("before", ["hadamard", "top-k:fraction=0.3", "rand-k:fraction=0.5"])
def test_stages_stand_before_it(before: str) -> None:
    x = gauss(5000)
    for own in ("trellis", "trellis:nu=0.5,rounding=subtractive"):
        y = fewbits.decompress(fewbits.compress(x, f"{before}|{own}", seed=2))
        assert np.corrcoef(x, y)[0, 1] > 0.5


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("trellis:nu=0", "nu must be above 0"),
        ("trellis:nu=1", "nu must be below 1 for rounding=nearest"),
        ("trellis:states=5", "states must be 4, 8 or 16, got 5"),
        (
            "trellis:rounding=subtractive,scale=least-squares",
            "would make rounding=subtractive biased",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(spec: str, text: str) -> None:
    with pytest.raises(SpecError, match=text):
        fewbits.operator(spec)


def test_steps_that_are_too_fine_are_refused() -> None:
    with pytest.raises(SpecError, match="levels of more than 16 bits"):
        fewbits.compress(gauss(5000), "trellis:nu=1e-7")
    with pytest.raises(SpecError, match="too fine for bfloat16"):
        fewbits.operator("trellis:nu=1e-6").layout(10, BFLOAT16)
