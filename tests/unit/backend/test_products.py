"""Products with thin factors: the bits of the reference, for every table and number of threads."""

from typing import Any

import numpy as np
import pytest

from fewbits.backend import parallel, products
from fewbits.backend.products import Remembered, lanes
from fewbits.reference import low_rank

SHAPES = [(1, 1), (2, 3), (4, 8), (5, 33), (17, 256), (9, 257), (64, 40), (3, 1031), (130, 600)]
RANKS = (1, 4, 8, 11)
FORMATS = pytest.mark.parametrize("format", ["float32", "float64"])


def numbers(seed: int, *shape: int, format: str) -> Any:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(format)


def padded(factor: Any) -> Any:
    """Rows with zeros behind, as native code takes them."""
    wide = np.zeros((len(factor), lanes(factor.shape[1])), factor.dtype)
    wide[:, : factor.shape[1]] = factor
    return wide


def same(found: Any, wanted: Any) -> None:
    assert found.dtype == wanted.dtype
    assert found.tobytes() == np.ascontiguousarray(wanted).tobytes()


@FORMATS
@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("with_memory", [False, True])
def test_products_have_the_bits_of_the_reference(
    simd: str, format: str, rank: int, with_memory: bool
) -> None:
    for rows, columns in SHAPES:
        values = numbers(1, rows, columns, format=format)
        memory = numbers(2, rows, columns, format=format) if with_memory else None
        whole = values if memory is None else values + memory
        basis, left = (
            numbers(3, columns, rank, format=format),
            numbers(4, rows, rank, format=format),
        )
        own, mean = (numbers(seed, columns, rank, format=format) for seed in (5, 6))
        matrix = Remembered(values.copy(), memory)
        found = padded(np.full((rows, rank), np.nan, format))
        matrix.left_factor(padded(basis), found)
        same(found[:, :rank], low_rank.left_factor(whole, basis))
        found = padded(np.full((columns, rank), np.nan, format))
        matrix.right_factor(padded(left), found)
        same(found[:, :rank], low_rank.right_factor(whole, left))
        remains = np.full((rows, columns), np.nan, format)
        matrix.settle(padded(left), own, mean, remains)
        estimate, lost = low_rank.settled(whole, left, own, mean)
        same(matrix.values, estimate)
        same(remains, lost)
        assert matrix.memory is None or (matrix.memory == memory).all()


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_the_number_of_threads_changes_no_bit(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    monkeypatch.setattr(parallel, "WORTHWHILE", 64)

    def made(count: int) -> list[bytes]:
        values, memory = (numbers(seed, 61, 83, format="float32") for seed in (1, 2))
        left, basis = numbers(3, 61, 8, format="float32"), numbers(4, 83, 8, format="float32")
        first, second = np.empty_like(left), np.empty_like(basis)
        remains, matrix = np.empty_like(values), Remembered(values, memory)
        matrix.left_factor(basis, first, threads=count)
        matrix.right_factor(left, second, threads=count)
        matrix.settle(left, basis, second, remains, threads=count)
        return [each.tobytes() for each in (first, second, remains, values)]

    assert made(threads) == made(1)


@FORMATS
@pytest.mark.parametrize("rank", [8, 16])
def test_orthonormal_columns_have_the_bits_of_the_reference(
    simd: str, format: str, rank: int
) -> None:
    for rows in (1, 2, 7, 8, 33, 500):
        factor = numbers(7, rows, rank, format=format)
        found = factor.copy()
        products.orthonormal(found)
        same(found, low_rank.orthonormal(factor))


@FORMATS
@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_columns_are_orthonormal_and_span_what_they_did(format: str, size: float) -> None:
    factor = (size * numbers(8, 200, 8, format=format)).astype(format)
    found = factor.copy()
    products.orthonormal(found)
    wide = found.astype(np.float64)
    np.testing.assert_allclose(wide.T @ wide, np.eye(8), atol=1e-6)
    rest = factor / size - wide @ (wide.T @ (factor / size))
    assert np.abs(rest).max() < 1e-5


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_beside_what_is_not_finite_columns_are_those_of_the_reference(
    simd: str, bad: float, size: float
) -> None:
    factor = size * numbers(11, 30, 8, format="float64")
    factor[4, 2] = bad
    found = factor.copy()
    products.orthonormal(found)
    np.testing.assert_array_equal(found, low_rank.orthonormal(factor))
    assert np.isnan(bad) <= np.isfinite(found[:, :2]).all()


@pytest.mark.parametrize(
    ("format", "sizes"),
    [
        ("float32", (1e-30, 1.0)),
        ("float32", (1e-36, 1e37)),
        ("float64", (1e-162, 1.0)),
        ("float64", (1e-162, 1e-162)),
        ("float64", (1e-300, 1e300)),
    ],
)
def test_a_basis_has_columns_of_length_1_whatever_they_had(
    format: str, sizes: tuple[float, float]
) -> None:
    kept = (numbers(12, 50, 2, format="float64") * sizes).astype(format)
    made = low_rank.basis(kept, lambda column: np.zeros(50, np.uint32))
    assert made.dtype == kept.dtype
    np.testing.assert_allclose((made.astype(float) ** 2).sum(0), 1, 1e-5)
    largest = np.abs(kept).max(0)
    np.testing.assert_allclose(made / np.abs(made).max(0), kept / largest, 1e-5)


@FORMATS
def test_columns_that_others_make_up_become_zeros(format: str) -> None:
    factor = numbers(9, 40, 8, format=format)
    factor[:, 3] = 2 * factor[:, 0]
    factor[:, 5] = 0
    found = factor.copy()
    products.orthonormal(found)
    same(found, low_rank.orthonormal(factor))
    assert not found[:, [3, 5]].any()
    np.testing.assert_allclose((found.astype(float) ** 2).sum(0), [1, 1, 1, 0, 1, 0, 1, 1], 1e-6)


@FORMATS
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_never_becomes_finite(format: str, bad: float) -> None:
    factor = numbers(10, 20, 8, format=format)
    factor[4, 2] = bad
    found = factor.copy()
    products.orthonormal(found)
    for own in (found, low_rank.orthonormal(factor)):
        assert np.isnan(own[:, 2:]).all()
    values, basis = numbers(1, 5, 9, format=format), numbers(2, 9, 8, format=format)
    values[3, 3] = bad
    out = np.empty((5, 8), format)
    Remembered(values, None).left_factor(basis, out)
    assert not np.isfinite(out[3]).any()
    assert np.isfinite(np.delete(out, 3, 0)).all()


def test_factors_that_do_not_fit_are_refused() -> None:
    matrix = Remembered(np.zeros((4, 6), np.float32), None)
    good, out = np.zeros((6, 8), np.float32), np.zeros((4, 8), np.float32)
    matrix.left_factor(good, out)
    for basis, result in (
        (good[:5], out),
        (good, out[:3]),
        (good.astype(np.float64), out),
        (np.zeros((6, 7), np.float32), np.zeros((4, 7), np.float32)),
    ):
        with pytest.raises(RuntimeError):
            matrix.left_factor(basis, result)
    with pytest.raises(RuntimeError):
        Remembered(np.zeros((4, 6), np.float32), np.zeros((6, 4), np.float32)).left_factor(
            good, out
        )
    with pytest.raises(RuntimeError):
        matrix.settle(out, good, good[:, :4].copy(), np.empty((4, 6), np.float32))


def test_factors_of_another_precision_or_too_wide_are_refused() -> None:
    """Native code would read beyond their end."""
    values = np.ones((16, 12))
    left, own, remains = np.ones((16, 8)), np.ones((12, 3)), np.zeros((16, 12))
    matrix = Remembered(values, None)
    narrow = own.astype(np.float32)
    wide = np.ones((12, 9))
    for given, mean in ((narrow, own), (own, narrow), (wide, wide)):
        with pytest.raises(RuntimeError):
            matrix.settle(left, given, mean, remains)
    matrix.settle(left, own, own, remains)
    assert values[0, 0] == 3


def odd(kind: str, good: Any) -> Any:
    """The same numbers, as no array of this precision that native code could take."""
    if kind == "big-endian":
        return good.astype(good.dtype.newbyteorder(">"))
    if kind == "strided":
        return np.repeat(good, 2, 1)[:, ::2]
    if kind == "half":
        return good.astype(np.float16)
    if kind == "flat":
        return good.reshape(-1)
    if kind == "read-only":
        good = good.copy()
        good.flags.writeable = False
        return good
    room = np.zeros(good.nbytes + 1, np.uint8)
    return np.frombuffer(room.data, good.dtype, offset=1).reshape(good.shape)


@FORMATS
@pytest.mark.parametrize("kind", ["big-endian", "strided", "half", "flat", "misaligned"])
@pytest.mark.parametrize("which", range(8))
def test_memory_that_native_code_would_misread_is_refused(
    format: str, kind: str, which: int
) -> None:
    shapes = [(4, 6), (4, 6), (6, 8), (4, 8), (4, 8), (6, 3), (6, 3), (4, 6)]
    arrays = [np.ones(shape, format) for shape in shapes]
    arrays[which] = odd(kind, arrays[which])
    values, memory, basis, left, out, own, mean, remains = arrays
    refused = 0
    for call in (
        lambda: Remembered(values, memory).left_factor(basis, out),
        lambda: Remembered(values, memory).right_factor(left, basis),
        lambda: Remembered(values, memory).settle(left, own, mean, remains),
        lambda: products.orthonormal(left),
    ):
        try:
            call()
        except (RuntimeError, ValueError):
            refused += 1
    is_copied = kind in ("strided", "misaligned") and which in (5, 6)
    assert refused == (0 if is_copied else (3, 3, 2, 3, 1, 1, 1, 1)[which])


@FORMATS
def test_results_are_not_written_where_nothing_may_be(format: str) -> None:
    values, basis, out = np.ones((4, 6), format), np.ones((6, 8), format), np.ones((4, 8), format)
    own, remains = np.ones((6, 3), format), np.ones((4, 6), format)
    locked = odd("read-only", values)
    for call in (
        lambda: Remembered(values, None).left_factor(basis, odd("read-only", out)),
        lambda: Remembered(locked, None).settle(out, own, own, remains),
        lambda: Remembered(values, None).settle(out, own, own, locked),
        lambda: products.orthonormal(odd("read-only", out)),
    ):
        with pytest.raises(RuntimeError, match="lies otherwise"):
            call()
    Remembered(locked, None).left_factor(basis, out)


@pytest.mark.parametrize("width", [0, 7, 1032, 2**32 + 8])
def test_factors_of_no_whole_lanes_are_refused(width: int) -> None:
    factor = np.zeros((0, width))
    for call in (
        lambda: products.orthonormal(factor),
        lambda: Remembered(np.zeros((0, 0)), None).left_factor(factor, factor),
    ):
        with pytest.raises(RuntimeError, match="in eights"):
            call()
