"""The specification itself: exact probabilities, shown by counting draws."""

from dataclasses import dataclass

import numpy as np
import pytest

from fewbits import DecodeError, Rng
from fewbits.reference import casts
from fewbits.reference import natural as natural_reference
from fewbits.reference.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, FORMATS, Format

formats = pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)


@dataclass
class Fixed:
    """A stream that gives prepared words."""

    prepared: np.ndarray

    def words(self, first: int, count: int) -> np.ndarray:
        return self.prepared[first : first + count]


def with_draws(bits: np.ndarray, format: Format, draws: np.ndarray) -> np.ndarray:
    """Exponent codes for prepared draws of mantissa size."""
    draws = draws.astype(np.uint64)
    if format.mantissa <= 32:
        words = (draws << np.uint64(32 - format.mantissa)).astype(np.uint32)
    else:
        wide = draws << np.uint64(64 - format.mantissa)
        words = np.stack([wide & np.uint64(0xFFFFFFFF), wide >> np.uint64(32)], axis=1)
        words = words.reshape(-1).astype(np.uint32)
    return natural_reference.rounded(bits, format, Fixed(words)).exponents


@pytest.mark.parametrize("format", [FLOAT16, BFLOAT16], ids=lambda format: format.name)
@pytest.mark.parametrize("code", [0, 1, 9])
def test_of_all_draws_exactly_the_mantissa_go_up(format: Format, code: int) -> None:
    """Over all $2^m$ draws exactly $M$ carry: P(up) = M / 2^m, for every mantissa."""
    size = 1 << format.mantissa
    mantissas, draws = np.divmod(np.arange(size * size), size)
    bits = (mantissas | code << format.mantissa).astype(np.uint16)
    exponents = with_draws(bits, format, draws)
    assert set(np.unique(exponents)) == {code, code + 1}
    ups = (exponents == code + 1).reshape(size, size).sum(axis=1)
    assert np.array_equal(ups, np.arange(size))


@pytest.mark.parametrize("format", [FLOAT32, FLOAT64], ids=lambda format: format.name)
def test_wide_draws_carry_from_a_threshold_on(format: Format) -> None:
    """Up exactly if draw >= 2^m - M, checked at the threshold: again M of 2^m draws."""
    size = 1 << format.mantissa
    source = np.random.default_rng(1)
    chosen = [1, 2, size // 2 - 1, size // 2, size // 2 + 1, size - 2, size - 1]
    mantissas = np.array([*chosen, *source.integers(1, size, 1000)], np.uint64)
    bits = (mantissas | np.uint64(100 << format.mantissa)).astype(format.bits)
    threshold = np.uint64(size) - mantissas
    assert (with_draws(bits, format, threshold) == 101).all()
    assert (with_draws(bits, format, threshold - np.uint64(1)) == 100).all()
    assert (with_draws(bits, format, np.zeros_like(threshold)) == 100).all()
    assert (with_draws(bits, format, np.full_like(threshold, size - 1)) == 101).all()


def test_float32_goes_up_as_often_as_it_should() -> None:
    r"""With $N$ draws the frequency of a probability $p$ deviates by $\sqrt{p(1-p)/N}$."""
    count = 1 << 20
    for seed, mantissa in enumerate((1 << 13, 1 << 22, (1 << 22) + (1 << 15) - 1, (1 << 23) - 1)):
        bits = np.full(count, mantissa | 130 << 23, np.uint32)
        ups = (
            natural_reference.rounded(bits, FLOAT32, Rng.from_seed(seed)).exponents == 131
        ).mean()
        p = mantissa / 2**23
        assert abs(ups - p) <= 4 * np.sqrt(p * (1 - p) / count)
    # Eight random bits instead of 23 would be noticed at the third of these.
    p, coarse = ((1 << 22) + (1 << 15) - 1) / 2**23, (1 << 22) / 2**23
    assert abs(coarse - p) > 4 * np.sqrt(p * (1 - p) / count)


@formats
def test_the_special_values(format: Format) -> None:
    top, sign = format.top_code, format.sign
    patterns = {
        0: (0, 0),
        sign: (0, 0),
        format.largest_power: (top - 1, 0),
        format.largest_power | sign: (top - 1, 1),
        format.largest_power + 1: (top - 1, 0),
        (format.infinity - 1) | sign: (top - 1, 1),
        format.infinity: (top, 0),
        format.infinity | sign: (top, 0),
        format.quiet_nan | sign: (top, 0),
        sign - 1: (top, 0),
    }
    bits = np.array(list(patterns), format.bits)
    for rng in (None, Rng.from_seed(1)):
        result = natural_reference.rounded(bits, format, rng)
        codes = zip(result.exponents.tolist(), result.signs.tolist(), strict=True)
        assert list(codes) == list(patterns.values())
        assert (result.saturated, result.nonfinite) == (2, 4)
    decoded = natural_reference.values(result.exponents, result.signs, format)
    finite = [0, 0, *[format.largest_power, format.largest_power | sign] * 2]
    assert decoded.tolist() == finite + [format.quiet_nan] * 4


@formats
def test_ties_to_the_nearest_go_down(format: Format) -> None:
    half = 1 << (format.mantissa - 1)
    base = format.bias << format.mantissa
    bits = np.array([base + half - 1, base + half, base + half + 1], format.bits)
    exponents = natural_reference.rounded(bits, format, None).exponents
    assert exponents.tolist() == [format.bias, format.bias, format.bias + 1]


def test_casts_round_once() -> None:
    # 1 + 2^-11 + 2^-40 rounds up to the next float16; through float32 it would first become a tie.
    value = np.array([1 + 2.0**-11 + 2.0**-40])
    bits, _, _ = casts.cast(value.view(np.uint64), FLOAT64, FLOAT16)
    assert bits.view(np.float16)[0] == np.float16(1 + 2.0**-10)


def test_casts_between_all_numbers_of_sixteen_bits_are_numpys() -> None:
    patterns = np.arange(1 << 16, dtype=np.uint16)
    finite = np.isfinite(patterns.view(np.float16))
    bits, _, nonfinite = casts.cast(patterns, FLOAT16, FLOAT32)
    with np.errstate(invalid="ignore"):
        wanted = patterns.view(np.float16).astype(np.float32)
    assert np.array_equal(bits.view(np.float32)[finite], wanted[finite])
    assert nonfinite == (~finite).sum()
    back, saturated, _ = casts.cast(bits, FLOAT32, FLOAT16)
    assert np.array_equal(back[finite], patterns[finite])
    assert saturated == 0


def test_overflowing_casts_saturate_and_are_counted() -> None:
    values = np.array([65504, 65519.99, 65520, -1e300, np.inf, -np.inf, np.nan])
    bits, saturated, nonfinite = casts.cast(values.view(np.uint64), FLOAT64, FLOAT16)
    assert (saturated, nonfinite) == (2, 3)
    assert bits.view(np.float16)[:6].tolist() == [65504, 65504, 65504, -65504, np.inf, -np.inf]
    assert bits[6] == FLOAT16.quiet_nan


def test_signs_that_encode_cannot_write_are_refused() -> None:
    for code in (0, 255):
        with pytest.raises(DecodeError, match="a sign is set"):
            natural_reference.values(np.uint16([code]), np.uint16([1]), FLOAT32)
