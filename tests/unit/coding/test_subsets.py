"""Sets of places as wire version 1 has them: native code reads what the specification writes."""

import itertools
import math

import numpy as np
import pytest

from fewbits import DecodeError
from fewbits.backend import places as _native
from fewbits.backend.kinds.largest import read_ranged
from fewbits.coding import subsets


def log2_choices(d: int, k: int) -> float:
    return (math.lgamma(d + 1) - math.lgamma(k + 1) - math.lgamma(d - k + 1)) / math.log(2)


def places_of(gaps: list[int]) -> np.ndarray:
    return (np.cumsum(np.array(gaps) + 1) - 1).astype(np.uint32)


def even_gaps(d: int, k: int, gap: int) -> np.ndarray:
    """As many gaps of one length as there is room for, then one shorter, then none."""
    gaps, left = [], d - k
    for _ in range(k):
        gaps.append(min(gap, left))
        left -= gaps[-1]
    return places_of(gaps)


def test_every_set_of_a_few_places_comes_back() -> None:
    for d in range(1, 11):
        for k in range(d + 1):
            sections = set()
            for chosen in itertools.combinations(range(d), k):
                places = np.array(chosen, np.uint32)
                section = subsets.encode(places, d)
                assert len(section) == subsets.size(d, k)
                assert np.array_equal(subsets.decode(section, d, k), places)
                read = read_ranged(np.frombuffer(section, np.uint8), d, k)
                assert np.array_equal(read, places)
                sections.add(section)
            assert len(sections) == math.comb(d, k)


@pytest.mark.parametrize("d", [1, 2, 13, 100, 1000, 65_536, 10**6, 25 * 10**6, 2**28])
def test_the_size_is_near_the_logarithm_of_the_number_of_sets(d: int) -> None:
    shares = (0, 1e-6, 1e-4, 1e-3, 0.01, 0.1, 0.21, 0.3, 0.382, 0.5, 0.6, 0.9, 0.99, 1)
    for k in {min(d, math.ceil(share * d)) for share in shares} | {1}:
        least = log2_choices(d, k)
        assert least <= 8 * subsets.size(d, k) <= 1.003 * least + 40


@pytest.mark.parametrize("share", [0.0005, 0.003, 0.0101, 0.02, 0.1, 0.25, 0.45, 0.5, 0.8])
@pytest.mark.parametrize("d", [64, 1000])
def test_every_arrangement_fits(d: int, share: float) -> None:
    """Gaps of powers of two, where the rounding of one digit's probability shows most."""
    k = max(1, round(share * d))
    source = np.random.default_rng(d + k)
    arrangements = [even_gaps(d, k, 2**j + more) for j in range(16) for more in (-1, 0, 1)]
    arrangements += [np.arange(k, dtype=np.uint32), np.arange(d - k, d, dtype=np.uint32)]
    arrangements.append(np.sort(source.choice(d, k, replace=False)).astype(np.uint32))
    for places in arrangements:
        section = np.frombuffer(subsets.encode(places, d), np.uint8)
        assert np.array_equal(read_ranged(section, d, k), places)


def test_gaps_where_a_probability_is_least_exact_fit() -> None:
    for n in range(300, 1400, 49):  # digits of 1024 with probabilities from 2^-8 to 2^-30
        places = even_gaps(65_536, n, 1024)
        section = np.frombuffer(subsets.encode(places, 65_536), np.uint8)
        assert np.array_equal(read_ranged(section, 65_536, n), places)


def test_only_what_an_encoder_writes_is_read() -> None:
    d, k = 500, 40
    source = np.random.default_rng(3)
    places = np.sort(source.choice(d, k, replace=False)).astype(np.uint32)
    right = np.frombuffer(subsets.encode(places, d), np.uint8)
    accepted = 0
    for at in range(8 * right.size):
        damaged = right.copy()
        damaged[at // 8] ^= 1 << at % 8
        verdicts = []
        for decode, data in (
            (read_ranged, damaged),
            (subsets.decode, damaged.tobytes()),
        ):
            try:
                found = decode(data, d, k)
            except DecodeError:
                verdicts.append(None)
            else:
                assert found.size == k
                assert subsets.encode(found, d) == damaged.tobytes()
                verdicts.append(found.tolist())
        assert verdicts[0] == verdicts[1]
        accepted += verdicts[0] is not None
    assert accepted < 8 * right.size  # padding at least is refused


def test_a_number_beyond_the_range_of_the_coder_is_refused() -> None:
    """Found by the fuzzer: the first eight bytes are 2^64 - 1, which no encoder writes."""
    data = np.frombuffer(b"\xff" * 114 + bytes.fromhex("a7a7a7a7142901"), np.uint8)
    with pytest.raises(DecodeError, match="places"):
        _native.decode_ranged(data, 4_278_197_249, np.empty(36, np.uint32))
