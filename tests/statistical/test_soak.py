"""The constants and the random streams again, with ten million draws and more.

Bounds are six standard errors: P(|z| > 6) = 2e-9.
"""

import numpy as np
import pytest

import fewbits
from cases import ROW_IDS, ROWS, Case, array, exact, shapes_of_vector
from fewbits import Rng
from fewbits.reference.formats import FLOAT32, FORMATS, Format
from statistical import battery

pytestmark = pytest.mark.soak
N = 10_000_000
rows = pytest.mark.parametrize(("case", "format"), ROWS, ids=ROW_IDS)


def sent(x: np.ndarray, spec: str = "natural", seed: int = 1) -> np.ndarray:
    return exact(fewbits.decompress(fewbits.compress(x, spec, seed=seed)))


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
@pytest.mark.parametrize("value", [1.001, 1.1, 4 / 3, 1.5, 1.75, 1.999])
def test_one_value_has_its_mean_and_its_variance(format: Format, value: float) -> None:
    x = array([value], format).repeat(N)
    t = float(exact(x[:1])[0])
    up = t - 1
    y = sent(x)
    assert abs(y.mean() - t) <= 6 * np.sqrt(up * (1 - up) / N)
    spread = np.sqrt(up * (1 - up)) * abs((2 - t) ** 2 - up**2)
    assert abs(((y - t) ** 2).mean() - up * (2 - t)) <= 6 * spread / np.sqrt(N) + 1e-12


def test_eight_random_bits_would_be_noticed() -> None:
    """Rounding with the top eight bits of the draw only is off by up to 2^-8 at this mantissa."""
    p = 0.5 + (2**15 - 1) / 2**23
    draws = Rng.from_seed(3).words(0, N) >> np.uint32(24)
    coarse = (draws + np.uint32(int(p * 256)) >= 256).mean()
    assert abs(coarse - p) > 6 * np.sqrt(p * (1 - p) / N)


def test_a_gaussian_vector_loses_what_theory_says() -> None:
    x = array(np.random.default_rng(1).standard_normal(N), FLOAT32)
    error = ((sent(x) - exact(x)) ** 2).sum() / (exact(x) ** 2).sum()
    assert error == pytest.approx(0.0818, rel=0.005)


@rows
@pytest.mark.parametrize("shape", tuple(shapes_of_vector(8)))
def test_bounds_hold_over_many_frames(case: Case, format: Format, shape: str) -> None:
    d, trials = 64, 10_000 if case.stochastic else 1
    x = array(shapes_of_vector(d)[shape], format)
    promise = case.operator.guarantee(d, format)
    total, errors = np.zeros(d), np.zeros(trials)
    for seed in range(trials):
        y = exact(fewbits.decompress(fewbits.compress(x, case.operator, seed=seed)))
        total += y
        errors[seed] = ((y - exact(x)) ** 2).sum() / (exact(x) ** 2).sum()
    assert errors.mean() <= promise.error + 6 * errors.std() / np.sqrt(trials)
    if promise.omega is not None:
        bias = np.linalg.norm(total / trials - exact(x)) / np.linalg.norm(exact(x))
        assert bias <= 6 * np.sqrt(promise.omega / trials)


def test_words_are_uniform_in_every_eight_bits() -> None:
    for seed in range(6):
        words = battery.ours(Rng.from_seed(seed).key, seed << 31, N)
        for shift in range(0, 25, 3):
            assert abs(battery.chi_square(words, shift)) < 6


def test_neighbouring_words_are_independent() -> None:
    words = battery.ours(Rng.from_seed(1).key, 0, N)
    for lag in (1, 2, 4, 8, 32):
        pairs = (words[:-lag] >> np.uint32(28)) << np.uint32(4) | words[lag:] >> np.uint32(28)
        assert abs(battery.chi_square(pairs.astype(np.uint32), 0)) < 6


@pytest.mark.parametrize("low", [False, True], ids=["word", "lower half"])
def test_many_streams_do_not_correlate(low: bool) -> None:
    for root in range(4):
        keys = [Rng.from_seed(root).fork(3, rank).key for rank in range(100)]
        for table in battery.correlations(battery.ours, keys, 1 << 16, low):
            assert np.abs(table).max() < 6.5  # 3e5 scores in all
            assert abs((table**2).mean() - 1) < 6 * np.sqrt(2 / table.size)


def test_no_streams_overlap_among_many() -> None:
    keys = [Rng.from_seed(2).fork(rank).key for rank in range(10_000)]
    # 5e7 pairs * (2^-17)^2 / 2: 0.001 expected.
    assert battery.overlaps(battery.ours, keys, 1 << 15) == 0


def test_bits_of_two_streams_differ_in_half_of_their_places() -> None:
    for seed in range(50):
        first, second = (battery.ours(Rng.from_seed(seed + n).key, 0, 1 << 18) for n in (0, 1))
        different = np.unpackbits((first ^ second).view(np.uint8)).reshape(-1, 32).mean(axis=0)
        assert np.abs(different - 0.5).max() <= 6 * 0.5 / np.sqrt(1 << 18)
