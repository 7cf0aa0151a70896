"""Selection and rotation: every table has the bits of the reference."""

from itertools import product

import numpy as np
import pytest

import native_tables as native
from cases import array, bits, exact, mixed_bits
from fewbits import Rng
from fewbits.reference import casts, rotation, selection
from fewbits.reference.formats import FLOAT32, FLOAT64, FORMATS, Format

formats = pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
LENGTHS = (1, 2, 3, 7, 8, 31, 32, 33, 100, 1025, 4099)


@formats
@pytest.mark.parametrize("n", LENGTHS)
def test_selection_takes_the_largest_and_of_equals_the_first(
    format: Format, n: int, simd: str
) -> None:
    for rare in (0.0, 0.02, 0.5):
        values = mixed_bits(format, n, seed=n, rare=rare)
        coarse = values >> format.bits.type(format.mantissa) << format.bits.type(format.mantissa)
        for keys in (values, coarse, np.zeros_like(values)):
            magnitudes = keys & format.bits.type(format.sign - 1)
            for k in {1, (n + 1) // 2, max(1, n // 100), max(1, n - 1), n}:
                places, nonfinite = native.largest(keys, format, k)
                assert np.array_equal(places, selection.largest(magnitudes, k))
                assert nonfinite == casts.count_nonfinite(keys, format)
                order = sorted(range(n), key=lambda i: (-int(magnitudes[i]), i))
                assert places.tolist() == sorted(order[:k])


@pytest.mark.parametrize("n", [1, 33, 1000, 70_001])
def test_selection_of_words_is_unsigned(n: int, simd: str) -> None:
    words = Rng.from_seed(n).words(0, n)
    for keys in (words, words % np.uint32(5), words | np.uint32(1 << 31)):
        for k in {1, (n + 1) // 2, n}:
            assert np.array_equal(native.largest(keys, None, k)[0], selection.largest(keys, k))


def test_selection_refuses_impossible_numbers() -> None:
    values = np.zeros(5, np.uint32)
    for k in (0, 6):
        with pytest.raises(RuntimeError, match="refused its arguments"):
            native.largest(values, FLOAT32, k)
    assert native.largest(values[:0], FLOAT32, 0)[0].size == 0
    with pytest.raises(RuntimeError, match="expects uint32"):
        native.largest(np.zeros(5, np.uint64), None, 1)


@formats
@pytest.mark.parametrize("block", [2, 8, 64, 4096, 65_536])
@pytest.mark.parametrize("n", [*LENGTHS, 70_001])
def test_rotation_has_the_bits_of_the_reference(format: Format, block: int, n: int) -> None:
    for rare, inverse in product((0.0, 0.001, 0.2), (False, True)):
        values, signs = mixed_bits(format, n, seed=n, rare=rare), Rng.from_seed(n)
        wanted = rotation.rotate(values, format, block, signs, inverse=inverse)
        for simd in native.each_table():
            out = np.empty_like(values)
            tally = native.rotate(values, format, block, signs, out, inverse=inverse)
            assert np.array_equal(out, wanted[0]), simd
            assert tally == wanted[1], simd
            native.rotate(out_of := values.copy(), format, block, signs, out_of, inverse=inverse)
            assert np.array_equal(out_of, wanted[0]), simd


@pytest.mark.parametrize("size", [2, 4, 8, 32, 1024])
def test_rotation_is_the_orthonormal_walsh_hadamard_matrix(size: int) -> None:
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    signs = Rng.from_seed(size)
    flips = np.where(signs.words(0, size) >> np.uint32(31), -1.0, 1.0)
    x = np.random.default_rng(size).standard_normal(size)
    out = np.empty(size, np.uint64)
    native.rotate(x.view(np.uint64), FLOAT64, size, signs, out)
    wanted = matrix @ (flips * x) / np.sqrt(size)
    assert np.abs(out.view(float) - wanted).max() <= 1e-14 * np.linalg.norm(x)
    assert not np.allclose(out.view(float), x)


@formats
def test_the_inverse_undoes_the_rotation(format: Format, simd: str) -> None:
    x = bits(array(np.random.default_rng(1).standard_normal(5000), format))
    turned, back = np.empty_like(x), np.empty_like(x)
    signs = Rng.from_seed(1)
    native.rotate(x, format, 1024, signs, turned)
    native.rotate(turned, format, 1024, signs, back, inverse=True)
    before, after = casts.to_float64(x, format), casts.to_float64(back, format)
    # Two roundings to the format, at most half a unit each, and eleven of the arithmetic's.
    unit = 2.0 ** -(format.mantissa + 1)
    assert np.linalg.norm(after - before) <= 13 * unit * np.linalg.norm(before)
    assert np.linalg.norm(casts.to_float64(turned, format) - before) > np.linalg.norm(before)


def test_blocks_at_the_end_are_powers_of_two() -> None:
    assert rotation.pieces(0, 8) == []
    assert rotation.pieces(1, 8) == [(0, 1, 1)]
    assert rotation.pieces(29, 8) == [(0, 8, 3), (24, 4, 1), (28, 1, 1)]
    assert rotation.pieces(1000, 4096)[:3] == [(0, 512, 1), (512, 256, 1), (768, 128, 1)]


@formats
def test_the_largest_numbers_saturate_and_are_counted_once(format: Format, simd: str) -> None:
    values = np.full(64, format.infinity - 1, format.bits)
    signs, out = Rng.from_seed(5), np.empty(64, format.bits)
    tally = native.rotate(values, format, 64, signs, out)
    assert tally == rotation.rotate(values, format, 64, signs)[1]
    assert 0 < tally.saturated <= 64
    assert tally.nonfinite == 0
    assert np.isfinite(casts.to_float64(out, format)).all()


@formats
def test_a_block_with_a_value_that_is_not_finite_becomes_nan(format: Format, simd: str) -> None:
    x = array(np.ones(40), format).copy()
    x[17] = array(np.inf, format)
    out = np.empty(40, format.bits)
    tally = native.rotate(bits(x), format, 16, Rng.from_seed(5), out)
    assert tally.nonfinite == 16
    assert (out[16:32] == format.quiet_nan).all()
    rest = np.delete(casts.to_float64(out, format), range(16, 32))
    assert np.isfinite(rest).all()
    assert np.isinf(exact(x)[17])


def test_rotation_refuses_impossible_blocks() -> None:
    values = np.zeros(5, np.uint32)
    for block in (0, 3, 131_072):
        with pytest.raises(RuntimeError, match="refused its arguments"):
            native.rotate(values, FLOAT32, block, Rng.from_seed(1), values)
    with pytest.raises(RuntimeError, match="cannot rotate"):
        native.rotate(values, FLOAT32, 2, Rng.from_seed(1), values[:3])
