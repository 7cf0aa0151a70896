"""Entropy coding: the reference's bytes from every table, near the entropy, and safe to read."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import native_tables as units
from cases import mixed_bits
from fewbits import DecodeError
from fewbits.backend import coders
from fewbits.backend import library as _native
from fewbits.coding import bitpack, frequencies, gaps, rans, symbols
from fewbits.coding.bits import BitString
from fewbits.coding.lanes import HIGH, LOW, encode_symbols
from fewbits.reference import casts
from fewbits.reference import natural as natural_reference
from fewbits.reference.formats import FORMATS, Format
from fewbits.rng import Rng
from native_tables import each_table

BOUNDS = (2, 3, 4, 17, 200, 256, 257, 300, 2048, 40_000, 65_536)
EDGES = (1023, 1024, 2049, 4095, 4096, 8191, 8193, 16_383, 16_385)
Draw = Callable[[np.random.Generator, int, int], np.ndarray]

DRAWS: dict[str, Draw] = {
    "uniform": lambda rng, n, bound: rng.integers(0, bound, n),
    "geometric": lambda rng, n, bound: np.minimum(rng.geometric(0.4, n) - 1, bound - 1),
    "crowded": lambda rng, n, bound: np.clip(rng.normal(bound / 2, 3, n), 0, bound - 1),
    "two": lambda rng, n, bound: (bound - 1) * (rng.random(n) < 0.3),
    "skewed": lambda rng, n, bound: (rng.random(n) < 2 / max(n, 4)) * (bound // 2),
    "constant": lambda rng, n, bound: np.full(n, bound - 1),
    "zeros": lambda rng, n, bound: np.zeros(n),
    "strays": lambda rng, n, bound: np.where(
        rng.random(n) < 0.1, rng.integers(0, bound, n), bound // 2
    ),
    "scattered": lambda rng, n, bound: (rng.random(n) < 0.04) * rng.integers(1, bound, n),
}
draws = pytest.mark.parametrize("draw", DRAWS)


def codes_of(draw: str, n: int, bound: int, seed: int = 0) -> np.ndarray:
    return DRAWS[draw](np.random.default_rng([seed, n, bound]), n, bound).astype(np.uint16)


def signs_of(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, n, 7]).integers(0, 2, n).astype(np.uint8)


def check(codes: np.ndarray, bound: int, signs: np.ndarray | None) -> bytes:
    """Every table writes the reference's bytes and reads them back; the reference does too."""
    expected = rans.encode(codes, bound, signs)
    signed = signs is not None
    assert len(expected) <= rans.largest_size(codes.size, bound, signed)
    assert len(expected) >= rans.smallest_size(codes.size, bound)
    readers = [rans.decode(expected, bound, codes.size, signed)]
    for _ in each_table():
        assert coders.coded_encode(codes, bound, signs) == expected
        readers.append(coders.coded_decode(expected, bound, codes.size, signed))
    for found, found_signs in readers:
        assert np.array_equal(found, codes)
        assert signed == (found_signs is not None)
        if signs is not None:
            assert np.array_equal(found_signs, signs * (codes != 0))
    return expected


def verdict(decode: Callable[..., tuple[np.ndarray, np.ndarray | None]], *given: object) -> object:
    try:
        codes, signs = decode(*given)
    except DecodeError as error:
        return str(error)
    return codes.tolist(), None if signs is None else signs.tolist()


def agree(data: bytes, bound: int, count: int, signed: bool) -> object:
    """What the reference makes of bytes, after every table has made the same."""
    given = data, bound, count, signed
    expected = verdict(rans.decode, *given)
    for _ in each_table():
        assert verdict(coders.coded_decode, *given) == expected
    return expected


def judge(block: bytes, bound: int, count: int, signed: bool) -> object:
    """The same of a section of one block."""
    return agree(len(block).to_bytes(3, "little") + block, bound, count, signed)


@draws
@pytest.mark.parametrize("bound", [2, 3, 200, 256, 300, 65_536])
def test_every_short_length(draw: str, bound: int) -> None:
    for n in range(301):
        if n < 40 or n % 7 == bound % 7:
            codes = codes_of(draw, n, bound)
            check(codes, bound, signs_of(n) if n % 2 else None)


@draws
@pytest.mark.parametrize("bound", BOUNDS)
def test_every_bound(draw: str, bound: int) -> None:
    for n in (2, 33, 1000):
        codes = codes_of(draw, n, bound, seed=1)
        for signs in (None, signs_of(n)):
            check(codes, bound, signs)


@pytest.mark.parametrize("n", EDGES)
@pytest.mark.parametrize(("draw", "bound"), [("geometric", 256), ("crowded", 2048), ("two", 3)])
def test_where_the_number_of_lanes_changes(draw: str, bound: int, n: int) -> None:
    codes = codes_of(draw, n, bound)
    data = check(codes, bound, signs_of(n))
    rare = n - int(np.bincount(codes).max())
    assert data[3] == rans.RANS
    assert data[4] & 7 == symbols.lanes_log2(n, rare)
    assert data[4] >> 3 == max(13 - n.bit_length(), 0)
    assert symbols.lanes_log2(n, n) == symbols.lanes_log2(n, rare) or draw == "two"


@pytest.mark.parametrize("rare", [1, 511, 512, 1023, 1024, 2047, 2048, 4095, 4096])
def test_blocks_of_nearly_equal_codes_have_fewer_lanes(rare: int) -> None:
    """At most two bits for each of the rare codes, four bytes for each lane."""
    codes = np.full(rans.CODER_BLOCK, 9, np.uint16)
    codes[:: rans.CODER_BLOCK // rare][:rare] = 1
    data = check(codes, 2048, signs_of(codes.size))
    lanes = 1 << (data[4] & 7)
    assert lanes == (
        1 if rare < 512 else 4 if rare < 1024 else min(32, 4 << (rare // 1024).bit_length())
    )
    assert rare < 512 or 32 * lanes <= 2 * rare


@pytest.mark.parametrize("n", [65_535, 65_536, 65_537, 131_077])
@pytest.mark.parametrize(("draw", "bound"), [("crowded", 256), ("strays", 256), ("strays", 2048)])
def test_where_a_block_ends(draw: str, bound: int, n: int) -> None:
    check(codes_of(draw, n, bound), bound, signs_of(n))


def test_blocks_choose_their_own_kind() -> None:
    """A constant, a crowded, a uniform and a short block in one section."""
    parts = [codes_of(draw, rans.CODER_BLOCK, 256) for draw in ("constant", "crowded", "uniform")]
    data = check(np.concatenate([*parts, codes_of("uniform", 3, 256)]), 256, None)
    at, kinds = 0, []
    while at < len(data):
        kinds.append(data[at + 3])
        at += 3 + int.from_bytes(data[at : at + 3], "little")
    assert kinds == [rans.CONSTANT, rans.RANS, rans.RAW, rans.RAW]
    assert data[-4] == rans.RAW


def test_a_crowd_that_moves_on_is_counted_right() -> None:
    """Vectors count where the first symbols crowd; later ones may be anywhere."""
    rng = np.random.default_rng(2)
    n = 12_000
    for second in (3, 100, 255):
        first = rng.integers(0, 5, n)
        last = np.where(rng.random(n) < 0.5, second, rng.integers(0, 256, n))
        check(np.concatenate([first, last]).astype(np.uint16), 256, None)


def test_the_most_and_the_least_frequent_symbols() -> None:
    codes = np.zeros(rans.CODER_BLOCK, np.uint16)
    codes[777] = 255
    assert len(check(codes, 256, None)) < 16
    codes[:] = 9
    codes[777] = 255
    assert len(check(codes, 256, None)) < 32  # the table skips what does not occur
    every = np.concatenate([np.arange(256), np.full(40_000, 9)]).astype(np.uint16)
    check(every, 256, signs_of(every.size))


def test_normalising_takes_from_the_most_frequent() -> None:
    histogram = np.zeros(256, np.int64)
    histogram[:3] = 5000, 4999, 1
    assert frequencies.normalised(histogram)[:3].tolist() == [2048, 2047, 1]
    histogram[3:100] = 1
    found = frequencies.normalised(histogram)
    assert found.sum() == 4096
    assert found[2:100].tolist() == [1] * 98
    assert found[0] - found[1] in (0, 1)
    coarse = frequencies.normalised(histogram, 2)
    assert coarse.sum() == 4096
    assert coarse[2:100].tolist() == [4] * 98
    assert not (coarse % 4).any()


def test_costs_are_logarithms_from_above() -> None:
    """By at most 1.01 of 256 parts of a bit, which the bound on sizes relies upon."""
    above = [frequencies.cost(f) - 256 * math.log2(4096 / f) for f in range(1, 4097)]
    assert 0 <= min(above) <= max(above) < 1.01


def test_the_window_is_the_first_of_the_fullest() -> None:
    codes = np.array([5, 5, 900, 901, 700], np.uint16)
    assert symbols.best_base(codes, 1000) == 901 - 253
    assert symbols.best_base(np.array([1, 999], np.uint16), 1000) == 1
    assert symbols.best_base(np.array([999, 999], np.uint16), 1000) == 999 - 253


def entropy(codes: np.ndarray) -> float:
    """Bits that an order-0 coder of `codes` needs at least."""
    counts = np.unique(codes, return_counts=True)[1]
    return float(-(counts * np.log2(counts / codes.size)).sum())


def gaussian_exponents(n: int) -> tuple[np.ndarray, np.ndarray]:
    values = np.random.default_rng(3).standard_normal(n).astype(np.float32).view(np.uint32)
    result = natural_reference.rounded(values, FORMATS[0], Rng.from_seed(3))
    return result.exponents, result.signs.astype(np.uint8)


def test_sizes_are_near_the_entropy() -> None:
    for n, factor, more in ((1 << 20, 1.01, 0), (10_000, 1.03, 64)):
        codes, signs = gaussian_exponents(n)
        bits = entropy(codes)
        assert 8 * len(coders.coded_encode(codes, 256)) <= factor * bits + 8 * more
        assert 8 * len(coders.coded_encode(codes, 256, signs)) <= factor * (bits + n) + 8 * more


def test_what_cannot_be_coded_costs_four_bytes_a_block() -> None:
    codes = codes_of("uniform", 2 * rans.CODER_BLOCK, 65_536)
    assert len(coders.coded_encode(codes, 65_536)) == rans.largest_size(codes.size, 65_536, False)
    assert rans.largest_size(codes.size, 65_536, False) == 2 * (3 + 1 + 2 * rans.CODER_BLOCK)


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("signed", [False, True])
def test_largest_sizes(bound: int, signed: bool) -> None:
    width = (bound - 1).bit_length()
    for count in (0, 1, 7, 8, 9, 65_535, 65_536, 65_537, 3 * 65_536 + 5):
        total = 3 * -(-count // rans.CODER_BLOCK)
        for start in range(0, count, rans.CODER_BLOCK):
            n = min(rans.CODER_BLOCK, count - start)
            total += 1 + bitpack.packed_size(n, width) + signed * bitpack.packed_size(n, 1)
        assert rans.largest_size(count, bound, signed) == total
        assert _native.coded_size(count, bound, signed) == total
    assert rans.largest_size(2**63, bound, signed) == 2**64 - 1


def test_calls_that_make_no_sense() -> None:
    codes = np.array([3], np.uint16)
    for bound in (0, 1, 65_537):
        with pytest.raises(ValueError, match="bound from 2 to 65536"):
            coders.coded_encode(codes, bound)
        with pytest.raises(ValueError, match="bound from 2 to 65536"):
            coders.coded_decode(b"", bound, 0, False)
        with pytest.raises(RuntimeError, match="status 1"):
            _native.coded_decode(np.zeros(0, np.uint8), bound, codes, None)
    with pytest.raises(ValueError, match="code 3 is not below 3"):
        coders.coded_encode(codes, 3)
    with pytest.raises(ValueError, match="1 codes cannot have 2 signs"):
        coders.coded_encode(codes, 4, np.zeros(2, np.uint8))
    room = np.zeros(rans.largest_size(1, 4, False), np.uint8)
    with pytest.raises(RuntimeError, match="status 2"):
        _native.coded_encode(codes, None, 4, room[:-1])
    with pytest.raises(RuntimeError, match="status 1"):
        _native.coded_encode(codes, None, 3, np.zeros(99, np.uint8))
    with pytest.raises(RuntimeError, match="are not in"):
        _native.coded_encode(codes, np.zeros(2, np.uint8), 4, room)


# ---- bytes that nobody wrote ----

SMALL = {
    "empty": (0, 256, "zeros", True),
    "raw": (9, 200, "uniform", True),
    "raw wide": (9, 300, "uniform", True),
    "constant": (11, 200, "constant", True),
    "constant wide": (11, 40_000, "constant", False),
    "rans": (150, 200, "crowded", True),
    "rans unsigned": (150, 256, "geometric", False),
    "rans, escapes": (230, 2048, "strays", True),
    "gaps": (300, 200, "scattered", True),
    "gaps wide": (300, 2048, "scattered", True),
}


@pytest.mark.parametrize("name", SMALL)
def test_every_flipped_bit(name: str) -> None:
    """Each is refused or gives other values, and all readers agree which."""
    n, bound, draw, signed = SMALL[name]
    codes, signs = codes_of(draw, n, bound), signs_of(n) if signed else None
    data = coders.coded_encode(codes, bound, signs)
    good = agree(data, bound, n, signed)
    assert not isinstance(good, str)
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        assert agree(bytes(damaged), bound, n, signed) != good


@pytest.mark.parametrize("name", SMALL)
def test_every_other_length(name: str) -> None:
    n, bound, draw, signed = SMALL[name]
    data = coders.coded_encode(codes_of(draw, n, bound), bound, signs_of(n) if signed else None)
    for size in range(len(data)):
        assert isinstance(agree(data[:size], bound, n, signed), str)
    for more in (b"\0", b"\xff", bytes(16), b"\xff" * 80):
        assert "lengths" in str(agree(data + more, bound, n, signed))
        if n:
            assert "left over" in str(judge(data[3:] + more, bound, n, signed))
    if not name.startswith("constant"):  # which any number of codes can be
        assert isinstance(agree(data, bound, n + 1, signed), str)


@pytest.mark.parametrize("n", [5000, 20_000, 70_000])
def test_damaged_bytes_of_many_lanes(n: int) -> None:
    codes, signs = codes_of("geometric", n, 256), signs_of(n)
    data = coders.coded_encode(codes, 256, signs)
    good = agree(data, 256, n, True)
    rng = np.random.default_rng(n)
    for _ in range(6):
        damaged = bytearray(data)
        damaged[rng.integers(len(data))] ^= 1 << rng.integers(8)
        assert agree(bytes(damaged), 256, n, True) != good
    for size in (len(data) - 1, len(data) // 2, 200):
        assert isinstance(agree(data[:size], 256, n, True), str)


def table_of(*shares: int, first: int = 1, last: int | None = None) -> bytes:
    """A table of wire version 1."""
    bits = BitString()
    bits.put(first, 8)
    bits.put(first + len(shares) - 1 if last is None else last, 8)
    for frequency in shares:
        bits.put(frequency.bit_length(), 4)
        if frequency > 1:
            bits.put(frequency - (1 << (frequency.bit_length() - 1)), frequency.bit_length() - 1)
    return bits.to_bytes()


# ---- kinds of wire version 1, which nobody writes any more ----

STATES = np.full(4, LOW, "<u4").tobytes()


def test_a_block_by_hand() -> None:
    """Lanes that start where they end: slot 0 of f = 4095 takes x to 8 * 4095 and needs a word."""
    data = bytes([rans.FIRST_RANS]) + table_of(4095, 1) + STATES
    assert "ends before" in str(judge(data, 256, 4, False))
    assert "impossible state" in str(judge(data + bytes(8), 256, 4, False))
    # Half of the slots each: decoding halves a state, so twice the last one is a state of symbol 1.
    halves = bytes([rans.FIRST_RANS]) + table_of(2048, 2048)
    states = np.full(4, 2 * LOW, "<u4").tobytes()
    assert judge(halves + states, 256, 4, False) == ([1, 1, 1, 1], None)
    assert judge(halves + states + b"\x0a", 256, 4, True) == ([1, 1, 1, 1], [0, 1, 0, 1])
    assert "unused bits" in str(judge(halves + states + b"\x10", 256, 4, True))
    assert "impossible state" in str(judge(halves + states, 256, 3, False))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (table_of(4095), "table"),
        (table_of(4096), "table"),  # one symbol is a constant's business
        (table_of(2048, 2047), "table"),
        (table_of(2048, 2049), "table"),
        (table_of(4095, 4095), "table"),
        (table_of(0, 2048, 2048), "table"),
        (table_of(2048, 2048, 0), "table"),
        (table_of(2048, 2048, first=9), "table"),  # above the bound of 10
        (table_of(2048, 2048, first=200, last=100), "table"),
        (table_of(first=5, last=255), "ends before"),
        (bytes([1, 2, 0xCD]) + bytes(40), "table"),  # class 13
        (table_of(2048, 2048)[:-1] + bytes([table_of(2048, 2048)[-1] | 0x80]), "table"),
        (b"", "ends before"),
        (b"\x01", "ends before"),
        (b"\x02\x02\x06", "ends before"),  # in the middle of a frequency
    ],
)
def test_hostile_tables(table: bytes, message: str) -> None:
    more = b"" if message == "ends before" else STATES + bytes(40)
    assert message in str(judge(bytes([rans.FIRST_RANS]) + table + more, 10, 4, False))


def test_hostile_states_kinds_codes_and_lengths() -> None:
    halves = table_of(2048, 2048)
    for state in (0, LOW - 1, HIGH, 2**32 - 1):
        states = np.array([LOW, state, LOW, LOW], "<u4").tobytes()
        data = bytes([rans.FIRST_RANS]) + halves + states + bytes(40)
        assert "impossible state" in str(judge(data, 256, 4, False))
    # Two that would end well: a word makes up for a state of 0, and halving for one too large.
    zero = np.zeros(4, "<u4").tobytes() + np.full(4, 0x8000, "<u2").tobytes()
    assert "impossible state" in str(judge(bytes([rans.FIRST_RANS]) + halves + zero, 256, 4, False))
    large = np.full(4, HIGH, "<u4").tobytes()
    assert "impossible state" in str(
        judge(bytes([rans.FIRST_RANS]) + halves + large, 256, 64, False)
    )
    fair = np.full(4, HIGH // 2, "<u4").tobytes()
    assert judge(bytes([rans.FIRST_RANS]) + halves + fair, 256, 60, False) == ([1] * 60, None)
    for kind in (11, 128, 255):
        assert "unknown kind" in str(judge(bytes([kind]) + bytes(400), 256, 4, False))
    for bound in (9, 300):
        code = bound.to_bytes(2, "little")
        assert "not below" in str(judge(bytes([rans.CONSTANT]) + code, bound, 4, False))
    assert "not below" in str(judge(bytes([rans.RAW, 10, 0]), 10, 2, False))
    assert "unused bits" in str(judge(bytes([rans.RAW, 1, 0x80]), 10, 3, False))
    for first in (b"\xff\xff\xff", b"\x04\0\0", b"\x02\0\0"):
        assert "lengths" in str(agree(first + bytes([1, 5, 0]), 256, 4, False))
    block = b"\x03\0\0" + bytes([1, 5, 0])
    assert agree(2 * block, 256, 65_537, False) == ([5] * 65_537, None)
    for data in (b"", block[:2], block[:4], block, block + b"\0\0", 3 * block):
        assert "lengths" in str(agree(data, 256, 65_537, False))


def runs_of(n: int, seed: int = 0, zeros: float = 0.7) -> np.ndarray:
    """Codes and zeros in runs of four."""
    rng = np.random.default_rng(seed)
    there = np.repeat(rng.random(-(-n // 4)) >= zeros, 4)[:n]
    return (there * (100 + rng.geometric(0.3, n).clip(1, 100))).astype(np.uint16)


@pytest.mark.parametrize("n", [64, 65, 99, 1000, 20_001, rans.CODER_BLOCK, rans.CODER_BLOCK + 77])
def test_runs_of_zeros_cost_little(n: int) -> None:
    codes = runs_of(n)
    data = check(codes, 256, signs_of(n))
    assert n < 1000 or data[3] == rans.MASKED
    if n > 20_000:
        shares = np.bincount(codes) / n
        entropy = -(shares[shares > 0] * np.log2(shares[shares > 0])).sum()
        assert 8 * len(data) < 0.8 * (entropy + np.count_nonzero(codes) / n) * n
    lone = np.zeros(n, np.uint16)
    lone[n // 3] = 5
    assert len(check(lone, 256, signs_of(n))) < 17 + 6 * (n // rans.CODER_BLOCK)


@pytest.mark.parametrize("zeros", [0.0, 0.02, 0.04, 0.5, 0.9])
@pytest.mark.parametrize("bound", [201, 256, 300])
def test_masks_are_chosen_where_they_are_shorter(zeros: float, bound: int) -> None:
    data = check(runs_of(9000, 3, zeros), bound, None)
    assert (data[3] == rans.MASKED) == (zeros >= 0.04 and bound <= 256)


@pytest.mark.parametrize("kind", [rans.FIRST_MASKED, rans.MASKED])
def test_hostile_masks(kind: int) -> None:
    def sparse(mask: bytes, codes: bytes, length: int | None = None) -> bytes:
        own = len(mask) if length is None else length
        return bytes([kind]) + own.to_bytes(3, "little") + mask + codes

    some, raw = bytes([rans.CONSTANT, 0x05, 0]), bytes([rans.RAW, 7, 9, 8, 6])
    good = sparse(bytes([rans.CONSTANT, 0x05, 0]), raw)
    assert judge(good, 256, 16, False) == ([7, 0, 9] + 5 * [0] + [8, 0, 6] + 5 * [0], None)
    assert "unknown kind" in str(judge(good, 257, 16, False))
    assert "unused bits" in str(judge(good, 256, 10, False))
    assert "has a bit for a code that is 0" in str(
        judge(sparse(some, bytes([rans.RAW, 7, 9, 0, 6])), 256, 16, False)
    )
    nested = sparse(bytes([rans.CONSTANT, 3, 0]), bytes([rans.RAW, 1, 1]))
    assert "unknown kind" in str(judge(sparse(nested, raw), 256, 16, False))
    assert "unknown kind" in str(judge(sparse(some, nested), 256, 16, False))
    for other in (rans.GAPS, rans.FIRST_RANS if kind == rans.MASKED else rans.RANS):
        assert "unknown kind" in str(judge(sparse(some, bytes([other]) + raw), 256, 16, False))
    assert "left over" in str(judge(sparse(some + b"\0", raw), 256, 16, False))
    assert "left over" in str(judge(sparse(some, raw + b"\0"), 256, 16, False))
    for length in (0, 2, 4, 400, 2**24 - 1):
        assert isinstance(judge(sparse(some, raw, length), 256, 16, False), str)
    for size in range(1, len(good)):
        assert "ends before" in str(judge(good[:size], 256, 16, False)), size
    nothing = sparse(bytes([rans.CONSTANT, 0, 0]), b"")
    assert judge(nothing, 256, 16, True) == ([0] * 16, [0] * 16)


def test_hostile_escapes() -> None:
    """All four symbols are escapes; their codes must not be ones that have a symbol."""
    table = table_of(2048, 2048, first=254)
    states = np.full(4, 2 * LOW + 2048, "<u4").tobytes()

    def section(base: int, escaped: list[int]) -> bytes:
        packed = bitpack.pack(np.array(escaped, np.uint16), 11).tobytes()
        return bytes([rans.FIRST_RANS]) + base.to_bytes(2, "little") + table + states + packed

    assert judge(section(10, [1, 9, 264, 2000]), 2001, 4, False) == ([1, 9, 264, 2000], None)
    for code in (0, 10, 263):
        assert "symbol of its own" in str(judge(section(10, [1, code, 9, 9]), 2001, 4, False))
    assert "not below" in str(judge(section(10, [1, 2, 3, 2001]), 2001, 4, False))
    for base in (0, 2001, 65_535):
        assert "table" in str(judge(section(base, [1, 2, 3, 4]), 2001, 4, False))
    # Symbol 254 of base 1748 would be code 2001.
    assert "table" in str(judge(section(1748, [1, 2, 3, 4]), 2001, 4, False))
    assert judge(section(1747, [1, 2, 3, 4]), 2001, 4, False) == ([1, 2, 3, 4], None)


def revised_table(*fields: tuple[int, int]) -> bytes:
    """Fields of a table of wire version 2: values and widths."""
    bits = BitString()
    for value, width in fields:
        bits.put(value, width)
    return bits.to_bytes()


HALF = (12, 4), (0, 11)  # a frequency of 2048
TWICE = np.full(2, 2 * LOW, "<u4").tobytes()  # states of the first of two halves


def revised(table: bytes, head: int = 1, states: bytes = TWICE) -> bytes:
    return bytes([rans.RANS, head]) + table + states


def test_a_revised_block_by_hand() -> None:
    halves = revised_table((1, 8), *HALF, *HALF)
    assert judge(revised(halves), 256, 2, False) == ([1, 1], None)
    assert judge(revised(halves) + b"\x02", 256, 2, True) == ([1, 1], [0, 1])
    assert "impossible state" in str(judge(revised(halves), 256, 1, False))
    skipped = revised_table((1, 8), *HALF, (0, 4), (0, 4), *HALF)
    last = np.full(2, 2 * LOW + 2048, "<u4").tobytes()
    assert judge(revised(skipped, states=last), 256, 2, False) == ([4, 4], None)
    far = revised_table((1, 8), *HALF, (13, 4), (200 - 4, 8), *HALF)
    assert judge(revised(far, states=last), 256, 2, False) == ([202, 202], None)
    for coarse in range(1, 8):
        table = revised_table((1, 8), *2 * ((12 - coarse, 4), (0, 11 - coarse)))
        assert judge(revised(table, 1 | coarse << 3), 256, 2, False) == ([1, 1], None)
    for lanes in range(7):
        states = np.full(1 << lanes, 2 * LOW, "<u4").tobytes()
        block = revised(halves, lanes, states)
        assert judge(block, 256, 1 << lanes, False) == ([1] * (1 << lanes), None)


@pytest.mark.parametrize(
    "fields",
    [
        ((1, 8), *HALF, *HALF, (1, 7)),  # padding
        ((1, 8), *HALF, (12, 4), (1, 11)),  # more than 4096
        ((1, 8), *HALF, (11, 4), (1023, 10), (2, 4), (0, 1)),  # 4097 in the end
        ((1, 8), (0, 4), *HALF, *HALF),  # the first does not occur
        ((1, 8), (13, 4), (0, 8), *HALF, *HALF),
        ((1, 8), (14, 4), *HALF, *HALF),
        ((1, 8), *HALF, (15, 4), *HALF),
        ((9, 8), *HALF, *HALF),  # above the bound of 10
        ((5, 8), *HALF, (13, 4), (1, 8), *HALF),
        ((5, 8), *HALF, (13, 4), (255, 8), *HALF),  # symbol 265
        ((5, 8), *HALF, (13, 4), (255, 8), (13, 4), (255, 8), *HALF),
    ],
)
def test_hostile_revised_tables(fields: tuple[tuple[int, int], ...]) -> None:
    data = revised(revised_table(*fields)) + bytes(40)
    assert "table" in str(judge(data, 10, 2, False))


def test_hostile_heads() -> None:
    halves = revised_table((1, 8), *HALF, *HALF)
    for head in (7, 0x40, 0x80, 0xC1, 0x41, 0xFF):  # lanes, several tables, other chains
        assert "unknown kind" in str(judge(revised(halves, head) + bytes(99), 256, 2, False))
    coarse = revised(halves, 1 | 1 << 3) + bytes(40)  # twice 4096
    assert "table" in str(judge(coarse, 256, 2, False))
    good = revised(halves)
    for size in range(1, len(good)):
        assert "ends before" in str(judge(good[:size], 256, 2, False)), size
    endless = bytes([rans.RANS, 1, 1]) + b"\x00" * 4000
    assert "table" in str(judge(endless, 256, 2, False))


def scattered(n: int, share: float, bound: int = 256, seed: int = 0) -> np.ndarray:
    """Codes that are not 0 at places that do not depend on each other."""
    rng = np.random.default_rng([seed, n])
    codes = np.clip(rng.normal(bound / 2, 3, n), 1, bound - 1)
    return (codes * (rng.random(n) < share)).astype(np.uint16)


@pytest.mark.parametrize("bound", [2, 200, 256, 300, 65_536])
@pytest.mark.parametrize("n", [160, 333, 4097, 20_001])
def test_scattered_codes(n: int, bound: int) -> None:
    for share in (0.002, 0.02, 0.1, 0.124, 0.13):
        codes = scattered(n, share, bound)
        if codes.any():
            data = check(codes, bound, signs_of(n) if bound % 3 else None)
            assert data[3] != rans.GAPS or np.count_nonzero(codes) * gaps.LEAST_SHARE <= n
            assert n < 4000 or share != 0.02 or data[3] == rans.GAPS


def test_wide_codes_among_zeros() -> None:
    """With words, small codes that need none, escapes, and one code everywhere."""
    rng = np.random.default_rng(5)
    for largest in (20, 254, 255, 400, 60_000):
        codes = (scattered(9000, 0.02) > 0) * rng.integers(1, largest + 1, 9000)
        codes[codes > 1] = np.where(rng.random(9000) < 0.8, largest, codes)[codes > 1]
        assert check(codes.astype(np.uint16), 65_536, signs_of(9000))[3] == rans.GAPS
    codes = (scattered(9000, 0.05) > 0) * np.uint16(40_000)
    assert check(codes, 65_536, signs_of(9000))[3] == rans.GAPS


def test_gaps_beyond_the_model() -> None:
    """Steps without a symbol; all codes at the end; at the beginning; one gap for each place."""
    n = rans.CODER_BLOCK
    for places in (
        np.arange(n - 700, n),
        np.r_[np.arange(0, 3000, 9), n - 1],
        np.r_[0, n - 1],
        np.arange(7, n, 8),
        np.r_[np.arange(0, 40_000, 6), n - 5],
    ):
        codes = np.zeros(n, np.uint16)
        codes[places] = 1 + places % 5
        check(codes, 256, None)


@pytest.mark.parametrize("count", [8, 100, 1000, 65_536])
def test_models_of_gaps_add_up(count: int) -> None:
    for nonzero in {1, 2, count // 50, count // 9, count // 8} - {0}:
        model = gaps.model(count, nonzero)
        assert model.frequencies.sum() == 4096
        assert model.frequencies.min() >= 1
        assert model.frequencies.size <= 40
        assert model.low <= 14
        ratio = (1 - nonzero / count) ** (1 << model.low)
        assert 0.62 <= ratio <= 0.8
        steps = np.arange(model.escape)
        expected = 4096 * (1 - ratio) * ratio**steps
        assert (np.abs(model.frequencies[:-1] - expected)[1:] <= 1).all()


@pytest.mark.parametrize(("zeros", "more"), [(0.95, 0.015), (0.99, 0.04)])
def test_independent_zeros_cost_little_more_than_their_entropy(zeros: float, more: float) -> None:
    codes, _ = gaussian_exponents(16 * rans.CODER_BLOCK)
    codes = codes * (np.random.default_rng(4).random(codes.size) >= zeros)
    blocks = codes.astype(np.uint16).reshape(16, -1)
    bits = sum(entropy(block) for block in blocks)
    size = len(coders.coded_encode(blocks.reshape(-1), 256))
    assert 1 < 8 * size / bits <= 1 + more


def test_hostile_gaps() -> None:
    def block(nonzero: int, *parts: bytes) -> bytes:
        return bytes([rans.GAPS]) + nonzero.to_bytes(2, "little") + b"".join(parts)

    value = bytes([rans.CONSTANT, 7, 0])
    # One of 16 codes: the slot of step 0 keeps a state that is large enough.
    model = gaps.model(16, 1)
    states, words = encode_symbols(np.array([2]), model.frequencies, 1)
    assert not words
    state = np.array(states, "<u4").tobytes()
    low = bitpack.pack(np.array([1], np.uint16), model.low).tobytes()
    place = (2 << model.low) + 1
    good = block(1, state, low, value)
    codes = [0] * 16
    codes[place] = 7
    assert judge(good, 256, 16, False) == (codes, None)
    assert judge(good + b"\x01", 256, 16, True) == (codes, [int(code > 0) for code in codes])
    for nonzero in (0, 3, 65_535):
        assert "do not fit" in str(judge(block(nonzero, state, low, value), 256, 16, False))
    assert "impossible state" in str(judge(block(1, bytes(4), low, value), 256, 16, False))
    padded = bytes([low[0] | 1 << model.low])
    assert "unused bits" in str(judge(block(1, state, padded, value), 256, 16, False))
    assert "code that is 0" in str(judge(block(1, state, low, b"\x01\0\0"), 256, 16, False))
    assert "code that is 0" in str(judge(block(1, state, low, b"\x01\0\0"), 300, 16, False))
    assert "unknown kind" in str(judge(block(1, state, low, good), 256, 16, False))
    assert "unknown kind" in str(judge(block(1, state, low, b"\x02" + bytes(99)), 256, 16, False))
    for size in range(1, len(good)):
        assert "ends before" in str(judge(good[:size], 256, 16, False)), size
    # Steps that have a symbol of their own, and steps beyond the block.
    escape = np.array(encode_symbols(np.array([model.escape]), model.frequencies, 1)[0], "<u4")
    for step in (0, model.escape - 1, model.escape, 65_535):
        own = block(1, escape.tobytes(), low, step.to_bytes(2, "little"), value)
        assert "do not fit" in str(judge(own, 256, 16, False))


@given(st.data())
def test_any_bytes_decode_as_the_reference_says(data: st.DataObject) -> None:
    bound = data.draw(st.sampled_from(BOUNDS))
    count = data.draw(st.integers(0, 40))
    signed = data.draw(st.booleans())
    kind = data.draw(st.integers(0, 11))
    judge(bytes([kind]) + data.draw(st.binary(max_size=80)), bound, count, signed)


@given(st.data())
def test_any_codes_come_back(data: st.DataObject) -> None:
    bound = data.draw(st.integers(2, 65_536))
    small = st.integers(0, min(bound - 1, 3))
    codes = data.draw(st.lists(st.one_of(small, small, st.integers(0, bound - 1)), max_size=200))
    check(np.array(codes, np.uint16), bound, signs_of(len(codes)) if len(codes) % 2 else None)


# ---- natural units with coded exponents ----

formats = pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
RNG = Rng.from_seed(11)


def unit_of(values: np.ndarray, format: Format, option: int, parts: list[np.ndarray]) -> np.ndarray:
    table = units.new_table(1)
    units.set_kernel(table[0], (units.NATURAL, option), format, values.size)
    table["values"], table["first"], table["key"] = _native.address(values), 5, np.void(RNG.key)
    for number, part in enumerate(parts):
        table["sections"][0][number] = _native.address(part)
        table["sizes"][0][number] = part.size
    return table


def coded(values: np.ndarray, format: Format, option: int) -> tuple[np.ndarray, units.Tally]:
    room = np.full(rans.largest_size(values.size, format.top_code + 1, True) + 8, 0xA5, np.uint8)
    table = unit_of(values, format, option, [room[:-8]])
    tally = units.run("encode", table)
    assert (room[-8:] == 0xA5).all()
    return room[: int(table["sizes"][0][0])].copy(), tally


@formats
@pytest.mark.parametrize("rounding", [0, 1])
def test_coded_units_decode_to_what_packed_ones_do(
    simd: str, format: Format, rounding: int
) -> None:
    for n in (0, 1, 2, 31, 33, 300, 5000, 65_536, 65_537, 70_001):
        values = mixed_bits(format, n, seed=n, rare=0.004)
        result = natural_reference.rounded(values, format, None if rounding else RNG, 5)
        section, tally = coded(values, format, units.CODED + rounding)
        assert tally[:2] == (result.saturated, result.nonfinite)
        signs = result.signs.astype(np.uint8)
        if n <= 5000:
            assert section.tobytes() == rans.encode(result.exponents, format.top_code + 1, signs)
        decoded = np.empty(n, format.bits)
        found = units.run("decode", unit_of(decoded, format, units.CODED, [section]))
        assert found.nonfinite == result.nonfinite
        expected = natural_reference.values(result.exponents, result.signs, format)
        assert np.array_equal(decoded, expected)
        totals = np.random.default_rng(n).standard_normal(n)
        totals = totals.astype(np.float64 if format.itemsize == 8 else np.float32)
        with np.errstate(invalid="ignore"):
            sums = totals + casts.to_float64(expected, format).astype(totals.dtype)
        units.run("accumulate", unit_of(totals, format, units.CODED + 1, [section]))
        assert np.array_equal(totals, sums, equal_nan=True)


@formats
def test_a_coded_nan_has_no_sign(simd: str, format: Format) -> None:
    for n in (1, 40, 5000):
        exponents = np.full(n, format.top_code, np.uint16)
        exponents[1:] = format.bias
        for sign in (0, 1):
            signs = np.zeros(n, np.uint8)
            signs[0] = sign
            section = np.frombuffer(
                coders.coded_encode(exponents, format.top_code + 1, signs), np.uint8
            )
            for direction in ("decode", "accumulate"):
                out = np.zeros(n, np.float64)
                table = unit_of(out, format, units.CODED, [section])
                if sign:
                    with pytest.raises(DecodeError, match="a sign is set"):
                        units.run(direction, table)
                else:
                    assert units.run(direction, table).nonfinite == 1


@formats
def test_coded_units_of_wrong_sizes(simd: str, format: Format) -> None:
    values = mixed_bits(format, 50, seed=1)
    room = np.zeros(rans.largest_size(50, format.top_code + 1, True), np.uint8)
    for parts in ([room[:-1]], [room, room[:1]]):
        with pytest.raises(RuntimeError, match="status 2"):
            units.run("encode", unit_of(values, format, units.CODED, parts))
    with pytest.raises(RuntimeError, match="status 1"):
        units.run("encode", unit_of(values, format, 4, [room]))
    section, _ = coded(values, format, units.CODED)
    for wrong in (section[:-1], np.append(section, np.uint8(0))):
        with pytest.raises(DecodeError):
            units.run("decode", unit_of(values, format, units.CODED, [wrong]))
