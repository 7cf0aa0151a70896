"""Rows of levels on paths, in every format: the reference's bytes and values, safe to read."""

import numpy as np
import pytest

from fewbits.backend import cpu
from fewbits.backend.buffers import Buffer
from fewbits.backend.kernel import Row, RowDirection
from fewbits.coding import rans
from fewbits.coding.paths import Paths, halves
from fewbits.errors import DecodeError
from fewbits.operators.trellis import TrellisPaths
from fewbits.reference import casts, grid_scales, trellis
from fewbits.reference.formats import FLOAT32, FLOAT64, FORMATS, Format
from fewbits.rng import Rng
from native_tables import each_table

RNG = Rng(bytes(range(16)))
DITHER = RNG.fork("dither")
formats = pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
OPERATORS = (
    TrellisPaths(0.1),
    TrellisPaths(0.5, "subtractive"),
    TrellisPaths(0.01, "nearest", "least-squares", 16),
    TrellisPaths(0.03, "subtractive", "norm", 4),
    TrellisPaths(6.0, "subtractive"),
    TrellisPaths(3.0, scale="least-squares"),  # of some vectors a finer step is taken
    TrellisPaths(bits=2.0),
    TrellisPaths(scale="least-squares", states=4, bits=0.5),
    TrellisPaths(rounding="subtractive", states=16, bits=1.25),
    TrellisPaths(bits=5.5),  # one table
)
operators = pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.spec)


def numbers(format: Format, values: np.ndarray) -> np.ndarray:
    return casts.cast(values.astype(np.float64).view(np.uint64), FLOAT64, format)[0]


def sections(operator: TrellisPaths, format: Format, bits: np.ndarray) -> tuple[list, np.ndarray]:
    """The sections of a vector by the reference, and the values in them."""
    how = operator.paths(bits.size, format)
    scales, codes, _ = trellis.quantised(bits, format, how, DITHER)
    known = Paths(operator.states, DITHER.words(0, bits.size) if how.dithered else None)
    magnitudes, signs = np.abs(codes).astype(np.uint16), (codes < 0).astype(np.uint8)
    body = np.frombuffer(rans.encode(magnitudes, how.bound, signs, known), np.uint8)
    parts = [scales.view(np.uint8), body]
    parts += [np.frombuffer(DITHER.key, np.uint8)] * how.dithered
    scale = float(casts.to_float64(scales, grid_scales.scale_format(format))[0])
    return parts, trellis.values(codes, scale, format, DITHER if how.dithered else None)


def row(operator: TrellisPaths, format: Format, values: np.ndarray, count: int, parts: list) -> Row:
    kernel = operator.kernel(count, format)
    return Row(kernel, format, Buffer.of(values), tuple(map(Buffer.of, parts)), RNG.key, 1)


def check(operator: TrellisPaths, format: Format, bits: np.ndarray) -> None:
    parts, values = sections(operator, format, bits)
    wide = casts.wide(values, format)
    before = np.linspace(-1, 1, bits.size, dtype=wide.dtype)
    bound = operator.paths(bits.size, format).bound
    for simd in each_table():
        into = [np.zeros(part.size, np.uint8) for part in parts]
        into[1] = np.zeros(rans.largest_size(bits.size, bound, True), np.uint8)
        written = cpu.run_row("encode", row(operator, format, bits, bits.size, into))
        for part, own, size in zip(parts, into, written.sizes, strict=True):
            assert own[:size].tobytes() == part.tobytes(), simd
        out = np.empty_like(bits)
        cpu.run_row("decode", row(operator, format, out, bits.size, parts))
        assert out.tobytes() == values.tobytes(), simd
        totals = before.copy()
        cpu.run_row("accumulate", row(operator, format, totals, bits.size, parts))
        with np.errstate(over="ignore", invalid="ignore"):
            np.testing.assert_array_equal(totals, before + wide, simd)


@formats
@operators
def test_rows_are_those_of_the_reference(format: Format, operator: TrellisPaths) -> None:
    for count in (1, 2, 5, 127, 257, 700):
        x = np.random.default_rng(count).standard_normal(count)
        for own in (x, x**5, 0 * x, np.sign(x)):
            check(operator, format, numbers(format, own))
    bad = numbers(format, np.array([1.0, np.nan, 2.0]))
    check(operator, format, bad)


@operators
@pytest.mark.parametrize("count", [4095, 4096, 4097, 4127, 65_536 + 200])
def test_rows_of_all_lanes(operator: TrellisPaths, count: int) -> None:
    """One value is far away, so that its level is escaped."""
    x = np.random.default_rng(count).standard_normal(count)
    x[77] = -40.0
    check(operator, FLOAT32, numbers(FLOAT32, x))


@pytest.mark.parametrize("nu", [1e-4, 4e-6])
@pytest.mark.parametrize("format", [FLOAT32, FLOAT64], ids=lambda format: format.name)
def test_rows_of_halves(format: Format, nu: float) -> None:
    """So many levels are large that tables would have an escape for more than one in 256."""
    for operator in (TrellisPaths(nu, "subtractive"), TrellisPaths(nu, states=16)):
        x = numbers(format, np.random.default_rng(3).standard_normal(4200))
        assert rans.needed_version(sections(operator, format, x)[0][1]) == 4
        check(operator, format, x)


@pytest.mark.parametrize("share", [0.8, 0.9, 0.999])
def test_rows_with_many_zeros(share: float) -> None:
    """From 7/8 of them on other forms than tables are looked at."""
    x = np.random.default_rng(5).standard_normal(5000)
    x[np.random.default_rng(6).random(5000) < share] = 0
    for operator in (TrellisPaths(0.5), TrellisPaths(0.05, "subtractive"), TrellisPaths(bits=2.0)):
        check(operator, FLOAT32, numbers(FLOAT32, x))


def verdict(operator: TrellisPaths, parts: list, count: int) -> object:
    out = np.zeros(count, np.uint32)
    try:
        cpu.run_row("decode", row(operator, FLOAT32, out, count, parts))
    except DecodeError as error:
        return str(error)
    return out.tobytes()


def reference_verdict(operator: TrellisPaths, parts: list, count: int) -> object:
    how = operator.paths(count, FLOAT32)
    known = Paths(operator.states, DITHER.words(0, count) if how.dithered else None)
    try:
        codes, signs = rans.decode(parts[1].tobytes(), how.bound, count, True, known)
    except DecodeError as error:
        return str(error)
    assert signs is not None
    levels = np.where(signs, -codes.astype(np.int32), codes).astype(np.int32)
    scale = float(parts[0].view(np.float32)[0])
    return trellis.values(levels, scale, FLOAT32, DITHER if how.dithered else None).tobytes()


@pytest.mark.parametrize(
    "operator", [*OPERATORS[:3], OPERATORS[-1]], ids=lambda operator: operator.spec
)
def test_every_flipped_bit_and_every_length(operator: TrellisPaths) -> None:
    """Each is refused or gives other values, in the reference's words and by all tables."""
    count = 200
    x = np.random.default_rng(9).standard_normal(count)
    x[[20, 190]] = 9, -7
    parts, values = sections(operator, FLOAT32, numbers(FLOAT32, x))
    assert rans.needed_version(parts[1]) == 3
    check_damaged(operator, parts, values, count)


@pytest.mark.parametrize("states", [4, 16])
def test_every_flipped_bit_and_every_length_of_halves(states: int) -> None:
    """Of levels that no writer takes for so few values; kinds of wire version 1 are among them."""
    operator, count = TrellisPaths(0.02, states=states), 130
    x = numbers(FLOAT32, np.random.default_rng(9).standard_normal(count))
    scales, levels, _ = trellis.quantised(x, FLOAT32, operator.paths(count, FLOAT32), DITHER)
    magnitudes, signs = np.abs(levels).astype(np.uint16), (levels < 0).astype(np.uint8)
    own, marks = halves(magnitudes, signs)
    block = bytes([rans.HALVES]) + rans.encode(own, operator.paths(count, FLOAT32).bound, marks)[3:]
    section = np.frombuffer(len(block).to_bytes(3, "little") + block, np.uint8)
    values = trellis.values(levels, float(scales.view(np.float32)[0]), FLOAT32, None)
    assert rans.needed_version(section) == 4
    parts = [scales.view(np.uint8), section]
    for _ in each_table():
        assert verdict(operator, parts, count) == values.tobytes()
    check_damaged(operator, parts, values, count)


def check_damaged(operator: TrellisPaths, parts: list, values: np.ndarray, count: int) -> None:
    damaged = []
    for bit in range(24, 8 * parts[1].size):
        own = parts[1].copy()
        own[bit // 8] ^= 1 << bit % 8
        damaged.append(own)
    for size in range(4, parts[1].size):
        length = np.frombuffer((size - 3).to_bytes(3, "little"), np.uint8)
        damaged.append(np.concatenate([length, parts[1][3:size]]))
    for number, own in enumerate(damaged):
        given = [parts[0], own, *parts[2:]]
        expected = reference_verdict(operator, given, count)
        assert expected != values.tobytes()
        if number % 4 == 0 or not isinstance(expected, str):
            for _ in each_table():
                assert verdict(operator, given, count) == expected


def test_scales_that_nobody_sends() -> None:
    operator = TrellisPaths(0.1)
    directions: tuple[RowDirection, ...] = "decode", "accumulate"
    parts, _ = sections(operator, FLOAT32, numbers(FLOAT32, np.ones(10)))
    for scale, text in (
        (-1.0, grid_scales.BAD_STEP),
        (np.inf, grid_scales.BAD_STEP),
        (np.nan, grid_scales.CODES_WITHOUT_SCALE),
        (0.0, grid_scales.CODES_WITHOUT_SCALE),
    ):
        given = [np.array([scale], np.float32).view(np.uint8), parts[1]]
        for direction in directions:
            own = row(operator, FLOAT32, np.zeros(10, np.uint32), 10, given)
            with pytest.raises(DecodeError, match=text):
                cpu.run_row(direction, own)
