"""Random places: every table keeps what the reference keeps, however the threshold is found."""

import numpy as np
import pytest

import native_tables as native
from cases import mixed_bits
from fewbits import Rng
from fewbits.backend import parallel, stage_functions
from fewbits.backend.kinds import draws
from fewbits.backend.library import key_words
from fewbits.reference import casts, selection
from fewbits.reference.formats import FLOAT32, FLOAT64, FORMATS, Bits, Format
from fewbits.reference.tally import Tally

formats = pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
LENGTHS = (2, 3, 7, 8, 31, 33, 64, 100, 1025, 4099, 9000)


def wanted(bits: Bits, format: Format, k: int, rng: Rng) -> tuple[Bits, Bits, Tally]:
    """What is kept, the vector that it is put into, and the tally, from the reference alone."""
    places = selection.largest(rng.words(0, bits.size), k)
    products, beyond = selection.products(bits[places], format, bits.size)
    kept, clipped, _ = casts.cast(products.view(np.uint64), FLOAT64, format)
    nonfinite = casts.count_nonfinite(bits, format)
    if nonfinite:
        kept[:] = format.quiet_nan
    whole = np.zeros_like(bits)
    whole[places] = kept
    return kept, whole, Tally(beyond if format == FLOAT64 else clipped, nonfinite)


@formats
@pytest.mark.parametrize("n", LENGTHS)
def test_values_are_taken_and_put_back_as_the_reference_does(
    format: Format, n: int, simd: str
) -> None:
    for rare in (0.0, 0.02):
        bits, rng = mixed_bits(format, n, seed=n, rare=rare), Rng.from_seed(n)
        for k in {1, max(1, n // 100), (n + 1) // 2, n - 1}:
            kept, whole, met = wanted(bits, format, k, rng)
            handed, tally = draws.take(rng, bits, format, k, 1)
            assert np.array_equal(handed, kept)
            assert tally == met
            out = np.full_like(bits, 7)
            assert draws.put(rng, handed, format, out, 1, add=False).nonfinite == (
                casts.count_nonfinite(kept, format)
            )
            assert np.array_equal(out, whole)
            totals = np.full(n, 1.5, np.float64 if format == FLOAT64 else np.float32)
            with np.errstate(all="ignore"):
                sums = totals + casts.wide(whole, format)
            draws.put(rng, handed, format, totals, 1, add=True)
            assert np.array_equal(totals, sums, equal_nan=True)


@pytest.mark.parametrize(("deviations", "near"), [(0, 1 << 17), (6, 16), (0, 16), (1e9, 40)])
def test_the_places_do_not_depend_on_the_guess(
    deviations: float, near: int, simd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thresholds that are expected elsewhere, and ranges with more words than there is room."""
    monkeypatch.setattr(draws, "_DEVIATIONS", deviations)
    monkeypatch.setattr(draws, "_NEAR", near)
    for d, k in ((1000, 1), (1000, 999), (5000, 50), (5000, 2500)):
        for seed in range(5):
            rng = Rng.from_seed(seed)
            assert np.array_equal(
                native.drawn_places(rng, d, k), selection.largest(rng.words(0, d), k)
            )


def test_threads_keep_the_same_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "WORTHWHILE", 1)
    monkeypatch.setattr(parallel, "THREAD_SLICE", 64)
    d, k, rng = 10_007, 1234, Rng.from_seed(3)
    bits = mixed_bits(FLOAT32, d, seed=1, rare=0.0)
    kept, whole, met = wanted(bits, FLOAT32, k, rng)
    for threads in (2, 3, 7):
        assert len(draws.drawn(rng, d, k, threads).parts) == threads
        handed, tally = draws.take(rng, bits, FLOAT32, k, threads)
        assert np.array_equal(handed, kept)
        assert tally == met
        out = np.full_like(bits, 7)
        draws.put(rng, handed, FLOAT32, out, threads, add=False)
        assert np.array_equal(out, whole)


def test_the_words_of_a_stream_are_found_up_to_the_last(simd: str) -> None:
    """Whole vectors of 2^32 values are too long for a test: their last words are not."""
    rng, part = Rng.from_seed(2), slice((1 << 32) - 77, 1 << 32)
    words = rng.words(part.start, 77)
    assert np.unique(words).size == words.size
    low, high = (int(word) for word in np.sort(words)[[20, 50]])
    near = np.zeros(40, np.uint32)
    assert stage_functions.draws_near(rng.key, part, (low, high), near) == (26, 31)
    assert np.array_equal(near[:31], words[(words >= low) & (words <= high)])
    assert not near[31:].any()


def test_what_does_not_fit_is_refused() -> None:
    rng = Rng.from_seed(1)
    near, values = np.zeros(4, np.uint32), np.zeros(10, np.uint32)
    for part, words in ((slice(0, 4), (5, 4)), (slice(1, (1 << 32) + 1), (0, 9))):
        with pytest.raises(RuntimeError, match="refused its arguments"):
            stage_functions.draws_near(rng.key, part, words, near)
    low = draws.drawn(rng, 10, 4).low
    how = stage_functions.DrawnPlaces(
        key=tuple(key_words(rng.key)), first=0, count=10, low=low, dtype=FLOAT32.code, factor=1.0
    )
    for kept in (3, 5):  # there are four
        with pytest.raises(RuntimeError, match="refused its arguments"):
            stage_functions.draws_take(how, values, np.zeros(kept, np.uint32))
        with pytest.raises(RuntimeError, match="refused its arguments"):
            stage_functions.draws_put(how, np.zeros(kept, np.uint32), values, add=False)
    with pytest.raises(RuntimeError, match="cannot take"):
        stage_functions.draws_take(how, values[:9], values[:4])
    with pytest.raises(RuntimeError, match="9 values are not 10"):
        stage_functions.draws_put(how, values[:4], values[:9], add=False)
