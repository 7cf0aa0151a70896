"""Sets of places: every set has a section of the same size, and nothing else is read."""

import itertools
import math

import numpy as np
import pytest

import native_tables
from fewbits import DecodeError
from fewbits.backend import places as _native
from fewbits.coding import places, subsets

SHARES = (1e-6, 1e-4, 1e-3, 1 / 256, 0.01, 1 / 32, 1 / 16, 0.1, 1 / 8, 0.2, 0.25, 0.3, 1 / 3, 0.4)
SHARES += (0.5, 0.6, 0.9, 0.99)


def log2_choices(d: int, k: int) -> float:
    return (math.lgamma(d + 1) - math.lgamma(k + 1) - math.lgamma(d - k + 1)) / math.log(2)


def as_array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def outcome(decode: object, data: object, d: int, k: int) -> list[int] | None:
    try:
        found: np.ndarray = decode(data, d, k)  # type: ignore[operator]
    except DecodeError:
        return None
    return found.tolist()


def test_every_set_of_a_few_places_has_one_section() -> None:
    for d in range(1, 11):
        for k in range(d + 1):
            sections = set()
            for chosen in itertools.combinations(range(d), k):
                kept = np.array(chosen, np.uint32)
                section = places.encode(kept, d)
                assert native_tables.places_encode(kept, d).tobytes() == section
                assert len(section) == places.size(d, k)
                assert np.array_equal(places.decode(section, d, k), kept)
                assert np.array_equal(native_tables.places_decode(as_array(section), d, k), kept)
                sections.add(section)
            assert len(sections) == math.comb(d, k)


@pytest.mark.parametrize(("d", "k"), [(4, 2), (7, 3), (8, 5), (13, 2)])
def test_of_all_bytes_only_those_sections_are_read(d: int, k: int) -> None:
    size, accepted = places.size(d, k), 0
    assert size <= 2
    for number in range(256**size):
        data = number.to_bytes(size, "little")
        found = outcome(places.decode, data, d, k)
        assert outcome(native_tables.places_decode, as_array(data), d, k) == found
        accepted += found is not None
    assert accepted == math.comb(d, k)


@pytest.mark.parametrize("d", [2, 13, 100, 1000, 65_536, 10**6, 25 * 10**6, 2**28, 2**32])
def test_a_place_costs_little_more_than_by_the_number_of_sets(d: int) -> None:
    for k in {max(1, min(d - 1, round(share * d))) for share in SHARES} | {1, d - 1}:
        n = min(k, d - k)
        bits = 8 * places.size(d, k)
        assert log2_choices(d, k) <= bits + 1e-6 * n
        assert bits <= log2_choices(d, k) + 0.57 * n + 24
        # At most so much more than the range coder of version 1.
        assert bits <= 8 * subsets.size(d, k) + 0.56 * n


def test_the_width_is_the_one_that_makes_the_section_shortest() -> None:
    for d in (2, 3, 17, 100, 1000, 4099):
        for n in range(1, d // 2 + 1):
            low, zeros = places.widths(d, n)
            assert zeros == (d - n) >> low
            lengths = [n * width + (d - n >> width) for width in range(33)]
            assert n * low + zeros == min(lengths)
            assert low == lengths.index(min(lengths))


@pytest.mark.parametrize("share", [0.0005, 0.0101, 0.1, 0.25, 0.33, 0.34, 0.45, 0.5, 0.8])
@pytest.mark.parametrize("d", [64, 1000, 30_001])
def test_any_arrangement_comes_back(d: int, share: float) -> None:
    k = max(1, round(share * d))
    source = np.random.default_rng(d + k)
    arrangements = [np.arange(k), np.arange(d - k, d), np.sort(source.choice(d, k, replace=False))]
    arrangements += [np.r_[np.arange(k // 2), np.arange(d - k + k // 2, d)]]
    for kept in arrangements:
        section = native_tables.places_encode(kept.astype(np.uint32), d)
        assert section.tobytes() == places.encode(kept.astype(np.uint32), d)
        assert np.array_equal(native_tables.places_decode(section, d, k), kept)


def test_places_up_to_the_last_that_32_bits_can_number() -> None:
    d = places.MOST_PLACES
    for kept in ([0], [d - 1], [0, d - 1], [d - 2, d - 1], [5, 2**31, 2**31 + 1, d - 7]):
        own = np.array(kept, np.uint32)
        section = native_tables.places_encode(own, d)
        assert section.tobytes() == places.encode(own, d)
        assert native_tables.places_decode(section, d, own.size).tolist() == kept
        section[-1] ^= 0x80
        with pytest.raises(DecodeError, match="places"):
            native_tables.places_decode(section, d, own.size)


@pytest.mark.parametrize(("d", "k"), [(500, 40), (500, 240), (90, 88), (100_000, 9)])
def test_damaged_sections_are_read_as_by_the_specification(d: int, k: int) -> None:
    kept = np.sort(np.random.default_rng(3).choice(d, k, replace=False)).astype(np.uint32)
    right = native_tables.places_encode(kept, d)
    refused = 0
    for at in range(8 * right.size):
        damaged = right.copy()
        damaged[at // 8] ^= 1 << at % 8
        found = outcome(native_tables.places_decode, damaged, d, k)
        assert found == outcome(places.decode, damaged.tobytes(), d, k)
        if found is not None:
            assert found != kept.tolist()
            assert places.encode(np.array(found, np.uint32), d) == damaged.tobytes()
        refused += found is None
    n = min(k, d - k)
    assert refused >= n + places.widths(d, n)[1]  # with any bit of the string there are n no more


def test_native_code_refuses_places_that_are_none() -> None:
    for kept, d in (([3, 3], 10), ([5, 2], 10), ([1, 10], 10), ([], 10), ([0], 1)):
        out = np.empty(places.size(d, len(kept)) or 1, np.uint8)
        with pytest.raises(RuntimeError, match="refused its arguments"):
            _native.encode(np.array(kept, np.uint32), d, out)
    for size in (places.size(100, 50) - 1, places.size(100, 50) + 1):
        out = np.zeros(size, np.uint8)
        with pytest.raises(RuntimeError, match="refused its arguments"):
            _native.encode(np.arange(50, dtype=np.uint32), 100, out)
        with pytest.raises(RuntimeError, match="refused its arguments"):
            _native.decode(out, 100, np.empty(50, np.uint32))
    with pytest.raises(RuntimeError, match="expects uint32"):
        _native.encode(np.arange(5), 100, np.empty(100, np.uint8))
