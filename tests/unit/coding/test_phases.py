"""Blocks with a table for each phase of a dither: the reference's bytes, smaller, safe to read."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewbits import DecodeError
from fewbits.backend import coders
from fewbits.coding import frequencies, lanes, phases, rans
from fewbits.rng import Rng
from native_tables import each_table

RNG = Rng(bytes(range(16)))
Signed = np.ndarray


def dithered(count: int, nu: float, *, heavy: bool = False, seed: int = 0) -> Signed:
    """Codes of Gaussian or heavy-tailed values of mean square 1, as sparse dithering makes them."""
    source = np.random.default_rng([seed, count])
    x = source.standard_t(2, count) if heavy else source.standard_normal(count)
    u = (RNG.words(0, count) + 0.5) / 2**32 - 0.5
    return np.rint(x / (2 * np.sqrt(nu)) + u).astype(np.int64)


def halves(codes: Signed) -> tuple[np.ndarray, np.ndarray]:
    return np.abs(codes).astype(np.uint16), (codes < 0).astype(np.uint8)


def check(codes: Signed, bound: int) -> bytes:
    """Every table writes the reference's bytes, and all readers give the codes back."""
    plain, signs = halves(codes)
    known = phases.Phases(RNG.words(0, codes.size))
    expected = rans.encode(plain, bound, signs, known)
    assert len(expected) <= rans.largest_size(codes.size, bound, True)
    readers = [rans.decode(expected, bound, codes.size, True, known)]
    for _ in each_table():
        assert coders.dithered_encode(plain, bound, signs, RNG.key) == expected
        readers.append(coders.dithered_decode(expected, bound, codes.size, RNG.key))
    for found, marks in readers:
        assert np.array_equal(found, plain)
        assert np.array_equal(marks, signs)
    return expected


def is_phased(data: bytes) -> bool:
    return data[3] == rans.RANS and bool(data[4] & phases.PHASED)


def verdict(decode: Callable[..., tuple], *given: object) -> object:
    try:
        codes, signs = decode(*given)
    except DecodeError as error:
        return str(error)
    return codes.tolist(), signs.tolist()


def judge(block: bytes, bound: int, count: int) -> object:
    """What the reference makes of a block, after every table has made the same."""
    data = len(block).to_bytes(3, "little") + block
    expected = verdict(rans.decode, data, bound, count, True, phases.Phases(RNG.words(0, count)))
    for _ in each_table():
        assert verdict(coders.dithered_decode, data, bound, count, RNG.key) == expected
    return expected


@pytest.mark.parametrize("nu", [0.02, 0.1, 0.5, 2.0, 30.0])
@pytest.mark.parametrize("bound", [300, 40, 33, 32])
def test_every_table_writes_the_references_bytes(nu: float, bound: int) -> None:
    for count in (1, 2, 31, 33, 255, 700, 1025, 3001, 9000):
        for heavy in (False, True):
            codes = dithered(count, nu, heavy=heavy)
            check(np.clip(codes, 1 - bound, bound - 1), bound)


@pytest.mark.parametrize("count", [65_535, 65_536, 65_600])
def test_where_a_block_ends(count: int) -> None:
    assert is_phased(check(dithered(count, 1.0), 2000))


def test_far_codes_are_escaped_with_their_signs() -> None:
    codes = dithered(4000, 1.0)
    for far, bound in ((31, 200), (32, 200), (-32, 33), (254, 256), (-255, 300), (60_000, 65_536)):
        codes[[7, 1000, 3999]] = far, -far, far
        assert is_phased(check(codes, bound))


@pytest.mark.parametrize(("nu", "share"), [(8.0, 0.7), (2.0, 0.83), (0.5, 0.97)])
def test_phases_make_sections_smaller(nu: float, share: float) -> None:
    """By what the entropies of codes, with and without the phase, say."""
    codes = dithered(rans.CODER_BLOCK, nu)
    plain, signs = halves(codes)
    data = coders.dithered_encode(plain, 2000, signs, RNG.key)
    assert is_phased(data)
    assert len(data) < share * len(coders.coded_encode(plain, 2000, signs))


def test_where_phases_say_little_there_are_none() -> None:
    for nu in (0.003, 0.03):
        codes = dithered(9000, nu)
        assert not is_phased(check(codes, 3000))
        assert check(codes, 3000) == coders.coded_encode(*_order(codes, 3000))
    assert not is_phased(check(dithered(40, 1.0), 300))  # the tables are longer than the codes
    same = np.ones(5000, np.int64)
    assert check(same, 300)[3] == rans.CONSTANT


def _order(codes: Signed, bound: int) -> tuple[np.ndarray, int, np.ndarray]:
    plain, signs = halves(codes)
    return plain, bound, signs


def test_the_phase_is_how_far_the_dither_is_from_zero() -> None:
    words = np.array([0, 2**29, 2**31 - 1, 2**31, 3 * 2**30 - 1, 2**32 - 1], np.uint32)
    which, turned = phases.phases(words)
    assert which.tolist() == [3, 2, 0, 0, 1, 3]
    assert turned.tolist() == [False, False, False, True, True, True]


def test_a_reader_without_a_dither_refuses_phases() -> None:
    codes = dithered(2000, 1.0)
    data = check(codes, 300)
    assert is_phased(data)
    assert verdict(rans.decode, data, 300, 2000, True) == rans.UNKNOWN_KIND
    for _ in each_table():
        assert verdict(coders.coded_decode, data, 300, 2000, True) == rans.UNKNOWN_KIND
    assert rans.needed_version(np.frombuffer(data, np.uint8)) == 3


# ---- bytes that nobody wrote ----


def test_every_flipped_bit_and_every_other_length() -> None:
    codes = dithered(330, 4.0)
    codes[[5, 300]] = 40, -60
    block = check(codes, 64)[3:]
    good = judge(block, 64, codes.size)
    assert not isinstance(good, str)
    for bit in range(8 * len(block)):
        damaged = bytearray(block)
        damaged[bit // 8] ^= 1 << bit % 8
        assert judge(bytes(damaged), 64, codes.size) != good
    for size in range(len(block)):
        assert isinstance(judge(block[:size], 64, codes.size), str)
    assert "left over" in str(judge(block + b"\0", 64, codes.size))


def test_hostile_tables() -> None:
    table = frequencies.write_table(np.array([2048, 2048]), 0)
    states = np.full(1, 2 * lanes.LOW, "<u4").tobytes()
    head = bytes([rans.RANS, phases.PHASED])
    good = head + b"\x04" + 4 * table + states
    assert judge(good, 40, 1) == ([0], [0])
    for number in (0, 1, 2, 3, 5, 8, 255):
        assert "impossible" in str(judge(head + bytes([number]) + 4 * table + states, 40, 1))
    for bits in (0x80, 7):
        bad = bytes([rans.RANS, phases.PHASED | bits, 4])
        assert judge(bad + 4 * table + states, 40, 1) == rans.UNKNOWN_KIND
    for far, bound, fine in ((63, 40, True), (63, 32, False), (62, 32, True), (3, 2, False)):
        own = np.zeros(64, np.int64)
        own[[0, far]] = 4095, 1
        other = frequencies.write_table(own, 0)
        found = judge(head + b"\x04" + other + 3 * table + states, bound, 1)
        assert ("table of frequencies is impossible" in str(found)) != fine
    beyond = np.zeros(65, np.int64)
    beyond[[0, 64]] = 4095, 1
    bad = head + b"\x04" + frequencies.write_table(beyond, 0) + 3 * table + states
    assert "table of frequencies is impossible" in str(judge(bad, 40_000, 1))


def test_an_escape_has_no_symbol_of_its_own() -> None:
    own = np.zeros(64, np.int64)
    own[[0, 63]] = 2048, 2048
    table = frequencies.write_table(own, 0)
    states, words = lanes.encode_symbols(np.array([63]), own, 1)
    assert not words
    head = bytes([rans.RANS, phases.PHASED, 4]) + 4 * table + np.array(states, "<u4").tobytes()
    for code in (0, 31, 32, 39, 40):
        found = judge(head + bytes([code]) + b"\x01", 40, 1)
        if code < 32:
            assert found == phases.NEEDLESS
        elif code < 40:
            assert found == ([code], [1])
        else:
            assert "not below its bound" in str(found)
    assert "unused bits" in str(judge(head + b"\x20\x02", 40, 1))
    assert "ends before" in str(judge(head + b"\x20", 40, 1))


@given(st.data())
def test_any_bytes_decode_as_the_reference_says(data: st.DataObject) -> None:
    bound = data.draw(st.sampled_from((2, 3, 31, 33, 200, 300, 65_536)))
    head = data.draw(st.integers(0x40, 0x47)), 4
    kind = bytes([rans.RANS, *head])
    judge(kind + data.draw(st.binary(max_size=90)), bound, data.draw(st.integers(0, 40)))
