"""Baselines are what their formulas say: a comparison with a weak copy would prove nothing."""

import math

import ml_dtypes
import numpy as np
import pytest

from fewbits_lab import baselines, vectors
from fewbits_lab.baselines import BASELINES, Eden, Fp8, IntegerBlocks, blocks, eden, fp8, lloyd_max

D = 1 << 16
SIGMAS = 5.0
each = pytest.mark.parametrize("baseline", BASELINES, ids=lambda own: own.name)


def laplace(d: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).laplace(size=d).astype(np.float32)


def expected(baseline: baselines.Baseline, x: np.ndarray) -> float:
    """The error by the formula: a value between neighbours loses (x - below)(above - x)."""
    if isinstance(baseline, Eden):
        return eden.formula(baseline.bits)
    if isinstance(baseline, IntegerBlocks):
        magnitudes = np.arange(baseline.largest + 1, dtype=np.float64)
    else:
        codes = np.arange(0x7F, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn)
        magnitudes = codes.astype(np.float64)
    lost = 0.0
    for at in range(0, x.size, blocks.BLOCK):
        own = np.abs(x[at : at + blocks.BLOCK].astype(np.float64))
        grid = magnitudes * own.max() / magnitudes[-1]
        above = np.clip(np.searchsorted(grid, own), 1, grid.size - 1)
        lost += float(np.sum((own - grid[above - 1]) * np.maximum(grid[above] - own, 0)))
    return lost / float(np.sum(x.astype(np.float64) ** 2))


@each
@pytest.mark.parametrize("kind", ["Laplace", "scale varies"])
def test_the_error_is_the_formulas(baseline: baselines.Baseline, kind: str) -> None:
    x = laplace(D) if kind == "Laplace" else vectors.varying(D, 3)
    _, error = baselines.measure(baseline, x, 1)
    # A sum of d terms; where scales vary few blocks have most of the norm, so fewer terms count.
    terms = float(np.sum(x.astype(np.float64) ** 2) ** 2 / np.sum(x.astype(np.float64) ** 4))
    assert error == pytest.approx(expected(baseline, x), rel=SIGMAS * math.sqrt(2 / terms))


@each
def test_draws_average_to_the_vector(baseline: baselines.Baseline) -> None:
    """Half of the draws' mean error times the other half's is 0 but for noise."""
    x, draws = laplace(4096), 64
    errors = np.stack(
        [baseline.decode(baseline.encode(x, seed), x.size) for seed in range(draws)]
    ) - x.astype(np.float64)
    norm = float(np.sum(x.astype(np.float64) ** 2))
    product = float(errors[::2].mean(0) @ errors[1::2].mean(0)) / norm
    # Each mean has the variance v / (draws / 2), and their product's is its square, summed over i.
    noise = np.linalg.norm(errors.var(0)) / (draws / 2) / norm
    assert abs(product) <= SIGMAS * noise
    assert SIGMAS * noise < 0.02 * errors.var(0).sum() / norm  # a seventh of the error's root shows
    assert errors.std(0).max() > 0


def test_the_scale_of_least_squares_would_be_seen_as_bias() -> None:
    """The test above can fail: EDEN's other published scale loses the share D of the vector."""
    x, lost = laplace(4096), lloyd_max.quantiser(1).error
    draws = [Eden(1).decode(Eden(1).encode(x, seed), x.size) * (1 - lost) for seed in range(64)]
    errors = np.stack(draws) - x.astype(np.float64)
    product = float(errors[::2].mean(0) @ errors[1::2].mean(0))
    assert product / np.sum(x.astype(np.float64) ** 2) == pytest.approx(lost**2, rel=0.05)


@each
@pytest.mark.parametrize("d", [1, 2, 255, 257, 3 * 4096 + 7, 70_001])
def test_messages_have_the_stated_bytes_at_every_length(
    baseline: baselines.Baseline, d: int
) -> None:
    message = baseline.encode(laplace(d), 1)
    scales = 4 * -(-d // blocks.BLOCK)
    if isinstance(baseline, Eden):
        powers = d // eden.EDEN_BLOCK + (d % eden.EDEN_BLOCK).bit_count()
        assert len(message) == 16 + 4 * powers + -(-d * baseline.bits // 8)
    else:
        bits = 8 if isinstance(baseline, Fp8) else baseline.bits  # type: ignore[attr-defined]
        assert len(message) == scales + -(-d * bits // 8)
    assert baseline.decode(message, d).shape == (d,)
    assert message == baseline.encode(laplace(d), 1)


@each
def test_zeros_stay_zeros(baseline: baselines.Baseline) -> None:
    x = np.zeros(600, np.float32)
    assert not baseline.decode(baseline.encode(x, 1), x.size).any()


def test_seeds_matter() -> None:
    x = laplace(1000)
    for baseline in BASELINES:
        assert baseline.encode(x, 1) != baseline.encode(x, 2)


def test_numbers_of_the_grid_are_kept() -> None:
    grid = np.concatenate([fp8.numbers(), -fp8.numbers()])
    assert np.array_equal(Fp8().decode(Fp8().encode(grid, 1), grid.size), grid)
    whole = np.arange(-127, 128).astype(np.float32)
    assert np.array_equal(
        IntegerBlocks(8).decode(IntegerBlocks(8).encode(whole, 1), whole.size), whole
    )


def test_codes_are_those_of_the_format() -> None:
    """Another package reads the same numbers from the same bytes."""
    codes = np.arange(0x7F, dtype=np.uint8)
    assert np.array_equal(codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32), fp8.numbers())
    x = laplace(blocks.BLOCK)
    message = Fp8().encode(x, 1)
    scale = np.frombuffer(message, "<f4", 1)[0]
    read = np.frombuffer(message, np.uint8, offset=4).view(ml_dtypes.float8_e4m3fn)
    assert np.array_equal(read.astype(np.float32) * scale, Fp8().decode(message, x.size))


@pytest.mark.parametrize(
    ("bits", "error"), [(1, "0.3634"), (2, "0.1175"), (3, "0.03454"), (4, "0.009497")]
)
def test_the_best_levels_have_the_errors_that_max_printed(bits: int, error: str) -> None:
    """Table I of Max (1960)."""
    found = lloyd_max.quantiser(bits)
    assert found.error == pytest.approx(float(error), rel=2e-3)
    assert found.levels == pytest.approx(-found.levels[::-1])
    if bits == 1:
        assert found.levels[1] == pytest.approx(math.sqrt(2 / math.pi))
        assert eden.formula(1) == pytest.approx(math.pi / 2 - 1)
