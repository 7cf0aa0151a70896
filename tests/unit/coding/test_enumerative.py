"""The bit string of sparse dithering: what it says, how long it is, what it refuses."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from fewbits.coding import enumerative
from fewbits.coding.enumerative import Stream
from fewbits.errors import DecodeError
from fewbits.reference.formats import FLOAT32, FLOAT64

ONE = FLOAT32.bias << FLOAT32.mantissa


def stream(codes: list[int], *scales: int) -> Stream:
    return Stream(np.array(scales or (ONE,), np.uint64), np.array(codes, np.int32))


def text(own: Stream, block: int = 99) -> str:
    """The bits behind the first scale."""
    return "".join(map(str, enumerative.encode(own, block, FLOAT32)[31:].tolist()))


def test_sets_are_numbered_in_the_order_of_the_combinatorial_number_system() -> None:
    for size in range(9):
        for members in range(size + 1):
            sets = sorted(itertools.combinations(range(size), members), key=lambda own: own[::-1])
            for number, own in enumerate(sets):
                member = np.isin(np.arange(size), own)
                assert enumerative.rank(member) == number
                assert np.array_equal(enumerative.unranked(number, size, members), member)


def test_a_rank_is_the_sum_of_its_binomials() -> None:
    member = np.random.default_rng(3).random(700) < 0.3
    places = np.flatnonzero(member).tolist()
    number = sum(math.comb(place, j + 1) for j, place in enumerate(places))
    assert enumerative.rank(member) == number
    assert np.array_equal(enumerative.unranked(number, 700, len(places)), member)


def test_fields_stand_in_order_and_begin_with_the_lowest_bit() -> None:
    # Four codes: 2 zeros in 3 bits; the set {0, 2} is number 1 of 6, in 3 bits; signs; unary.
    assert text(stream([0, -3, 0, 1])) == "010" + "100" + "10" + "110" + "0"
    assert text(stream([5])) == "0" + "" + "0" + "11110"
    assert text(stream([0, 0, 0], 0)) == ""
    assert text(stream([0, 0, 0], FLOAT32.quiet_nan)) == ""
    scale = "".join(map(str, enumerative.encode(stream([1]), 1, FLOAT32)[:31].tolist()))
    assert scale == "0" * 23 + "1111111" + "0"


def test_the_example_of_the_format_document_is_right() -> None:
    data = np.packbits(enumerative.encode(stream([0, -3, 0, 1]), 4, FLOAT32), bitorder="little")
    document = Path(__file__).parents[3] / "docs" / "format.md"
    assert f"the bytes `{data.tobytes().hex(' ')}`" in document.read_text()


@pytest.mark.parametrize("format", [FLOAT32, FLOAT64], ids=lambda own: own.name)
@pytest.mark.parametrize("block", [1, 7, 64, 500])
def test_streams_come_back(format, block: int) -> None:
    source = np.random.default_rng(block)
    for count in (0, 1, 2, 6, 7, 8, 63, 64, 65, 300):
        codes = np.rint(source.standard_normal(count) * source.choice([0.3, 2, 9])).astype(np.int32)
        starts = range(0, count, block)
        one = format.bias << format.mantissa
        scales = [one if codes[at : at + block].any() else 0 for at in starts]
        own = Stream(np.array(scales, np.uint64), codes)
        bits = enumerative.encode(own, block, format)
        padded = np.concatenate([bits, np.zeros(-bits.size % 8, np.uint8)])
        again = enumerative.decode(
            np.packbits(padded, bitorder="little"), count, block, format, 100
        )
        assert np.array_equal(again.codes, codes)
        assert np.array_equal(again.scales, own.scales)


@pytest.mark.parametrize("size", [1, 2, 3, 10, 257, 1000])
def test_what_is_written_is_at_most_three_bits_above_the_ideal(size: int) -> None:
    source = np.random.default_rng(size)
    for scale in (0.2, 0.7, 2.0, 5.0):
        codes = np.rint(source.standard_normal(size) * scale).astype(np.int32)
        codes[0] = 1
        bits = enumerative.encode(Stream(np.array([ONE], np.uint64), codes), size, FLOAT32).size
        ideal = enumerative.ideal_bits(codes)
        assert ideal - 1e-9 <= bits < ideal + 3
        magnitudes = np.abs(codes)
        spread = magnitudes.sum() / math.sqrt(size * np.count_nonzero(codes))
        assert bits <= enumerative.most_bits(size, FLOAT32, spread, 0.0)


def test_the_largest_length_is_reached() -> None:
    codes = np.ones(10, np.int32)
    bits = enumerative.encode(Stream(np.array([ONE], np.uint64), codes), 10, FLOAT32).size
    assert enumerative.most_bits(10, FLOAT32, 0.0, 1.0) >= bits
    # The most of log C(10, m) + 2 m, rounded up, is 6 + 16 at m = 8.
    assert enumerative.most_bits(10, FLOAT32, 0.0, 1.0) == 31 + 4 + 6 + 16


def bits_of(numbers: list[tuple[int, int]]) -> np.ndarray:
    digits = [number >> place & 1 for number, width in numbers for place in range(width)]
    return np.array(digits + [0] * (-len(digits) % 8), np.uint8)


@pytest.mark.parametrize(
    ("numbers", "count", "words"),
    [
        ([(ONE, 24)], 4, "ends within a field"),
        ([(ONE, 31), (1, 3)], 4, "ends within a field"),
        ([(ONE, 31), (5, 3), (0, 8)], 4, "5 of 4 dithered codes cannot be zero"),
        ([(ONE, 31), (2, 3), (6, 3), (0, 8)], 4, "no set of zeros has this number"),
        ([(ONE, 31), (0, 3), (0, 4), (7, 3), (0, 9)], 4, "a code is not below its bound"),
        ([(ONE, 31), (3, 3), (0, 2), (0, 1), (2**17 - 1, 17)], 4, "not below its bound"),
        ([(ONE, 31), (2, 3), (0, 3), (0, 2), (1, 1)], 4, "ends within a field"),
        ([(0, 31), (1, 1)], 4, "does not end where its section ends"),
        ([(0, 40)], 4, "does not end where its section ends"),
        ([(0, 8)], 0, "does not end where its section ends"),
    ],
)
def test_other_bits_are_refused(numbers: list[tuple[int, int]], count: int, words: str) -> None:
    with pytest.raises(DecodeError, match=words):
        enumerative.decode(np.packbits(bits_of(numbers), bitorder="little"), count, 4, FLOAT32, 4)


def test_any_bits_decode_or_are_refused() -> None:
    source = np.random.default_rng(11)
    accepted = 0
    for _ in range(3000):
        bits = (source.random(8 * source.integers(4, 12)) < source.random()).astype(np.uint8)
        try:
            own = enumerative.decode(np.packbits(bits, bitorder="little"), 5, 3, FLOAT32, 6)
        except DecodeError:
            continue
        accepted += 1
        again = enumerative.encode(own, 3, FLOAT32)
        assert np.array_equal(again, bits[: again.size])
        assert not bits[again.size :].any()
    assert accepted
