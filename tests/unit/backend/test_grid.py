"""Sparse dithering by the native core: the bytes and the values of the NumPy reference."""

from typing import NamedTuple

import numpy as np
import pytest

import fewbits
from fewbits import DecodeError, Rng
from fewbits.backend import coders, functions
from fewbits.backend import library as _native
from fewbits.backend.kinds.dithering import vector_sum
from fewbits.coding import rans
from fewbits.reference import grid as steps
from fewbits.reference.blocks import Blocks
from fewbits.reference.formats import FLOAT32
from fewbits.reference.grid_scales import NEAREST, STOCHASTIC, SUBTRACTIVE

pytestmark = pytest.mark.usefixtures("simd")

RNG = Rng.from_seed(5).fork("steps")
LENGTHS = (1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 129, 1000, 4099)
ROUNDED = {
    "nearest": steps.nearest,
    "stochastic": steps.stochastic(RNG),
    "subtractive": steps.subtractive(RNG),
}
roundings = pytest.mark.parametrize("rounding", ROUNDED)
BOUND = 65_536
NUMBERS = {"nearest": NEAREST, "stochastic": STOCHASTIC, "subtractive": SUBTRACTIVE}


def task(
    rounding: str,
    run: int = rans.CODER_BLOCK,
    bound: int = BOUND,
    fit: bool = False,
    first: int = 0,
) -> functions.Steps:
    words = _native.key_words(RNG.key)
    return functions.Steps(bound, NUMBERS[rounding], fit, run, first, words, FLOAT32.code, 0)


class Found(NamedTuple):
    products: np.ndarray
    squares: np.ndarray
    nonfinite: int


def encoded(
    x: np.ndarray, scales: np.ndarray, rounding: str, block: int = 0, bound: int = BOUND, **options
) -> tuple[np.ndarray, Found]:
    """The codes by the native core, read back by the coder alone; sums of each block."""
    section = np.empty(rans.largest_size(x.size, bound, True), np.uint8)
    run = min(block or rans.CODER_BLOCK, rans.CODER_BLOCK)
    owner = np.arange(0, x.size, run) // (block or x.size)  # of each run
    each = scales.astype(np.float32)[owner].view(np.uint32)
    how = task(rounding, run, bound, **options)
    sums, nonfinite, size = functions.steps_encode(x.view(np.uint32), how, each, section)
    codes, signs = read_back(section[:size], rounding, bound, x.size, how.first)
    products, squares = np.zeros(scales.size), np.zeros(scales.size)
    np.add.at(products, owner, sums[:, 0])  # in order
    np.add.at(squares, owner, sums[:, 1])
    return np.where(signs == 1, -1, 1) * codes.astype(np.int32), Found(products, squares, nonfinite)


def read_back(
    section: np.ndarray, rounding: str, bound: int, count: int, first: int
) -> tuple[np.ndarray, np.ndarray]:
    """Codes and signs, after the coder alone has written the same bytes of them."""
    if rounding == "subtractive":
        codes, signs = coders.dithered_decode(section, bound, count, RNG.key, first)
        written = coders.dithered_encode(codes, bound, signs, RNG.key, first)
    else:
        codes, marks = coders.coded_decode(section, bound, count, True)
        assert marks is not None
        signs, written = marks, coders.coded_encode(codes, bound, marks)
    assert written == section.tobytes()
    return codes, signs


def expected(x: np.ndarray, scales: np.ndarray, rounding: str, block: int = 0) -> np.ndarray:
    return steps.quantise(
        x.view(np.uint32),
        FLOAT32,
        Blocks.of(x.size, block),
        scales.astype(np.float32).astype(np.float64),
        ROUNDED[rounding],
    )


def gauss(n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


@roundings
@pytest.mark.parametrize("step", [0.01, 0.63, 1.0, 5.0])
def test_codes_are_the_references_at_every_length(rounding: str, step: float) -> None:
    for n in LENGTHS:
        x = gauss(n, n)
        codes, found = encoded(x, np.array([step]), rounding)
        assert np.array_equal(codes, expected(x, np.array([step]), rounding))
        assert (found.nonfinite, found.products[0]) == (0, 0)
        assert bool(found.squares[0]) == bool(codes.any())


@roundings
def test_codes_beside_a_change_are_the_references(rounding: str) -> None:
    """Values whose quotient, with the dither, is an ulp or a few from where the code changes.

    In float32 alone they would often fall on the other side.
    """
    rng = np.random.default_rng(3)
    n, step = 40_000, np.float32(0.37)
    uniform = (_native.words(RNG.key, 0, n) + 0.5) / 2.0**32
    offset = {"nearest": 0.0, "stochastic": 0.5 - uniform, "subtractive": 0.5 - uniform}[rounding]
    edge = (rng.integers(1, 240, n) + 0.5 + offset) * np.float64(step)
    signs = np.where(rng.random(n) < 0.5, -1, 1) if rounding != "subtractive" else 1
    close = edge * (1 + rng.integers(-6, 7, n) * 2.0**-24)
    x = (signs * close).astype(np.float32)
    codes, _ = encoded(x, np.array([step]), rounding)
    assert np.array_equal(codes, expected(x, np.array([step]), rounding))
    place = np.abs(x / np.float64(step)) + (0.5 if rounding == "nearest" else uniform)
    assert (np.abs(place - np.rint(place)) < 1e-4).all()


@roundings
@pytest.mark.parametrize("factor", [1e-44, 1e-38, 4e-38, 1e-29, 1e36, 9e37])
def test_steps_without_a_normal_inverse(rounding: str, factor: float) -> None:
    x = (gauss(3000).astype(np.float64) * factor).astype(np.float32)
    step = np.array([max((3.0 if factor > 1 else 0.3) * factor, 1.5e-45)])
    codes, _ = encoded(x, step, rounding)
    assert np.array_equal(codes, expected(x, step, rounding))


@roundings
@pytest.mark.parametrize("top", [253, 254, 255, 256, 300, 65_000])
def test_codes_around_a_byte(rounding: str, top: int) -> None:
    """In one block of three: the others stay bytes."""
    x = gauss(3 * rans.CODER_BLOCK - 5)
    x[rans.CODER_BLOCK + 77] = -top
    codes, found = encoded(x, np.array([1.0]), rounding, fit=rounding == "nearest")
    want = expected(x, np.array([1.0]), rounding)
    assert np.array_equal(codes, want)
    if rounding == "nearest":
        assert codes[rans.CODER_BLOCK + 77] == -top
        assert found.squares[0] == (want.astype(np.float64) ** 2).sum()


def test_codes_of_a_narrow_section_use_the_whole_byte() -> None:
    x = np.concatenate([gauss(5000), np.float32([255, -255, 254])])
    assert np.array_equal(encoded(x, np.ones(1), "nearest", bound=256)[0], np.rint(x))


@roundings
@pytest.mark.parametrize("block", [8, 64, 4096, 65_536, 131_072])
def test_blocks_have_their_own_steps(rounding: str, block: int) -> None:
    n = 200_003 if block > 64 else 66_001
    x, number = gauss(n), -(-n // block)
    scales = np.random.default_rng(2).choice(
        [0.2, 1.5, 0.0, np.nan], number, p=[0.4, 0.4, 0.1, 0.1]
    )
    codes, found = encoded(x, scales, rounding, block, fit=rounding == "nearest")
    want = expected(x, scales, rounding, block)
    assert np.array_equal(codes, want)
    some = np.logical_or.reduceat(want, np.arange(0, n, block))
    assert np.array_equal(found.squares > 0, some)


@pytest.mark.parametrize("block", [0, 8, 64, 65_536, 131_072])
def test_sums_are_the_references_to_the_last_bit(block: int) -> None:
    for n in (1, 31, 33, 1000, 65_536, 200_003):
        x, blocks = gauss(n, n), Blocks.of(n, block)
        scales = np.full(blocks.number, 0.7)
        codes, found = encoded(x, scales, "nearest", block, fit=True)
        scanned = steps.scan(x.view(np.uint32), FLOAT32, blocks)
        with np.errstate(invalid="ignore"):
            own = found.products / found.squares
        fitting = steps.fit(x.view(np.uint32), FLOAT32, blocks, scanned, codes)
        assert np.array_equal(own, fitting.best, equal_nan=True)
        if not block:
            assert vector_sum(x.view(np.uint32), FLOAT32, 2.0, 1)[0] == scanned.squares[0]


def test_products_are_summed_in_the_references_order() -> None:
    """They have so few bits that another order seldom shows."""
    rng = np.random.default_rng(6)
    for n in (65_536, 65_507):
        large = rng.random(n) < 0.9
        x = np.where(large, rng.uniform(200, 254, n), rng.uniform(0.55, 1, n)).astype(np.float32)
        codes, found = encoded(x, np.ones(1), "nearest", fit=True)
        assert found.products[0] == steps.lane_sums((x.astype(np.float64) * codes)[None])[0]


@roundings
def test_streams_that_cross_a_segment(rounding: str) -> None:
    """Random words change their keys at index 2^32."""
    n, first = 1000, 2**32 - 500
    x = gauss(n)
    how = task(rounding, first=first)
    section = np.empty(rans.largest_size(n, BOUND, True), np.uint8)
    scale = np.float32([0.4]).view(np.uint32)
    _, _, size = functions.steps_encode(x.view(np.uint32), how, scale, section)
    codes, signs = read_back(section[:size], rounding, BOUND, n, first)
    uniform = (_native.words(RNG.key, first, n) + 0.5) / 2.0**32
    t = x / np.float64(np.float32(0.4))
    want = {
        "nearest": np.rint(t),
        "stochastic": np.copysign(np.floor(np.abs(t) + uniform), t),
        "subtractive": np.rint(t + (uniform - 0.5)),
    }[rounding]
    assert np.array_equal(np.where(signs, -1, 1) * codes.astype(float), want)
    values = np.empty(n, np.uint32)
    functions.steps_decode(section[:size], how, scale, values)
    plain = want - (uniform - 0.5) if rounding == "subtractive" else want
    assert np.array_equal(values.view(np.float32), (plain * np.float32(0.4)).astype(np.float32))


@pytest.mark.parametrize("dither", [None, RNG], ids=["plain", "dithered"])
@pytest.mark.parametrize("scale", [0.3, 1e-44, 3e38, 1e36, 0.0])
@pytest.mark.parametrize("large", ["none", "one", "all", "equal", "equal and small"])
def test_values_are_the_references(dither: Rng | None, scale: float, large: str) -> None:
    rng = np.random.default_rng(4)
    for n in LENGTHS:
        codes = np.rint(rng.standard_normal(n) * 3).astype(np.int32)
        if large == "all":  # codes that fit into a window, but not into a byte
            codes = np.where(codes < 0, codes - 300, codes + 300)
        codes[n // 2] = -254 if large == "none" else -300
        if large.startswith("equal"):  # a constant block
            codes[:] = 254 if large.endswith("small") else 255
        data = coders.coded_encode(
            np.abs(codes).astype(np.uint16), BOUND, (codes < 0).astype(np.uint8)
        )
        scales, blocks = np.float32([scale]), Blocks.of(n, 0)
        want, out = np.empty(n, np.uint32), np.empty(n, np.uint32)
        steps.dequantise(codes, scales.astype(np.float64), blocks, FLOAT32, want, dither)
        how = task("nearest" if dither is None else "subtractive")
        some = functions.steps_decode(
            np.frombuffer(data, np.uint8), how, scales.view(np.uint32), out
        )
        assert some.all()
        assert np.array_equal(out, want)


@pytest.mark.parametrize("spec", ["sparse-dithering", "sparse-dithering:rounding=subtractive"])
def test_bytes_and_values_do_not_depend_on_threads(spec: str) -> None:
    x = gauss(600_001)
    frames = [fewbits.compress(x, spec, seed=2, threads=threads) for threads in (1, 2)]
    assert frames[0] == frames[1]
    values = [fewbits.decompress(frames[0], threads=threads) for threads in (1, 2)]
    assert np.array_equal(*values)


@pytest.mark.parametrize("dithered", [False, True])
def test_scales_that_are_not_finite_give_nan(dithered: bool) -> None:
    """Whatever the codes, zeros too; the operator refuses them, but only afterwards."""
    codes = (np.arange(100) % 3).astype(np.uint16)
    section = np.frombuffer(coders.coded_encode(codes, 300, np.zeros(100, np.uint8)), np.uint8)
    for scale in (np.inf, -np.inf, np.nan, -np.nan):
        values = np.empty(100, np.uint32)
        how = task("subtractive" if dithered else "nearest", bound=300)
        functions.steps_decode(section, how, np.float32([scale]).view(np.uint32), values)
        assert (values == FLOAT32.quiet_nan).all()


def test_what_the_core_refuses() -> None:
    x, scale = np.ones(100, np.uint32), np.float32([1]).view(np.uint32)
    room = np.empty(rans.largest_size(100, 300, True), np.uint8)

    def how(bound: int = 300, rounding: int = 1, run: int = 65_536) -> functions.Steps:
        words = _native.key_words(bytes(16))
        return functions.Steps(bound, rounding, 0, run, 0, words, FLOAT32.code, 0)

    for bad in (how(bound=1), how(rounding=3), how(run=4), how(run=24), how(run=131_072)):
        with pytest.raises(RuntimeError, match="refused"):
            functions.steps_encode(x, bad, scale, room)
        with pytest.raises(RuntimeError, match="refused"):
            functions.steps_decode(room, bad, scale, x.copy())
    for scales, out in ((np.repeat(scale, 2), room), (scale, room[:2])):
        with pytest.raises(RuntimeError, match="refused"):
            functions.steps_encode(x, how(), scales, out)
    for value in (300.0, 1e30, 20.0):  # codes that are not below the bound
        own = np.full(100, value, np.float32).view(np.uint32)
        with pytest.raises(RuntimeError, match="refused"):
            functions.steps_encode(own, how(bound=20 if value == 20.0 else 300), scale, room)
    with pytest.raises(DecodeError, match="do not fill"):
        functions.steps_decode(np.zeros(2, np.uint8), how(), scale, x.copy())
    for nonfinite in (np.nan, np.inf, -np.inf):
        own = np.full(100, nonfinite, np.float32)
        own[:3] = 1
        for given in (scale, 0 * scale):  # a run without a scale too
            assert functions.steps_encode(own.view(np.uint32), how(), given, room)[1] == 97
