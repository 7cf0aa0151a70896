"""Rows of sparse dithering in every format, with any blocks: the reference's bytes and values."""

import tracemalloc

import numpy as np
import pytest

from fewbits.backend import coders, cpu
from fewbits.backend.buffers import Buffer
from fewbits.backend.kernel import Row, RowDirection
from fewbits.backend.table import Table
from fewbits.coding import rans
from fewbits.errors import DecodeError
from fewbits.operators.sparse_dithering import SparseDithering
from fewbits.reference import casts, grid, grid_scales
from fewbits.reference.blocks import Blocks
from fewbits.reference.formats import FLOAT32, FLOAT64, FORMATS, Format
from fewbits.rng import Rng
from native_tables import each_table

formats = pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
RNG = Rng(bytes(range(16)))
ROUNDINGS = [
    ("nearest", "norm"),
    ("nearest", "least-squares"),
    ("nearest", "matched"),
    ("stochastic", "norm"),
    ("subtractive", "norm"),
]
roundings = pytest.mark.parametrize(("rounding", "scale"), ROUNDINGS)
TWO_SLICES = 2 * 4 * 65_536 + 12_345  # for two threads


def numbers(format: Format, values: np.ndarray) -> np.ndarray:
    return casts.cast(values.astype(np.float64).view(np.uint64), FLOAT64, format)[0]


def vectors(format: Format, count: int) -> list[np.ndarray]:
    """Heavy tails, equal values, zeros, tiny and huge values, values that are not finite."""
    source = np.random.default_rng(count)
    x = source.standard_normal(count)
    single = x * (np.arange(count) % 64 == 3)
    some = source.integers(0, 256, count * format.itemsize, np.uint8).view(format.bits)
    finite = np.where(some & format.bits.type(format.sign - 1) < format.infinity, some, 0)
    found = [numbers(format, own) for own in (x, x**9, 0 * x, np.sign(x), single)]
    found += [finite.astype(format.bits), some & format.bits.type(format.sign | 7)]
    for bad in (format.infinity, format.quiet_nan | format.sign):
        found += [np.where(np.arange(count) == count // 2, bad, found[0]).astype(format.bits)]
    found += [np.where(np.arange(count) == 0, format.infinity, 0).astype(format.bits)]
    return found


class Expected:
    """What the reference makes of a vector."""

    def __init__(self, operator: SparseDithering, format: Format, bits: np.ndarray) -> None:
        self.how = operator.kernel(bits.size, format).numbers
        dithered = operator.rounding == "subtractive"
        rng = RNG.fork("dither") if dithered else RNG
        scales, codes, self.tally = grid_scales.quantised(bits, format, self.how, rng)
        room = np.empty(rans.largest_size(bits.size, self.how.bound, True), np.uint8)
        section = room[: coders.write_coded(codes, self.how.bound, room)]
        if dithered:
            plain, signs = np.abs(codes).astype(np.uint16), (codes < 0).astype(np.uint8)
            data = coders.dithered_encode(plain, self.how.bound, signs, rng.key)
            section = np.frombuffer(data, np.uint8)
        self.parts = [scales.view(np.uint8), section]
        self.parts += [np.frombuffer(rng.key, np.uint8)] * dithered
        blocks, scale = Blocks.of(bits.size, self.how.block), grid_scales.scale_format(format)
        self.values = np.empty_like(bits)
        steps = casts.to_float64(scales, scale)
        grid.dequantise(codes, steps, blocks, format, self.values, rng if dithered else None)
        nan = scales == scale.quiet_nan
        self.nonfinite = int(blocks.sizes[nan].sum()) if nan.any() else 0


def row(
    operator: SparseDithering,
    format: Format,
    values: np.ndarray,
    count: int,
    parts: list,
    threads=1,
) -> Row:
    kernel = operator.kernel(count, format)
    return Row(kernel, format, Buffer.of(values), tuple(map(Buffer.of, parts)), RNG.key, threads)


def check(operator: SparseDithering, format: Format, bits: np.ndarray, threads: int = 1) -> None:
    wanted = Expected(operator, format, bits)
    wide = casts.wide(wanted.values, format)
    before = np.linspace(-1, 1, bits.size, dtype=wide.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = before + wide
    odd = [np.concatenate([np.zeros(1, np.uint8), part])[1:] for part in wanted.parts]

    for simd in each_table():
        into = [np.zeros(part.size, np.uint8) for part in wanted.parts]
        into[1] = np.zeros(rans.largest_size(bits.size, wanted.how.bound, True), np.uint8)
        written = cpu.run_row("encode", row(operator, format, bits, bits.size, into, threads))
        for part, own, size in zip(wanted.parts, into, written.sizes, strict=True):
            assert own[:size].tobytes() == part.tobytes(), simd
        assert written.tally == wanted.tally, simd

        out = np.empty_like(bits)
        read = cpu.run_row("decode", row(operator, format, out, bits.size, odd, threads))
        assert out.tobytes() == wanted.values.tobytes(), simd
        assert read.tally[:2] == (0, wanted.nonfinite), simd

        totals = before.copy()
        cpu.run_row("accumulate", row(operator, format, totals, bits.size, odd, threads))
        np.testing.assert_array_equal(totals, sums, simd)


@formats
@roundings
@pytest.mark.parametrize("block", [0, 1, 13, 64, 1000])
def test_rows_are_those_of_the_reference(
    format: Format, rounding: str, scale: str, block: int
) -> None:
    for nu in (0.01, 1 / 9, 4.0):
        operator = SparseDithering(nu, rounding, "rans", scale, block)  # type: ignore[arg-type]
        for count in (1, 33, 2500) if nu == 1 / 9 else (70,):
            for bits in vectors(format, count):
                check(operator, format, bits)


@formats
@pytest.mark.parametrize("block", [0, 65_536, 65_537, 100_000, 131_072])
def test_blocks_that_cross_coder_blocks(format: Format, block: int) -> None:
    """One of them has codes beyond a byte, one is flat, so that only its largest value is sent."""
    count = 200_003
    x = np.random.default_rng(1).standard_normal(count)
    x[70_000] = 600.0
    if block:
        x[block : 2 * block] = 1.0
        x[min(block + 40_000, count - 1)] = -1.0 if format.itemsize == 2 else -1.0000001
    for operator in (
        SparseDithering(4.0, "nearest", "rans", "matched", block),
        SparseDithering(0.1, "nearest", "rans", "least-squares", block),
        SparseDithering(0.1, "subtractive", "rans", "norm", block),
    ):
        check(operator, format, numbers(format, x))


@formats
@roundings
@pytest.mark.parametrize("block", [0, 64, 131_072])
def test_the_number_of_threads_changes_no_bit(
    format: Format, rounding: str, scale: str, block: int
) -> None:
    operator = SparseDithering(0.1, rounding, "rans", scale, block)  # type: ignore[arg-type]
    bits = numbers(format, np.random.default_rng(2).standard_normal(TWO_SLICES))
    check(operator, format, bits, threads=2)


@pytest.mark.parametrize("bad", [np.inf, 3e38])
def test_rare_vectors_on_several_threads(bad: float) -> None:
    """Not finite, or so large that it may be cut, or flat: one thread settles these."""
    x = np.random.default_rng(2).standard_normal(TWO_SLICES).astype(np.float32)
    x[-5] = bad
    check(SparseDithering(0.1, "stochastic"), FLOAT32, x.view(np.uint32), threads=2)
    flat = np.full(TWO_SLICES, -0.3, np.float32).view(np.uint32)
    check(SparseDithering(4.0), FLOAT32, flat, threads=2)


@formats
@roundings
def test_tables_run_them_natively(format: Format, rounding: str, scale: str) -> None:
    operator = SparseDithering(0.1, rounding, "rans", scale, 100)  # type: ignore[arg-type]
    bits = numbers(format, np.random.default_rng(3).standard_normal(1000))
    wanted = Expected(operator, format, bits)
    sizes = [part.size for part in wanted.parts]
    room = [sizes[0], rans.largest_size(bits.size, wanted.how.bound, True), *sizes[2:]]
    memory = np.zeros(sum(room), np.uint8)
    table = Table(1)
    table.describe(0, operator.kernel(bits.size, format), format, bits.size, len(sizes))
    assert table.native.all()
    starts = np.cumsum([0, *room[:-1]])
    table.place(
        slice(0, 1), Buffer.of(memory), starts[None].astype(np.uint64), np.array([room], np.uint64)
    )
    table.set_keys(slice(0, 1), [RNG.key])
    table.bind(Buffer.of(bits), np.zeros(1, np.uint64))
    cpu.run("encode", table)
    found = table.sizes(slice(0, 1), len(sizes))[0].tolist()
    assert found == sizes
    for part, start in zip(wanted.parts, starts, strict=True):
        assert memory[start : start + part.size].tobytes() == part.tobytes()


HOSTILE: list[tuple[float, int, str]] = [
    (-1.0, 1, grid_scales.BAD_STEP),
    (np.inf, 1, grid_scales.BAD_STEP),
    (-np.nan, 0, grid_scales.BAD_STEP),
    (np.nan, 1, grid_scales.CODES_WITHOUT_SCALE),
    (0.0, 1, grid_scales.CODES_WITHOUT_SCALE),
    (1.0, 0, grid_scales.ONLY_ZEROS),
]


@pytest.mark.parametrize(("scale", "code", "text"), HOSTILE)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("block", [0, 16])
@pytest.mark.usefixtures("simd")
def test_hostile_rows_are_refused_with_the_references_words(
    scale: float, code: int, text: str, threads: int, block: int
) -> None:
    count = 500 if threads == 1 else TWO_SLICES
    operator = SparseDithering(block=block)
    blocks, size = Blocks.of(count, block), min(block or count, count)
    scales = np.ones(blocks.number, np.float32)
    codes = np.ones(count, np.int32)
    codes[:size] = 0
    scales[0], codes[size - 1] = scale, code
    bound = operator.kernel(count, FLOAT32).numbers.bound
    room = np.empty(rans.largest_size(count, bound, True), np.uint8)
    section = room[: coders.write_coded(codes, bound, room)]
    parts = [scales.view(np.uint8), section]
    directions: tuple[RowDirection, ...] = "decode", "accumulate"
    for direction in directions:
        values = np.zeros(count, np.uint32)
        with pytest.raises(DecodeError, match=text):
            cpu.run_row(direction, row(operator, FLOAT32, values, count, parts, threads))


def test_rows_take_no_memory() -> None:
    """Beyond their sections a fixed scratch, which is not even allocated."""
    count = 1 << 22
    x = np.random.default_rng(5).standard_normal(count, dtype=np.float32).view(np.uint32)
    operator = SparseDithering()
    bound = operator.kernel(count, FLOAT32).numbers.bound
    parts = [np.zeros(4, np.uint8), np.empty(rans.largest_size(count, bound, True), np.uint8)]
    for threads in (1, 2):
        tracemalloc.start()
        _, (_, size) = cpu.run_row("encode", row(operator, FLOAT32, x, count, parts, threads))
        read = [parts[0], parts[1][:size]]
        cpu.run_row("decode", row(operator, FLOAT32, x, count, read, threads))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1 << 20
