"""Sums of powers of two as integers: the reference's law, and native code with its bits."""

import numpy as np
import pytest

from fewbits import DecodeError, Rng, SpecError
from fewbits.backend import switch as native_switch
from fewbits.reference import natural as natural_reference
from fewbits.reference import switching
from fewbits.reference.formats import FLOAT32
from fewbits.reference.switching import MOST_SUM, SIGN, CodeTally, ExponentSpan

RNG = Rng.from_seed(11).fork("switch")
LENGTHS = (0, 1, 3, 4, 5, 15, 16, 17, 31, 32, 33, 63, 65, 1000, 4099)
WORKERS = (1, 2, 3, 4, 7, 8, 9, 63, 64)
NATIVE = pytest.mark.usefixtures("simd")


def values(size: int, seed: int, low: int = -60, high: int = 14) -> np.ndarray:
    """Values inside, below and above every span, zeros, and some that are not finite."""
    source = np.random.default_rng(seed)
    x = source.standard_normal(size) * 2.0 ** source.integers(low, high, size)
    x = x.astype(np.float32)
    for start, step, value in ((0, 7, 0.0), (3, 50, np.nan), (4, 91, 1e-42), (5, 77, -np.inf)):
        x[start::step] = value
    return x


def decoded(codes: np.ndarray, span: ExponentSpan) -> np.ndarray:
    """What a worker's codes stand for."""
    magnitude = (codes & 127).astype(np.int64)
    powers = np.where(magnitude > 0, np.ldexp(1.0, magnitude - 1 + span.bottom), 0.0)
    return np.where(codes & SIGN, -powers, powers)


def exact(sums: np.ndarray) -> np.ndarray:
    return np.array([int(s) for s in sums], object)


# ---- the span ----


@pytest.mark.parametrize("workers", range(1, 65))
def test_no_sum_overflows_and_no_larger_span_is_safe(workers: int) -> None:
    span = ExponentSpan(workers)
    assert workers * 2 ** (span.most - 1) <= 2**63 - 1 < workers * 2**span.most
    assert span.top - span.bottom == span.most - 1


def test_the_spans_of_the_usual_numbers_of_workers() -> None:
    widths = {n: ExponentSpan(n).most - 1 for n in (2, 4, 7, 8, 16, 32, 64)}
    assert widths == {2: 61, 4: 60, 7: 60, 8: 59, 16: 58, 32: 57, 64: 56}


@pytest.mark.parametrize(("workers", "top"), [(0, 10), (65, 10), (2, 49), (2, -65)])
def test_spans_that_make_no_sense_are_refused(workers: int, top: int) -> None:
    with pytest.raises(SpecError):
        ExponentSpan(workers, top)


# ---- native code has the reference's bits ----


@NATIVE
@pytest.mark.parametrize("workers", WORKERS)
def test_codes_are_the_references_at_every_length(workers: int) -> None:
    span = ExponentSpan(workers)
    for size in LENGTHS:
        bits = values(size, size).view(np.uint32)
        expected, met = switching.encode(bits, span, RNG, 5)
        codes = np.empty(size, np.uint8)
        assert native_switch.encode(bits, span, RNG, codes, 5) == met
        assert np.array_equal(codes, expected)
    assert met.saturated > 0
    assert met.below > 0
    assert met.nonfinite > 0


@NATIVE
def test_values_that_all_fit_are_the_natural_operators() -> None:
    x = (np.random.default_rng(3).standard_normal(4099) / 100).astype(np.float32)
    span, codes = ExponentSpan(4), np.empty(4099, np.uint8)
    met = native_switch.encode(x.view(np.uint32), span, RNG, codes)
    natural = natural_reference.rounded(x.view(np.uint32), FLOAT32, RNG)
    expected = natural_reference.values(natural.exponents, natural.signs, FLOAT32).view(np.float32)
    assert met == CodeTally()
    assert np.array_equal(decoded(codes, span), expected)


@NATIVE
def test_a_stream_may_cross_a_segment() -> None:
    first, x = 2**32 - 40, values(100, 1).view(np.uint32)
    expected, _ = switching.encode(x, ExponentSpan(2), RNG, first)
    codes = np.empty(100, np.uint8)
    native_switch.encode(x, ExponentSpan(2), RNG, codes, first)
    assert np.array_equal(codes, expected)
    sums = np.arange(-50, 50, dtype=np.int64) * 10**12
    out = np.empty(100, np.uint8)
    native_switch.round_sums(sums, RNG, out, 2**31 - 20)
    assert np.array_equal(out, switching.round_sums(sums, RNG, 2**31 - 20))


@NATIVE
def test_sums_are_the_references_at_every_length() -> None:
    span = ExponentSpan(3)
    for size in LENGTHS:
        codes = [values(size, seed).view(np.uint32) for seed in (1, 2, 3)]
        codes = [switching.encode(x, span, RNG)[0] for x in codes]
        expected, sums = np.zeros(size, np.int64), np.full(size, -1)
        for number, own in enumerate(codes):
            switching.add(own, span, expected)
            native_switch.add(own, span, sums, anew=number == 0)
        assert np.array_equal(sums, expected)
        out = np.empty(size, np.uint8)
        native_switch.round_sums(sums, RNG, out, 9)
        assert np.array_equal(out, switching.round_sums(sums, RNG, 9))


@NATIVE
@pytest.mark.parametrize("workers", range(2, 65))
def test_the_corner_of_64_bits_is_exact(workers: int) -> None:
    span = ExponentSpan(workers)
    for sign in (0, SIGN):
        codes = np.full(37, sign + span.most, np.uint8)
        codes[1] = sign + 1
        sums = np.zeros(37, np.int64)
        for worker in range(workers):
            native_switch.add(codes, span, sums, anew=worker == 0)
        way = -1 if sign else 1
        total = way * workers * 2 ** (span.most - 1)
        assert (exact(sums)[[0, 2, 36]] == total).all()
        assert sums[1] == way * workers
        out = np.empty(37, np.uint8)
        native_switch.round_sums(sums, RNG, out)
        assert np.array_equal(out, switching.round_sums(sums, RNG))
        width = abs(total).bit_length()
        assert set(out[[0, *range(2, 37)]] & 127) <= {width, width + (abs(total) % 2**width > 0)}
        assert (out & 127).max() <= MOST_SUM
        assert ((out & SIGN) == sign).all()


@NATIVE
@pytest.mark.parametrize("place", [0, 31, 32, 40])
@pytest.mark.parametrize("code", [SIGN, 64 - 2, SIGN + 62, 127, 255])
def test_codes_that_no_worker_sends_are_refused_and_change_nothing(place: int, code: int) -> None:
    span = ExponentSpan(4)  # its largest code is 61
    codes, sums = np.full(41, 61, np.uint8), np.arange(41)
    native_switch.add(codes, span, sums.copy())
    codes[place] = code
    with pytest.raises(DecodeError):
        native_switch.add(codes, span, sums)
    assert np.array_equal(sums, np.arange(41))


@NATIVE
def test_means_are_powers_of_two_over_the_workers() -> None:
    span = ExponentSpan(3)
    codes = np.array([0, 1, 64, SIGN + 1, SIGN + 62], np.uint8)
    out = np.empty(5, np.float32)
    native_switch.decode(codes, switching.values_table(span), out.view(np.uint32))
    powers = np.ldexp(1.0, np.array([0, 0, 63, 0, 61]) + span.bottom) * [0, 1, 1, -1, -1]
    assert np.array_equal(out, powers.astype(np.float32) / np.float32(3))
    with pytest.raises(DecodeError):
        native_switch.decode(
            np.array([65], np.uint8), switching.values_table(span), out[:1].view("u4")
        )


# ---- the law ----


@pytest.mark.parametrize("codes", [(1, 2), (3, 1), (4, SIGN + 1), (5, 2), (SIGN + 6, SIGN + 3)])
def test_every_draw_of_a_small_sum_gives_the_law_of_natural_compression(codes: tuple) -> None:
    """All equally likely draws are tried, so the probabilities are exact."""
    span, total = ExponentSpan(2), np.zeros(1, np.int64)
    for code in codes:
        switching.add(np.array([code], np.uint8), span, total)
    size = abs(int(total[0]))
    k = size.bit_length() - 1
    draws = np.arange(2**k, dtype=np.uint64)
    out = switching.round_with(np.repeat(total, 2**k), draws)
    up = int(((out & 127) == k + 2).sum())
    assert up == size - 2**k  # of 2^k
    assert int(((out & 127) == k + 1).sum()) == 2**k - up
    assert ((out & SIGN > 0) == (total[0] < 0)).all()
    means = np.ldexp(1.0, (out & 127).astype(int) - 1).mean()
    assert means == size


def test_bits_above_the_sums_top_do_not_count() -> None:
    sums = np.array([5, 6, 7, 4, 0, -1])
    noise = np.uint64(0xFFFF_FFFF_FFFF_FFFC)
    low = switching.round_with(sums, np.zeros(6, np.uint64))
    assert np.array_equal(low, switching.round_with(sums, np.full(6, noise)))
    assert low.tolist() == [3, 3, 3, 3, 0, SIGN + 1]


@NATIVE
def test_below_the_span_rounding_is_unbiased() -> None:
    """t becomes 2^b with probability t / 2^b: within 5 standard errors of N = 2^18 draws."""
    count, span = 2**18, ExponentSpan(2)
    for share in (0.75, 0.3, 1 / 64):
        x = np.full(count, share * 2.0**span.bottom, np.float32)
        codes = np.empty(count, np.uint8)
        met = native_switch.encode(x.view(np.uint32), span, RNG.fork(str(share)), codes)
        assert met.below == count
        assert set(codes.tolist()) == {0, 1}
        error = np.sqrt(share * (1 - share) / count)
        assert abs(codes.mean() - share) < 5 * error


@NATIVE
def test_far_below_the_span_everything_is_zero_and_counted() -> None:
    x = np.full(1000, 1e-38, np.float32)
    codes = np.ones(1000, np.uint8)
    assert native_switch.encode(x.view(np.uint32), ExponentSpan(2), RNG, codes).below == 1000
    assert not codes.any()


@NATIVE
def test_above_the_span_values_saturate_after_rounding() -> None:
    span = ExponentSpan(2)
    top = 2.0**span.top
    x = np.array([top, 1.25 * top, 2 * top, -3 * top, 1e30] * 40, np.float32)
    codes = np.empty(200, np.uint8)
    met = native_switch.encode(x.view(np.uint32), span, RNG, codes)
    assert set((codes & 127).tolist()) == {span.most}
    assert ((codes & SIGN > 0) == (x < 0)).all()
    ups = met.saturated - 120  # of 1.25 top, a quarter of 40 round up; 5 standard errors
    assert abs(ups - 10) < 5 * np.sqrt(40 * 0.25 * 0.75)


@NATIVE
@pytest.mark.parametrize("workers", [2, 5, 16])
def test_the_aggregate_has_the_law_of_natural_compression_of_the_sum(workers: int) -> None:
    """Unbiased, with the variance (|S| - 2^k)(2^(k+1) - |S|) of each sum: 5 standard errors.

    The zero map has no mean, the identity no variance.
    """
    count, span = 2**17, ExponentSpan(workers)
    source = np.random.default_rng(workers)
    sums = np.zeros(count, np.int64)
    for worker in range(workers):
        x = (source.standard_normal(count) / 50).astype(np.float32)
        codes = np.empty(count, np.uint8)
        native_switch.encode(x.view(np.uint32), span, RNG.fork(worker), codes)
        native_switch.add(codes, span, sums, anew=worker == 0)
    out = np.empty(count, np.uint8)
    native_switch.round_sums(sums, RNG.fork("sum"), out)
    total = sums * 2.0**span.bottom
    error = decoded(out, span) - total
    magnitude = np.abs(total)
    lower = 2.0 ** np.floor(np.log2(np.where(magnitude > 0, magnitude, 1)))
    variance = np.where(magnitude > 0, (magnitude - lower) * (2 * lower - magnitude), 0)
    assert abs(error.sum()) < 5 * np.sqrt(variance.sum())
    fourth = variance * (lower**2 - 3 * variance)  # of a two-point law; bounds that of the squares
    assert abs((error**2 - variance).sum()) < 5 * np.sqrt(np.abs(fourth - variance**2).sum())
    assert variance.sum() > 0.05 * (total**2).sum()
