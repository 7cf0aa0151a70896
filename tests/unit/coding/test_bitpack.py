"""Fixed-width packing: exact sizes, the reference's bytes, and nothing else accepted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewbits import DecodeError
from fewbits.backend import coders
from fewbits.coding import bitpack

widths = pytest.mark.parametrize("width", range(1, bitpack.MAX_WIDTH + 1))


@widths
def test_packing_is_the_references_at_every_short_length(simd: str, width: int) -> None:
    source = np.random.default_rng(width)
    for n in (*range(70), 1000, 4097):
        codes = source.integers(0, 1 << width, n).astype(np.uint16)
        for offset in (0, 1, 3):
            packed = np.full(bitpack.packed_size(n, width) + 8, 0xA5, np.uint8)
            inner = packed[offset : packed.size - 8 + offset]
            coders.pack(codes, width, inner)
            assert inner.tobytes() == bitpack.pack(codes, width).tobytes()
            assert (np.delete(packed, np.s_[offset : packed.size - 8 + offset]) == 0xA5).all()
            assert np.array_equal(coders.unpack(inner, width, 1 << width, n), codes)
            assert np.array_equal(bitpack.unpack(inner, width, 1 << width, n), codes)


@widths
def test_codes_at_the_bound_are_refused(simd: str, width: int) -> None:
    codes = np.zeros(37, np.uint16)
    codes[21] = (1 << width) - 1
    packed = bitpack.pack(codes, width)
    bound = int(codes[21])
    assert np.array_equal(coders.unpack(packed, width, bound + 1, 37), codes)
    if bound > 0:
        for unpack in (coders.unpack, bitpack.unpack):
            with pytest.raises(DecodeError, match="not below its bound"):
                unpack(packed, width, bound, 37)


@widths
def test_every_padding_bit_is_refused(simd: str, width: int) -> None:
    for n in range(1, 9):
        packed = bitpack.pack(np.zeros(n, np.uint16), width)
        for bit in range(n * width, 8 * packed.size):
            damaged = packed.copy()
            damaged[bit // 8] |= 1 << bit % 8
            for unpack in (coders.unpack, bitpack.unpack):
                with pytest.raises(DecodeError, match="unused bits"):
                    unpack(damaged, width, 1 << width, n)


@given(st.data())
def test_any_bytes_unpack_as_the_reference_says(data: st.DataObject) -> None:
    width = data.draw(st.integers(1, 16))
    bound = data.draw(st.integers(1, 1 << width))
    n = data.draw(st.integers(0, 40))
    size = bitpack.packed_size(n, width)
    packed = np.frombuffer(data.draw(st.binary(min_size=size, max_size=size)), np.uint8)
    results = []
    for unpack in (coders.unpack, bitpack.unpack):
        try:
            results.append(unpack(packed, width, bound, n).tolist())
        except DecodeError as error:
            results.append(str(error))
    if isinstance(results[1], list):
        assert results[0] == results[1]
        again = np.zeros(size, np.uint8)
        coders.pack(np.array(results[0], np.uint16), width, again)
        assert again.tobytes() == packed.tobytes(), "two packings of one list"
    else:
        assert isinstance(results[0], str)
