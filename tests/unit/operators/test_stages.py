"""The laws of the stages, and what a composition promises."""

import math
from fractions import Fraction

import numpy as np
import pytest

import fewbits
from cases import array, exact
from fewbits import Rng
from fewbits.core.composition import Composed
from fewbits.operators.identity import Identity
from fewbits.operators.natural import Natural
from fewbits.operators.rand_k import RandK
from fewbits.operators.top_k import TopK
from fewbits.reference.formats import FORMATS, Format
from native_tables import drawn_places as places

formats = pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)


def carried(x: np.ndarray, spec: str, seed: int = 1) -> np.ndarray:
    return exact(fewbits.decompress(fewbits.compress(x, spec, seed=seed, nonfinite="carry")))


def error(x: np.ndarray, y: np.ndarray) -> float:
    return float(((y - exact(x)) ** 2).sum() / (exact(x) ** 2).sum())


# ---- top-k ----


@formats
def test_top_k_keeps_exactly_the_largest(format: Format) -> None:
    x = array(np.random.default_rng(2).standard_normal(1000), format)
    y = carried(x, "top-k:fraction=0.03|identity")
    order = sorted(range(1000), key=lambda i: (-abs(exact(x)[i]), i))
    kept = np.zeros(1000, bool)
    kept[order[:30]] = True
    assert np.array_equal(y[kept], exact(x)[kept])
    assert not y[~kept].any()
    assert not np.signbit(y[~kept]).any()


def test_ties_go_to_the_lower_index() -> None:
    x = np.float32([1, -2, 2, -2, 1, 2, 0, 0, 0, 0])
    assert np.flatnonzero(carried(x, "top-k:fraction=0.3|identity")).tolist() == [1, 2, 3]
    assert np.flatnonzero(carried(x, "top-k:fraction=0.5|identity")).tolist() == [0, 1, 2, 3, 5]


def test_the_fraction_is_rounded_and_never_none() -> None:
    for d, fraction, k in ((0, 0.1, 0), (1, 0.01, 1), (149, 0.01, 1), (150, 0.01, 2), (9, 1.0, 9)):
        assert TopK(fraction).reduced(d) == RandK(fraction).reduced(d) == k
    assert TopK(0.07).reduced(100) == 7  # 0.07 * 100 is above 7 in binary


def test_top_k_promises_what_theory_says() -> None:
    for inner, one in ((Identity(), 0.0), (Natural(), 1 / 8), (Natural("nearest"), 1 / 9)):
        promise = Composed((TopK(0.25),), inner).guarantee(1000)
        assert promise.alpha == pytest.approx(1 - 0.25 * (1 - one))
        assert promise.omega is None
        assert promise.sure == (inner != Natural())
    everything = Composed((TopK(1.0),), Natural()).guarantee(1000)
    assert (everything.omega, everything.alpha) == (1 / 8, None)
    # An inner error above 1 is worst where nothing is dropped.
    wild = fewbits.operator("top-k:fraction=0.5|rand-k:fraction=0.25|identity").guarantee(1000)
    assert wild.alpha == pytest.approx(3, rel=1e-6)


def test_places_of_a_frame_cost_what_is_promised() -> None:
    for d, fraction in ((1000, 0.01), (65_536, 0.01), (65_536, 0.3), (65_536, 0.7), (10**6, 0.001)):
        x = np.random.default_rng(d).standard_normal(d).astype(np.float32)
        info = fewbits.inspect(fewbits.compress(x, f"top-k:fraction={fraction}|identity"))
        k = info.sections["values"] // 4
        least = (math.lgamma(d + 1) - math.lgamma(k + 1) - math.lgamma(d - k + 1)) / math.log(2)
        most = least + 0.56 * min(k, d - k) + 24
        assert least <= 8 * info.sections["top-k.places"] <= most


def test_what_is_not_finite_is_kept_first() -> None:
    x = np.arange(100, dtype=np.float32)
    x[[3, 50]] = np.nan, -np.inf
    y = carried(x, "top-k:fraction=0.03|identity")
    assert np.isnan(y[3])
    assert y[50] == -np.inf
    assert y[99] == 99
    x[:60] = np.inf
    assert np.isinf(carried(x, "top-k:fraction=0.03|natural:rounding=nearest")).sum() == 0
    assert np.isnan(carried(x, "top-k:fraction=0.03|natural:rounding=nearest")).sum() == 3
    with pytest.raises(fewbits.EncodeError, match="60 of 100 values are NaN or infinite"):
        fewbits.compress(x, "top-k:fraction=0.03|natural")


# ---- rand-k ----


def test_rand_k_multiplies_a_uniform_set() -> None:
    r"""Every place is kept with probability k/d, and every pair with k (k-1) / (d (d-1))."""
    d, k, trials = 12, 5, 4000
    together = np.zeros((d, d))
    for seed in range(trials):
        mask = np.zeros(d)
        chosen = places(Rng.from_seed(seed), d, k)
        assert chosen.size == k
        assert (np.diff(chosen.astype(int)) > 0).all()
        mask[chosen] = 1
        together += np.outer(mask, mask)
    single, pair = k / d, k * (k - 1) / (d * (d - 1))
    wanted = np.where(np.eye(d, dtype=bool), single, pair)
    deviation = np.sqrt(wanted * (1 - wanted) / trials)
    # Of 78 different numbers the largest is within 4 deviations with probability 99.5 %.
    assert (np.abs(together / trials - wanted) <= 4 * deviation).all()


def test_rand_k_sends_a_key_and_no_places() -> None:
    x = np.random.default_rng(1).standard_normal(1000).astype(np.float32)
    frame = fewbits.compress(x, "rand-k:fraction=0.25|identity", seed=5)
    assert fewbits.inspect(frame).sections == {"rand-k.key": 16, "values": 1000}
    y = fewbits.decompress(frame)
    kept = np.flatnonzero(y)
    assert kept.size == 250
    assert np.array_equal(y[kept], 4 * x[kept])
    stream = Rng.from_seed(5).fork(0, 0)
    assert np.array_equal(kept, places(stream, 1000, 250))
    assert stream.key in frame
    assert Rng.from_seed(5).key not in frame


@pytest.mark.parametrize("factor", [2, 4, 8])
def test_theorem_5_is_an_equality_where_both_bounds_are_tight(factor: int) -> None:
    r"""$(1 + \omega_1)(1 + \omega_2) = \tfrac98\,d/k$ where $|x_i| = \tfrac43 2^j$, $d/k = 2^i$."""
    operator = Composed((RandK(1 / factor),), Natural())
    d, trials = 4096, 200
    omega = operator.guarantee(d).omega
    assert omega == factor * (1 + 1 / 8) - 1
    x = np.full(d, 4 / 3, np.float32)
    frames = (fewbits.compress(x, operator, seed=seed) for seed in range(trials))
    errors = np.array([error(x, exact(fewbits.decompress(frame))) for frame in frames])
    assert abs(errors.mean() - omega) <= 4 * errors.std() / math.sqrt(trials) + 1e-6
    assert errors.std() > 0


def test_compositions_of_unbiased_stages_multiply() -> None:
    operator = fewbits.operator("rand-k:fraction=0.5|rand-k:fraction=0.25|natural")
    assert operator.guarantee(64).omega == pytest.approx(2 * 4 * 9 / 8 - 1)
    contractive = fewbits.operator("rand-k:fraction=0.5|natural:rounding=nearest").guarantee(64)
    assert contractive.alpha == pytest.approx((1 + math.sqrt(2 / 9)) ** 2)
    assert not contractive.sure


def test_a_dropped_value_that_is_not_finite_shows() -> None:
    for seed in range(20):
        x = np.ones(50, np.float32)
        x[seed] = np.inf
        y = carried(x, "rand-k:fraction=0.1|identity", seed)
        assert np.isnan(y).sum() == 5
        assert not y[np.isfinite(y)].any()


# ---- hadamard ----


def test_hadamard_keeps_the_error_of_the_operator_after_it() -> None:
    x = np.random.default_rng(3).standard_normal(8192).astype(np.float32) ** 3
    plain, turned = (error(x, carried(x, spec)) for spec in ("bfloat16", "hadamard|bfloat16"))
    assert 0.2 * plain < turned < 5 * plain
    one_hot = np.zeros(4096, np.float32)
    one_hot[7] = 3
    y = carried(one_hot, "hadamard:block=1024|identity")
    assert np.linalg.norm(y - one_hot) < 1e-5
    # Before top-k the rotation spreads one value over its block: a tenth of it is kept.
    spread = error(one_hot, carried(one_hot, "hadamard:block=4096|top-k|identity"))
    assert spread == pytest.approx(0.9, abs=0.001)


def test_common_signs_are_common_and_private_ones_are_not() -> None:
    x = np.random.default_rng(3).standard_normal(500).astype(np.float32)
    first, second = (fewbits.compress(x, "hadamard|identity", seed=seed) for seed in (1, 2))
    assert first == second
    private = "hadamard:signs=private|identity"
    first, second = (fewbits.compress(x, private, seed=seed) for seed in (1, 2))
    assert first[-1000:] != second[-1000:]
    assert fewbits.inspect(first).sections["hadamard.key"] == 16


@formats
def test_hadamard_promises_a_little_more_than_the_operator(format: Format) -> None:
    promise = fewbits.operator("hadamard|natural").guarantee(10_000, format)
    assert 1 / 8 < promise.omega < 1 / 8 * (1.1 if format.mantissa < 23 else 1.00002)
    assert 0 < fewbits.operator("hadamard|identity").guarantee(100, format).omega < 1e-3
    sure = fewbits.operator("hadamard|natural:rounding=nearest").guarantee(100, format)
    assert sure.sure
    assert sure.alpha > 1 / 9


def test_sections_of_stages_that_repeat_have_names_of_their_own() -> None:
    spec = "hadamard:signs=private|hadamard:signs=private|top-k|natural"
    frame = fewbits.compress(np.ones(100, np.float32), spec, seed=1)
    names = list(fewbits.inspect(frame).sections)
    assert names == ["hadamard.key", "hadamard-2.key", "top-k.places", "exponents", "signs"]
    keys = fewbits.decompress(frame)
    assert keys.shape == (100,)
    first, second = (Rng.from_seed(1).fork(0, number).key for number in (0, 1))
    assert first in frame
    assert second in frame


# ---- a counter-example ----


def test_stochastic_integer_rounding_has_no_omega() -> None:
    r"""C_int is unbiased, but $E\,C(x)^2 / x^2 = 1/x$ on (0, 1): no constant bounds it.

    The law is exact: x in (0, 1) becomes 1 with probability x and 0 otherwise. Natural compression
    of the same numbers has a relative variance of at most 1/8.
    """
    for exponent in (1, 4, 10, 40):
        x = Fraction(4, 3) / 2**exponent
        law = {1: x, 0: 1 - x}
        assert sum(value * chance for value, chance in law.items()) == x
        variance = sum((value - x) ** 2 * chance for value, chance in law.items())
        assert variance / x**2 == 1 / x - 1
        low, high = Fraction(1, 2**exponent), Fraction(2, 2**exponent)
        rise = (x - low) / (high - low)
        ours = ((high - x) ** 2 * rise + (low - x) ** 2 * (1 - rise)) / x**2
        assert ours == Fraction(1, 8)
    assert 1 / x - 1 > 10**11  # beyond any omega that one would state
