"""Natural compression against its theory.

Tolerances: a mean over N independent draws deviates by four standard errors; the standard
deviation of one draw's relative squared error is below 1 for every vector here.
"""

import numpy as np
import pytest

import fewbits
import native_tables as native
from cases import array, bits, exact, mixed_bits, sealed
from fewbits import DecodeError
from fewbits.operators.natural import Natural
from fewbits.reference.formats import FLOAT16, FLOAT32, FLOAT64, FORMATS, Format
from fewbits.wire import frame as wire

formats = pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
N = 1_000_000


def sent(x: np.ndarray, spec: str = "natural", seed: int = 1) -> np.ndarray:
    return exact(fewbits.decompress(fewbits.compress(x, spec, seed=seed)))


def relative_error(x: np.ndarray, y: np.ndarray) -> float:
    return float(((y - exact(x)) ** 2).sum() / (exact(x) ** 2).sum())


@formats
def test_powers_of_two_are_fixed(format: Format) -> None:
    codes = np.arange(1, format.top_code, dtype=np.uint64) << np.uint64(format.mantissa)
    signed = np.concatenate([codes, codes | np.uint64(format.sign)]).astype(format.bits)
    x = signed.view(array([], format).dtype)
    for spec in ("natural", "natural:rounding=nearest"):
        for seed in range(5):
            y = fewbits.decompress(fewbits.compress(x, spec, seed=seed))
            assert np.array_equal(bits(y), signed)


@formats
def test_outputs_are_the_neighbouring_powers(format: Format) -> None:
    x = array(np.random.default_rng(1).standard_normal(5000), format)
    y = sent(x)
    ratio = y / exact(x)
    assert ((ratio > 0.5) & (ratio <= 2)).all()
    mantissa, _ = np.frexp(y)
    assert np.isin(mantissa, [0.5, -0.5]).all()
    lower = 2.0 ** np.floor(np.log2(np.abs(exact(x))))
    assert ((np.abs(y) == lower) | (np.abs(y) == 2 * lower)).all()


@pytest.mark.parametrize("power", [-100, -3, 0, 90])
def test_four_thirds_has_the_largest_variance(power: int) -> None:
    """Relative squared error 1/16 or 1/4, mean 1/8, deviation 0.088: 0.07 % of 1/8 at N draws."""
    x = np.full(N, 4 / 3 * 2.0**power, np.float32)
    y = sent(x)
    assert relative_error(x, y) == pytest.approx(1 / 8, rel=0.01)
    # One draw's relative deviation is 0.354.
    assert y.mean() / float(x[0]) == pytest.approx(1, abs=4 * 0.354 / np.sqrt(N))


def test_gaussian_vectors_lose_less() -> None:
    """0.0818 in theory: d / 3 effective terms of relative deviation below 1.5, four errors 1 %."""
    x = array(np.random.default_rng(2).standard_normal(N), FLOAT32)
    error = relative_error(x, sent(x))
    assert error == pytest.approx(0.0818, rel=0.011)
    assert error < 1 / 8


def test_the_variance_of_one_value_is_its_formula() -> None:
    for t in (1.01, 1.25, 1.6, 1.99):
        x = np.full(N, t, np.float64)
        variance = ((sent(x) - t) ** 2).mean()
        expected = (t - 1) * (2 - t)
        up = t - 1
        # The squared error is (2-t)^2 with probability t-1, else (t-1)^2.
        spread = np.sqrt(up * (1 - up)) * abs((2 - t) ** 2 - (t - 1) ** 2)
        assert abs(variance - expected) <= 4 * spread / np.sqrt(N) + 1e-12


@pytest.mark.parametrize("fraction", [0.01, 0.25, 0.5, 0.9])
@formats
def test_subnormal_numbers_round_to_the_ends_without_bias(format: Format, fraction: float) -> None:
    pattern = max(1, int(fraction * 2**format.mantissa))
    p = pattern / 2**format.mantissa
    count = 200_000
    for sign in (0, format.sign):
        x = np.full(count, pattern | sign, format.bits).view(array([], format).dtype)
        y = bits(fewbits.decompress(fewbits.compress(x, "natural", seed=pattern)))
        one = 1 << format.mantissa
        assert set(np.unique(y).tolist()) == {0, one | sign}
        assert abs((y == one | sign).mean() - p) <= 4 * np.sqrt(p * (1 - p) / count)


def test_values_above_the_largest_power_become_it() -> None:
    x = np.array([2.0**127, 2.0**127 * 1.5, -3.0e38], np.float32)
    with pytest.warns(fewbits.SaturationWarning, match="2 of 3 values exceed the range of natural"):
        frame = fewbits.compress(x, "natural", seed=1)
    assert fewbits.decompress(frame).tolist() == [2.0**127, 2.0**127, -(2.0**127)]


def test_the_nearest_power_is_never_a_third_away() -> None:
    x = array(np.random.default_rng(3).standard_normal(100_000), FLOAT64)
    y = sent(x, "natural:rounding=nearest")
    assert (np.abs(y - x) <= np.abs(x) / 3).all()
    tie = np.full(10, -1.5 * 2.0**7, np.float32)
    assert sent(tie, "natural:rounding=nearest").tolist() == [-(2.0**7)] * 10
    assert relative_error(tie, sent(tie, "natural:rounding=nearest")) == pytest.approx(1 / 9)


def test_every_float16_goes_to_its_nearest_power() -> None:
    patterns = np.arange(FLOAT16.largest_power + 1, dtype=np.uint16)
    x = patterns.view(np.float16)
    y = sent(x, "natural:rounding=nearest")
    powers = np.concatenate([[0.0], 2.0 ** np.arange(-14, 16)])
    distance = np.abs(exact(x)[:, None] - powers)
    assert np.array_equal(np.abs(y - exact(x)), distance.min(axis=1))
    assert np.array_equal(y, powers[distance.argmin(axis=1)]), "ties go to the smaller"


def test_minus_zero_becomes_zero() -> None:
    y = fewbits.decompress(fewbits.compress(np.float32([-0.0, 0.0]), "natural"))
    assert bits(y).tolist() == [0, 0]


def test_nan_and_infinity_become_the_quiet_nan() -> None:
    x = np.float32([np.nan, np.inf, -np.inf])
    y = fewbits.decompress(fewbits.compress(x, "natural", nonfinite="carry"))
    assert bits(y).tolist() == [FLOAT32.quiet_nan] * 3


@formats
@pytest.mark.parametrize("seed", range(20))
def test_what_decodes_is_what_encodes(format: Format, seed: int) -> None:
    """A frame of noise that is accepted is the frame of its own vector: one spelling each."""
    source = np.random.default_rng(seed)
    frame = fewbits.compress(array(np.ones(21), format), "natural", seed=1)
    head = len(frame) - 4 - sum(fewbits.inspect(frame).sections.values())
    size = len(frame) - 4 - head
    accepted = 0
    for _ in range(40):
        noise = source.integers(0, 256, size, dtype=np.uint8)
        noise[source.random(size) < 0.7] = 0
        framed = sealed(frame[:head] + noise.tobytes())
        try:
            y = fewbits.decompress(framed)
        except DecodeError:
            continue
        accepted += 1
        assert fewbits.compress(y, "natural", seed=2) == framed
    zeros = sealed(frame[:head] + bytes(size))
    assert fewbits.compress(fewbits.decompress(zeros), "natural") == zeros


@formats
def test_bits_a_value(format: Format) -> None:
    frame = fewbits.compress(array(np.ones(8000), format), "natural")
    assert fewbits.inspect(frame).sections == {
        "exponents": 1000 * format.exponent,
        "signs": 1000,
    }


def test_the_two_roundings_differ() -> None:
    x = mixed_bits(FLOAT32, 500, seed=1, rare=0.0).view(np.float32)
    assert not np.array_equal(sent(x), sent(x, "natural:rounding=nearest"))
    assert Natural().guarantee(10).omega == 1 / 8
    assert Natural("nearest").guarantee(10).alpha == 1 / 9


def test_rounding_to_integers_instead_has_no_bound() -> None:
    r"""For $0 < x < 1$ unbiased rounding to integers has $E C(x)^2 / x^2 = 1 / x$, unbounded.

    One draw of $C(x)^2 / x^2$ deviates by $\sqrt{x (1 - x)} / x^2$.
    """
    source = np.random.default_rng(4)
    for x in (0.5, 0.1, 0.01):
        draws = (source.random(N) < x).astype(float)
        assert draws.mean() == pytest.approx(x, abs=4 * np.sqrt(x * (1 - x) / N))
        ratio = (draws**2).mean() / x**2
        assert abs(ratio - 1 / x) <= 4 * np.sqrt(x * (1 - x) / N) / x**2
    assert ratio > 80 * 9 / 8


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("change", ["first", "last", "more", "less"])
def test_lengths_of_blocks_are_judged_alike_by_any_number_of_threads(
    change: str, threads: int
) -> None:
    x = np.random.default_rng(1).standard_normal(9 * 65_536 + 5).astype(np.float32)
    frame = np.frombuffer(fewbits.compress(x, "natural:coder=rans", seed=1), np.uint8)
    assert fewbits.decompress(frame, threads=threads).tobytes() == (
        fewbits.decompress(fewbits.compress(x, "natural", seed=1)).tobytes()
    )
    parsed = wire.parse(frame, x.size)
    (section,) = parsed.sections
    damaged = section.copy()
    if change == "first":
        damaged[0] ^= 1
    elif change == "last":  # the last block has five codes and three bytes of length before it
        damaged[-(1 + 5 + 1 + 3)] ^= 1
    elif change == "more":
        damaged = np.append(damaged, np.uint8(0))
    else:
        damaged = damaged[:-1]
    out = np.empty(x.size, np.uint32)
    with pytest.raises(DecodeError, match="blocks do not fill the section"):
        native.coded_decode(damaged, FLOAT32, out, threads=threads)
