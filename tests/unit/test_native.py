"""The thin layer over the native core: checksums, tables, and arguments that make no sense."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import native_tables as native
from fewbits.backend import library as _native
from fewbits.reference import checksum


def as_array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"", 0x00000000),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_checksums_are_those_of_rfc_3720(simd: str, data: bytes, crc: int) -> None:
    assert _native.crc32c(as_array(data)) == crc
    assert checksum.crc32c(data) == crc


def test_checksums_are_the_references_at_every_length_and_alignment(simd: str) -> None:
    data = np.random.default_rng(1).integers(0, 256, 700, dtype=np.uint8)
    wanted, crc = [], 0
    for byte in data:
        wanted.append(crc)
        crc = checksum.crc32c(bytes([byte]), crc)
    for size in range(690):
        for offset in (0, 1, 7):
            moved = np.empty(size + 8, np.uint8)[offset : offset + size]
            moved[:] = data[:size]
            assert _native.crc32c(moved) == wanted[size], (size, offset)


@pytest.mark.parametrize("size", [6143, 6144, 6145, 2 * 6144 - 1, 2 * 6144, 20_000])
def test_checksums_of_several_lanes_are_the_references(simd: str, size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    wanted = checksum.crc32c(data.tobytes())
    assert _native.crc32c(data) == wanted
    assert _native.crc32c(data[5:], _native.crc32c(data[:5])) == wanted


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_checksums_combine(a: bytes, b: bytes) -> None:
    joined = _native.crc32c(as_array(a + b))
    parts = _native.crc32c(as_array(a)), _native.crc32c(as_array(b))
    assert _native.crc32c_combine(*parts, len(b)) == joined


def test_checksums_combine_over_more_than_four_gibibytes() -> None:
    zeros = _native.crc32c(np.zeros(1 << 20, np.uint8))
    total, size = zeros, 1 << 20
    while size < 1 << 33:  # doubling: the CRC of twice as many zeros
        total, size = _native.crc32c_combine(total, total, size), 2 * size
    other, done = zeros, 1 << 20
    for power in range(20, 33):  # the same length from other pieces
        piece = zeros
        for step in range(20, power):
            piece = _native.crc32c_combine(piece, piece, 1 << step)
        other, done = _native.crc32c_combine(other, piece, 1 << power), done + (1 << power)
    assert done == size
    assert other == total


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_checksums_do_not_depend_on_threads(threads: int) -> None:
    data = np.random.default_rng(2).integers(0, 256, 900_001, dtype=np.uint8)
    assert native.crc32c(data, threads) == _native.crc32c(data)


def test_tables_can_be_chosen_and_unknown_ones_cannot(simd: str) -> None:
    assert _native.simd() == simd
    assert _native.crc32c_is_hardware() == (simd != "portable")
    with pytest.raises(ValueError, match="no 'sse9' table"):
        _native.use_simd("sse9")
    assert _native.simd() == simd


def test_the_core_names_its_tables() -> None:
    core = _native._core
    assert _native.SIMD[0] == "portable"
    assert len(set(_native.SIMD)) == len(_native.SIMD)
    for number in (-1, len(_native.SIMD)):
        assert core.fewbits_simd_name(number) is None
        assert core.fewbits_use_simd(number) != _native.OK


def started_with(wish: str) -> tuple[str, str]:
    """The table that a new process takes if FEWBITS_SIMD is `wish`, and its warnings."""
    code = "from fewbits.backend import library; print(library.simd())"
    environment = {**os.environ, "FEWBITS_SIMD": wish}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return result.stdout.strip(), result.stderr


def test_the_environment_chooses_the_table(simd: str) -> None:
    assert started_with(simd) == (simd, "")


def test_the_portable_table_has_an_old_name() -> None:
    table, text = started_with("scalar")
    assert table == "portable"
    assert "FutureWarning: FEWBITS_SIMD=scalar is an old name" in text


def test_a_table_that_is_not_there_is_a_warning_and_the_default() -> None:
    default, text = started_with("")
    assert text == ""
    table, text = started_with("sse9")
    assert table == default
    assert text.count("RuntimeWarning: FEWBITS_SIMD=sse9 has no effect") == 1


def test_memory_that_is_not_contiguous_is_a_programming_error() -> None:
    with pytest.raises(RuntimeError, match="not contiguous"):
        _native.crc32c(np.zeros(10, np.uint8)[::2])


def test_arguments_out_of_range_are_a_programming_error(simd: str) -> None:
    codes, packed = np.zeros(8, np.uint16), np.zeros(8, np.uint8)
    for width in (0, 17, -1):
        with pytest.raises(RuntimeError, match="status 1"):
            _native.pack(codes, width, packed)
        with pytest.raises(RuntimeError, match="status 1"):
            _native.unpack(packed, width, 1, codes)
    for bound in (0, 257):
        with pytest.raises(RuntimeError, match="status 1"):
            _native.unpack(packed, 8, bound, codes)
    for size in (7, 9):
        with pytest.raises(RuntimeError, match="status 2"):
            _native.pack(codes, 8, np.zeros(size, np.uint8))
    with pytest.raises(RuntimeError, match="expects uint16"):
        _native.pack(codes.astype(np.uint32), 8, packed)


def test_advice_about_huge_pages_changes_nothing() -> None:
    data = np.random.default_rng(3).integers(0, 256, 5 << 20, dtype=np.uint8)
    before = data.copy()
    _native.advise_huge(data[3:])
    _native.advise_huge(data[:0])
    assert np.array_equal(data, before)
