"""Random streams: frozen words, random access, and independence within and between keys."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import native_tables as native
from cases import array
from fewbits import Rng
from fewbits.backend import library as _native
from fewbits.reference.formats import FLOAT32
from statistical import battery

KEY = bytes(range(16))
# Scores: P(|z| > 6) = 2e-9, so among the at most 10^5 scores of a test one is expected to exceed
# it in 5000 choices of seeds; the seeds are fixed.
LIMIT = 6.0


def word(key: bytes, index: int) -> int:
    """One word, from the formula in `fewbits.rng`, in Python's integers."""
    mask = 0xFFFFFFFF

    def fold(x: int, shift: int, factor: int) -> int:
        return ((x ^ x >> shift) * factor) & mask

    def mix(x: int) -> int:
        x = fold(fold(x & mask, 16, 0x7FEB352D), 15, 0x846CA68B)
        return x ^ x >> 16

    k = [int.from_bytes(key[at : at + 4], "little") for at in range(0, 16, 4)]
    high, low = index >> 32, index & mask
    key_0, key_1 = (k[0] + mix(0x9E3779B1 * high + k[2]), k[1] + mix(0x9E3779B1 * high + k[3]))
    x = (0x9E3779B1 * low + key_0) & mask
    x = (fold(x, 16, 0x7FEB352D) + key_1) & mask
    x = fold(x, 15, 0x846CA68B)
    return x ^ x >> 16


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (0, [0x60C9E8DE, 0x5203EA20, 0x084B3FF9, 0xCE37820F]),
        (2**32 - 2, [0x738EFC26, 0x1BDB32E9, 0xDF1CD132, 0xE16C2593]),
        (2**40, [0xEA0CE436, 0x540980D7, 0x0C8F22F5, 0xB905A5C1]),
    ],
)
def test_words_are_frozen(first: int, words: list[int]) -> None:
    assert Rng(KEY).words(first, 4).tolist() == words


def test_keys_are_frozen() -> None:
    assert Rng.from_seed(0).key.hex() == "dd4089d49f864fec86a49292def60954"
    assert Rng.from_seed(7).key.hex() == "d05b76f59b8d15795afd0b0d1dc04244"
    assert Rng.from_seed(7).fork(0).key.hex() == "e701757327f4076ad79e66c76735f53b"
    assert Rng.from_seed(7).fork("0").key.hex() == "857e3168367c49952beea1fff4fdb95d"
    named = Rng.from_seed(7).fork(3, "layer.weight")
    assert named.key.hex() == "9a61426e1cf6d56efeb8978040c4616c"


@given(st.binary(min_size=16, max_size=16), st.integers(0, 2**63))
def test_words_are_the_formula(key: bytes, index: int) -> None:
    assert int(Rng(key).words(index, 1)[0]) == word(key, index)


@pytest.mark.parametrize("first", [0, 3, 2**32 - 100, 2**32 - 65_536, 2**33 - 7, 2**62 + 1])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 255, 1000])
def test_native_words_are_the_references(simd: str, first: int, count: int) -> None:
    rng = Rng.from_seed(count)
    assert np.array_equal(_native.words(rng.key, first, count), rng.words(first, count))


def test_native_words_cross_a_segment_in_a_later_block(simd: str) -> None:
    first = 2**32 - 140_003
    words = _native.words(KEY, first, 140_100)
    assert np.array_equal(words, Rng(KEY).words(first, 140_100))


@pytest.mark.parametrize("start", [0, 2**32 - 500])
def test_random_access_is_sequential_access(start: int) -> None:
    rng = Rng.from_seed(1)
    whole = rng.words(start, 1000)
    for at, size in ((0, 1), (1, 10), (499, 3), (990, 10)):
        assert np.array_equal(rng.words(start + at, size), whole[at : at + size])
    assert np.array_equal(rng.words(start, 1000), whole), "a stream is never advanced"


def test_paths_name_different_streams() -> None:
    root = Rng.from_seed(1)
    paths = [(), (1,), ("1",), (1, 1), ("1", 1), (1, "1"), (11,), ("i1",), (-1,), ("",), (0,)]
    paths += [(step, rank) for step in range(20, 30) for rank in range(20, 30)]
    keys = {root.fork(*path).key for path in paths}
    assert len(keys) == len(paths)
    assert root.fork(1, 2) == root.fork(1).fork(2)
    assert len({Rng.from_seed(seed).key for seed in range(1000)}) == 1000
    assert Rng.fresh() != Rng.fresh()


def test_eight_bits_anywhere_in_a_word_are_uniform() -> None:
    for seed in range(4):
        words = battery.ours(Rng.from_seed(seed).key, 0, 1 << 20)
        for shift in range(0, 25, 4):
            assert abs(battery.chi_square(words, shift)) < LIMIT
    biased = words.copy()
    biased[::20] |= np.uint32(1 << 31)  # one word in forty changes
    assert abs(battery.chi_square(biased, 24)) > LIMIT


def sequential_seeds(count: int) -> list[bytes]:
    return [Rng.from_seed(seed).key for seed in range(count)]


def siblings(count: int) -> list[bytes]:
    return [Rng.from_seed(1).fork(5, rank).key for rank in range(count)]


def counting_keys(count: int) -> list[bytes]:
    return [n.to_bytes(16, "little") for n in range(count)]


def shared_half(*places: int) -> Callable[[int], list[bytes]]:
    """Keys that agree in two words: two hashed keys do so once in 2^64."""

    def keys(count: int) -> list[bytes]:
        words = np.random.default_rng(places).integers(0, 1 << 32, (count, 4), dtype=np.uint32)
        words[:, places] = words[0, places]
        return [row.tobytes() for row in words]

    return keys


KEYS = {
    "sequential seeds": sequential_seeds,
    "siblings": siblings,
    "counting": counting_keys,
    "first key shared": shared_half(0, 2),
    "second key shared": shared_half(1, 3),
}


@pytest.mark.parametrize("low", [False, True], ids=["word", "lower half"])
@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_streams_do_not_correlate_at_any_lag(keys: Callable[[int], list[bytes]], low: bool) -> None:
    for table in battery.correlations(battery.ours, keys(40), 1 << 14, low):
        assert np.abs(table).max() < LIMIT
        # The mean of n squared scores is 1 with standard deviation sqrt(2 / n).
        assert abs((table**2).mean() - 1) < LIMIT * np.sqrt(2 / table.size)


def test_a_hash_of_index_xor_key_would_be_noticed() -> None:
    tables = battery.correlations(battery.one_key_exclusive_or, counting_keys(40), 1 << 14, False)
    assert max(np.abs(table).max() for table in tables) > 10 * LIMIT
    # 2.1 million pairs of hashed keys agree in the 18 bits above the window: 8 expected.
    assert 1 <= battery.overlaps(battery.one_key_exclusive_or, siblings(2048), 1 << 14) <= 25


def test_a_hash_of_index_plus_key_would_be_noticed() -> None:
    # 2.1 million pairs of windows overlap by more than half with probability 2^-18 each.
    assert 1 <= battery.overlaps(battery.one_key_sum, siblings(2048), 1 << 14) <= 40


def test_a_second_key_that_enters_last_would_be_noticed() -> None:
    keys = shared_half(0, 2)(40)
    tables = battery.correlations(battery.second_key_last, keys, 1 << 14, False)
    assert max(np.abs(table).max() for table in tables) > 10 * LIMIT


def test_no_two_streams_hold_the_same_words() -> None:
    # 8.4 million pairs * (2^-18)^2 / 2: 6e-5 expected.
    assert battery.overlaps(battery.ours, siblings(4096), 1 << 14) == 0


def rounded(x: np.ndarray, rng: Rng) -> np.ndarray:
    planes = [np.zeros(native.packed_size(x.size, w), np.uint8) for w in (8, 1)]
    native.natural_encode(x.view(np.uint32), FLOAT32, rng, tuple(planes))
    out = np.empty(x.size, np.uint32)
    native.natural_decode(tuple(planes), FLOAT32, out)
    return out.view(np.float32).astype(np.float64)


def test_averaging_over_forked_streams_divides_the_error() -> None:
    """Eight workers, eight times less squared error; with one stream for all, none.

    The squared error of the mean has d / 3 effective terms of relative deviation sqrt(2): 0.55 %
    at d = 200,000, and four of them 2.2 %. The single errors are eight times better known.
    """
    x = array(np.random.default_rng(6).standard_normal(200_000), FLOAT32)
    root = Rng.from_seed(3).fork(10)
    outputs = np.array([rounded(x, root.fork(rank)) for rank in range(8)])
    alone = ((outputs - x) ** 2).sum(axis=1).mean()
    together = ((outputs.mean(axis=0) - x) ** 2).sum()
    assert together * 8 / alone == pytest.approx(1, abs=0.025)

    shared = np.array([rounded(x, root) for _ in range(8)])
    assert ((shared.mean(axis=0) - x) ** 2).sum() == pytest.approx(
        ((shared[0] - x) ** 2).sum(), rel=1e-12
    )
