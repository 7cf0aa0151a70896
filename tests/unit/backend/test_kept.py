"""Rows that encode the largest values alone, and rows that combine vectors: the bits of NumPy."""

from typing import Any

import numpy as np
import pytest

import fewbits
import native_tables as native
import native_tables as units
from cases import mixed_bits
from fewbits import Operator, Rng
from fewbits.backend import library as _native
from fewbits.coding import places as places_code
from fewbits.core.vector import Vector
from fewbits.errors import DecodeError
from fewbits.reference import selection
from fewbits.reference.formats import BFLOAT16, FLOAT32, FLOAT64, FORMATS, Format

LENGTHS = (2, 3, 33, 1001, 4099, 70_001)
SPECS = (
    "top-k:fraction=0.01|natural",
    "top-k|natural:rounding=nearest",
    "top-k:fraction=0.03|natural:coder=rans",
    "top-k:fraction=0.1|identity",
    "top-k:fraction=0.1|bfloat16",
)
formats = pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
lengths = pytest.mark.parametrize("n", LENGTHS)
specs = pytest.mark.parametrize("spec", SPECS)


def row_of(operator: Operator, values: np.ndarray, format: Format) -> tuple[Any, np.ndarray]:
    """A table of one row, and the bytes that its sections lie in."""
    kernel = units.native_kernel(operator.kernel(values.size, format), values.size)
    assert kernel[2] > 0
    sizes = [section.size for section in operator.layout(values.size, format)]
    table, room = units.new_table(1), np.full(sum(sizes), 0xA5, np.uint8)
    units.set_kernel(table[0], kernel, format, values.size)
    units.set_sections(table[0], _native.address(room), sizes)
    table["key"] = np.void(Rng.from_seed(values.size).fork(1).key)
    table["values"] = _native.address(values)
    return table, room


def parts_of(table: Any, room: np.ndarray) -> tuple[np.ndarray, ...]:
    starts = table[0]["sections"] - np.uint64(_native.address(room))
    used = [int(size) for size in table[0]["sizes"]]
    found = [room[int(at) : int(at) + size] for at, size in zip(starts, used, strict=True) if size]
    return tuple(found)


@specs
@formats
@lengths
def test_a_row_has_the_bits_of_the_composition(
    spec: str, format: Format, n: int, simd: str
) -> None:
    operator = fewbits.operator(spec)
    for rare in (0.0, 0.01):
        values = mixed_bits(format, n, seed=n, rare=rare)
        table, room = row_of(operator, values, format)
        tally = units.run("encode", table)
        parts = parts_of(table, room)

        sizes = [section.size for section in operator.layout(n, format)]
        into = tuple(np.zeros(size, np.uint8) for size in sizes)
        written = units.composed_encode(operator, Vector(values, format), Rng.from_seed(n), into)
        assert tally == written.tally
        kept = [part[:size].tobytes() for part, size in zip(into, written.sizes, strict=True)]
        assert [part.tobytes() for part in parts] == [part for part in kept if part]

        wanted, decoded = Vector(np.ones_like(values), format), np.ones_like(values)
        met = units.composed_decode(operator, parts, wanted)
        table["values"] = _native.address(decoded)
        assert units.run("decode", table) == met
        assert decoded.tobytes() == wanted.bits.tobytes()
        assert n < 1000 or 0 < np.count_nonzero(decoded) < n / 4

        totals = np.linspace(-1, 1, n).astype("float64" if format == FLOAT64 else "float32")
        sums = totals.copy()
        units.composed_accumulate(operator, parts, format, totals)
        table["values"] = _native.address(sums)
        units.run("accumulate", table)
        broken = np.isnan(totals)  # of which no two ways to sum keep the same bits
        assert np.array_equal(np.isnan(sums), broken)
        assert sums[~broken].tobytes() == totals[~broken].tobytes()


@specs
@pytest.mark.parametrize("format", [FLOAT32, FLOAT64], ids=lambda format: format.name)
@lengths
def test_what_remains_is_what_was_lost(spec: str, format: Format, n: int, simd: str) -> None:
    values = np.random.default_rng(n).standard_normal(n).astype(format.name)
    left, decoded = values.copy(), np.empty_like(values)
    table, _ = row_of(fewbits.operator(spec), left, format)
    table["remains"] = True
    units.run("encode", table)
    table["remains"], table["values"] = False, _native.address(decoded)
    units.run("decode", table)
    assert left.tobytes() == (values - decoded).tobytes()
    assert left.tobytes() != decoded.tobytes()
    assert decoded.any()


def test_places_that_are_no_encoders_are_refused() -> None:
    values = np.random.default_rng(3).standard_normal(1000).astype(np.float32)
    table, room = row_of(fewbits.operator("top-k:fraction=0.05|natural"), values, FLOAT32)
    units.run("encode", table)
    room[int(table[0]["sizes"][0]) - 1] ^= 0x80  # the last bit of the places
    for direction in ("decode", "accumulate"):
        with pytest.raises(DecodeError, match="places"):
            units.run(direction, table)  # type: ignore[arg-type]


def test_damaged_places_are_refused_as_by_the_reference() -> None:
    rng = np.random.default_rng(5)
    for d, k in ((50, 3), (1000, 11), (65_536, 40)):
        good = units.places_encode(np.sort(rng.choice(d, k, replace=False)).astype(np.uint32), d)
        outcomes = set()
        for change in range(60):
            bad = good.copy()
            if change:
                bad[rng.integers(bad.size)] ^= np.uint8(1 << rng.integers(8))
            results = []
            for decode in (places_code.decode, units.places_decode):
                given: Any = bad.tobytes() if decode is places_code.decode else bad
                try:
                    results.append(decode(given, d, k).tolist())
                except DecodeError:
                    results.append(None)
            assert results[0] == results[1]
            outcomes.add(results[0] is None)
        assert outcomes == {True, False}


@pytest.mark.parametrize("n", [2048, 5001, 65_536, 70_001])
def test_selection_does_not_depend_on_the_guess(n: int, simd: str) -> None:
    rng = np.random.default_rng(n)
    normal = rng.standard_normal(n).astype(np.float32)
    sparse = np.where(rng.random(n) < 0.02, normal, np.float32(0))
    spiked = np.where(np.arange(n) % 512 == 0, np.float32(1e30), normal)
    ties, coarse = (np.round(normal * factor).astype(np.float32) for factor in (2, 1))
    broken = np.where(rng.random(n) < 0.05, np.float32("nan"), normal)
    late = np.where(np.arange(n) > n - n // 50, normal * 1000, normal)
    for values in (normal, sparse, spiked, ties, coarse, broken, late.astype(np.float32), -normal):
        keys = values.view(np.uint32)
        magnitudes = keys & np.uint32(0x7FFFFFFF)
        for k in (1, 2, n // 1000, n // 100, n // 10, n // 8, n // 4):
            places, nonfinite = native.largest(keys, FLOAT32, k)
            assert np.array_equal(places, selection.largest(magnitudes, k))
            assert nonfinite == np.count_nonzero(~np.isfinite(values))


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 63, 64, 65, 1001])
@pytest.mark.parametrize("into", ["x", "y", "other"])
def test_combining_rounds_every_operation(name: str, n: int, into: str) -> None:
    rng = np.random.default_rng(n)
    x, y = (rng.standard_normal(n).astype(name) for _ in range(2))
    other = np.zeros_like(x)
    a, b = x.dtype.type(1 / 3), x.dtype.type(-0.7)
    wanted = a * x + b * y
    target = {"x": x, "y": y, "other": other}[into]
    table = combining(x, y, target)
    table["factors"] = [[1 / 3, -0.7]]
    units.run("accumulate", table)
    assert target.tobytes() == wanted.tobytes()


def combining(x: np.ndarray, y: np.ndarray, target: np.ndarray) -> Any:
    table = units.new_table(1)
    format = FLOAT64 if x.dtype == np.float64 else FLOAT32
    units.set_kernel(table[0], (units.COMBINE, 0), format, x.size)
    table["values"] = _native.address(target)
    table["sections"][0, :2] = _native.address(x), _native.address(y)
    table["sizes"][0, :2] = x.nbytes
    return table


@pytest.mark.parametrize(
    ("field", "value"),
    [("dtype", BFLOAT16.code), ("sizes", 8), ("kept", 1), ("remains", 1), ("decodes", 2)],
)
def test_impossible_rows_are_refused(field: str, value: int) -> None:
    x = np.ones(5, np.float32)
    table = combining(x, x, x)
    table[field] = value
    with pytest.raises(RuntimeError, match="refused its arguments"):
        units.run("accumulate", table)
    with pytest.raises(RuntimeError, match="refused its arguments"):
        units.run("encode", combining(x, x, x))


@pytest.mark.parametrize(("field", "value"), [("kept", 501), ("decodes", 1), ("remains", 2)])
def test_impossible_units_are_refused(field: str, value: int) -> None:
    values = np.ones(1000, np.float32)
    table, _ = row_of(fewbits.operator("top-k|natural"), values, FLOAT32)
    table[field] = value
    with pytest.raises(RuntimeError, match="refused its arguments"):
        units.run("encode", table)
    units.run("encode", row_of(fewbits.operator("top-k|natural"), values, FLOAT32)[0])
