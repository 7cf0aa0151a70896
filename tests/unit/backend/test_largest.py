"""The largest values in parts: the same values and places for any number of threads."""

import numpy as np
import pytest

import native_tables as native
from cases import mixed_bits
from fewbits import DecodeError
from fewbits.backend import parallel
from fewbits.backend import places as _native
from fewbits.backend.kinds import largest
from fewbits.backend.places import Chosen, SpreadTask
from fewbits.coding import places
from fewbits.reference import casts, selection
from fewbits.reference.formats import FLOAT32, FLOAT64, FORMATS, Format

LENGTHS = (2, 3, 63, 64, 65, 1001, 4095, 4096, 4097, 70_001)
formats = pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)


@pytest.fixture(autouse=True)
def _short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that pay for short vectors, and lists that soon are full."""
    monkeypatch.setattr(parallel, "THREAD_SLICE", 37)
    monkeypatch.setattr(parallel, "WORTHWHILE", 37)


def kinds(n: int, format: Format, seed: int) -> list[np.ndarray]:
    """Usual values, equal ones, mostly zeros, many that are not finite, and sorted ones."""
    bits = mixed_bits(format, n, seed=seed, rare=0.0)
    coarse = bits >> format.bits.type(format.mantissa) << format.bits.type(format.mantissa)
    sparse = np.where(np.arange(n) % 50 == 7, bits, format.bits.type(0))
    broken = mixed_bits(format, n, seed=seed, rare=0.5)
    return [bits, coarse, sparse, broken, np.sort(bits)]


@formats
@pytest.mark.parametrize("n", LENGTHS)
def test_values_and_places_are_those_of_the_reference(format: Format, n: int, simd: str) -> None:
    for bits in kinds(n, format, n):
        magnitudes = bits & format.bits.type(format.sign - 1)
        for k in sorted({1, max(1, n // 100), max(1, n // 10), n // 2, n - n // 3, n - 1, n}):
            kept = selection.largest(magnitudes, k)
            joined = np.zeros_like(bits)
            joined[kept] = bits[kept]
            totals = np.linspace(-1, 1, n).astype("float64" if format == FLOAT64 else "float32")
            wanted = totals.copy()
            with np.errstate(all="ignore"):
                wanted[kept] += casts.wide(bits[kept], format)
            for threads in (1, 3):
                values, section, tally = native.take(bits, format, k, threads)
                assert section.tobytes() == places.encode(kept, n)
                assert np.array_equal(values, bits[kept])
                assert tally.nonfinite == casts.count_nonfinite(bits, format)
                if k == n:
                    continue
                out, sums = np.ones_like(bits), totals.copy()
                found = largest.put(section, values, format, out, threads)
                assert np.array_equal(out, joined)
                assert found.nonfinite == casts.count_nonfinite(values, format)
                largest.add(section, values, format, sums, threads)
                broken = np.isnan(wanted)  # of which no two ways to sum keep the same bits
                assert np.array_equal(np.isnan(sums), broken)
                assert sums[~broken].tobytes() == wanted[~broken].tobytes()


@pytest.mark.parametrize("room", [0, 1, 50, 400])
@pytest.mark.parametrize("format", [FLOAT32, FLOAT64], ids=lambda format: format.name)
def test_a_list_that_is_full_is_counted_in_bins(
    format: Format, room: int, simd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    near, bands = _native.near_keys, []

    def short(bits: np.ndarray, own: Format, band: tuple[int, int], **_: int) -> _native.Near:
        bands.append(band)
        return near(bits, own, band, room * own.itemsize)

    monkeypatch.setattr(_native, "near_keys", short)
    for bits in kinds(9001, format, 5):
        for k in (9, 900, 5000):
            kept = selection.largest(bits & format.bits.type(format.sign - 1), k)
            values, section, _ = native.take(bits, format, k, 2)
            assert section.tobytes() == places.encode(kept, bits.size)
            assert np.array_equal(values, bits[kept])
    widths = {high - low for low, high in bands}
    assert len(widths) > 3
    assert min(widths) == 0


@pytest.mark.parametrize("band", [(5, 9), (3, 3), (0x7F7FFFF0, 0x7F7FFFFF), (0x7FFFFFFF,) * 2])
def test_a_bad_guess_changes_nothing(
    band: tuple[int, int], simd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_native, "guess_keys", lambda *_: band)
    values = np.random.default_rng(3).standard_normal(5000).astype(np.float32).view(np.uint32)
    for k in (1, 500, 4000):
        kept = selection.largest(values & np.uint32(0x7FFFFFFF), k)
        found, section, _ = native.take(values, FLOAT32, k, 2)
        assert section.tobytes() == places.encode(kept, values.size)
        assert np.array_equal(found, values[kept])


@pytest.mark.parametrize(("d", "k"), [(1000, 90), (1000, 500), (1000, 910)])
def test_damaged_places_are_refused_by_any_number_of_threads(d: int, k: int) -> None:
    rng = np.random.default_rng(d + k)
    kept = np.sort(rng.choice(d, k, replace=False)).astype(np.uint32)
    right, values = native.places_encode(kept, d), np.arange(1, k + 1, dtype=np.uint32)
    outcomes = set()
    for place in rng.choice(8 * right.size, 150, replace=False).tolist():
        damaged = right.copy()
        damaged[place // 8] ^= 1 << place % 8
        try:
            found = places.decode(damaged.tobytes(), d, k)
        except DecodeError:
            found = None
        outcomes.add(found is None)
        for threads in (1, 2, 7):
            out = np.ones(d, np.uint32)
            if found is None:
                with pytest.raises(DecodeError, match="a section of places is not one"):
                    largest.put(damaged, values, FLOAT32, out, threads)
                continue
            largest.put(damaged, values, FLOAT32, out, threads)
            assert np.array_equal(np.flatnonzero(out), found)
            assert np.array_equal(out[found], values)
    assert True in outcomes


def test_impossible_parts_are_refused() -> None:
    bits, section = np.arange(100, dtype=np.uint32), np.zeros(places.size(100, 10), np.uint8)
    good = {"d": 100, "k": 10, "threshold": 90, "ties": 1, "first": 0, "before": 0}
    kept = np.empty(10, np.uint32)
    assert _native.keep(bits, FLOAT32, Chosen(**good), section, kept) == 0
    for change in ({"threshold": 89}, {"ties": 0}, {"first": 1}, {"before": 1}, {"k": 100}):
        with pytest.raises(RuntimeError, match="refused its arguments"):
            _native.keep(bits, FLOAT32, Chosen(**good | change), section, kept)
    with pytest.raises(RuntimeError, match="refused its arguments"):
        _native.keep(bits, FLOAT32, Chosen(**good), section[1:], kept)
    with pytest.raises(RuntimeError, match="refused its arguments"):
        _native.near_keys(bits, FLOAT32, (5, 4))
    out = np.zeros(100, np.uint32)
    for task in ((100, 10, 0, 11, 4, 0), (100, 10, 5, 5, 4, 0), (100, 10, 0, 10, 2, 1)):
        with pytest.raises(RuntimeError, match="refused its arguments"):
            _native.spread(SpreadTask(*task), section, kept.ctypes.data, out.ctypes.data)
    assert not out.any()
