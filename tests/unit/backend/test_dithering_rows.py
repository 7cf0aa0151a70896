"""Rows of dithering that native tables run as a whole: the reference's scales, codes and values."""

import math
import tracemalloc
from itertools import product

import numpy as np
import pytest

from fewbits.backend import coders, cpu
from fewbits.backend.buffers import Buffer
from fewbits.backend.kernel import Kernel, Kind, Row, RowDirection
from fewbits.backend.table import Table
from fewbits.coding import bitpack, rans
from fewbits.errors import DecodeError
from fewbits.reference import dithering
from fewbits.reference.blocks import Blocks
from fewbits.reference.dithering import Levels
from fewbits.reference.formats import FLOAT32, FORMATS
from fewbits.rng import Rng
from native_tables import each_table

COUNTS = (0, 1, 7, 8, 9, 31, 33, 1000, 4095, 4097, 70_001)
SHAPES = [
    Levels(math.inf, 7, 0, True, False, False),
    Levels(2.0, 1, 0, False, False, False),
    Levels(1.0, 127, 64, False, False, False),
    Levels(2.0, 127, 8, True, False, False),
    Levels(2.0, 5, 4096, True, False, False),
    Levels(math.inf, 7, 0, True, False, True),
    Levels(1.0, 1, 0, False, False, True),
    Levels(2.0, 14, 8, False, False, True),
    Levels(2.0, 15, 64, True, False, True),
    Levels(math.inf, 127, 65_536, False, False, True),
]
TWO_SLICES = 2 * 4 * 65_536 + 12_345  # for two threads
RNG = Rng(bytes(range(16)))


def some(count: int, seed: int = 1) -> np.ndarray:
    """The bits of values of all magnitudes, zeros and values that are not finite among them."""
    source = np.random.default_rng(seed)
    bits = source.integers(0, 1 << 32, count, dtype=np.uint32)
    bits[source.random(count) < 0.1] = 0
    return bits


def gaussian(count: int) -> np.ndarray:
    values = np.random.default_rng(2).standard_normal(count, dtype=np.float32)
    return values.view(np.uint32)


def width(how: Levels) -> int:
    return (2 * how.levels + 1).bit_length()


def written(codes: np.ndarray, how: Levels) -> np.ndarray:
    """The section of codes, by the specification of both coders."""
    if not how.coded:
        return bitpack.pack(codes, width(how))
    sizes, signs = np.abs(codes).astype(np.uint16), (codes < 0).astype(np.uint8)
    return np.frombuffer(rans.encode(sizes, how.levels + 2, signs), np.uint8).copy()


def read(section: np.ndarray, how: Levels, count: int) -> np.ndarray:
    if not how.coded:
        return bitpack.unpack(section, width(how), 2 * how.levels + 2, count)
    codes, signs = rans.decode(section.tobytes(), how.levels + 2, count, True)
    assert signs is not None
    return codes.astype(np.int32) * (1 - 2 * signs.astype(np.int32))


def room(how: Levels, count: int) -> int:
    """The size that a section of codes has before it is written."""
    if how.coded:
        return rans.largest_size(count, how.levels + 2, True)
    return bitpack.packed_size(count, width(how))


def expected(bits: np.ndarray, how: Levels) -> tuple[np.ndarray, np.ndarray, int]:
    scales = dithering.scales(bits, FLOAT32, how.p, how.block)
    found = dithering.encode(bits, FLOAT32, how, RNG, scales, scales)
    return scales, written(found.codes, how), found.nonfinite


def run(
    direction: RowDirection, how: Levels, values: np.ndarray, parts: list[np.ndarray]
) -> tuple[int, int]:
    """One row of a table; sections lie at odd addresses. Encoding cuts the second to its size."""
    memory = np.zeros(sum(part.nbytes for part in parts) + 1, np.uint8)
    place = memory[1:]
    place[:] = np.concatenate([part.view(np.uint8) for part in parts])
    table = Table(1)
    table.describe(0, Kernel(Kind.DITHERING, 0, how), FLOAT32, values.size, len(parts))
    assert table.native.all()
    offsets = np.array([[0, parts[0].nbytes]], np.uint64)
    sizes = np.array([[part.nbytes for part in parts]], np.uint64)
    table.place(slice(0, 1), Buffer.of(place), offsets, sizes)
    table.set_keys(slice(0, 1), [RNG.key])
    table.bind(Buffer.of(values), np.zeros(1, np.uint64))
    cpu.run(direction, table)
    if direction == "encode":
        parts[0].view(np.uint8)[:] = place[: parts[0].nbytes]
        start, size = parts[0].nbytes, int(table.sizes(slice(0, 1), 2)[0, 1])
        parts[1] = place[start : start + size]
    return table.tally()[:2]


@pytest.mark.parametrize("how", SHAPES, ids=str)
def test_rows_write_and_read_what_the_reference_does(how: Levels) -> None:
    for bits in (make(count) for count in COUNTS for make in (some, gaussian)):
        count = bits.size
        scales, packed, nonfinite = expected(bits, how)
        values = np.empty(count, np.uint32)
        codes = read(packed, how, count)
        assert dithering.decode(codes, scales, how, FLOAT32, values) == nonfinite
        before = np.linspace(-1, 1, count, dtype=np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            sums = before + values.view(np.float32)

        for simd in each_table():
            parts = [np.empty_like(scales), np.empty(room(how, count), np.uint8)]
            assert run("encode", how, bits, parts) == (0, nonfinite), simd
            assert parts[0].tobytes() == scales.tobytes(), simd
            assert parts[1].tobytes() == packed.tobytes(), simd
            found = np.empty(count, np.uint32)
            assert run("decode", how, found, parts) == (0, nonfinite), simd
            assert found.tobytes() == values.tobytes(), simd
            totals = before.copy()
            assert run("accumulate", how, totals, parts) == (0, nonfinite), simd
            np.testing.assert_array_equal(totals, sums, simd)


def test_norms_beyond_the_range_are_its_largest_value() -> None:
    bits = np.full(100, np.float32(3e38).view(np.uint32))
    for how in (SHAPES[1], Levels(1.0, 3, 0, False, False, False)):
        scales, packed, _ = expected(bits, how)
        parts = [np.empty_like(scales), np.empty_like(packed)]
        run("encode", how, bits, parts)
        assert parts[0][0] == FLOAT32.infinity - 1
        assert parts[1].tobytes() == packed.tobytes()


@pytest.mark.usefixtures("simd")
def test_hostile_rows_are_refused_with_the_references_words() -> None:
    how, count = Levels(2.0, 5, 8, False, False, False), 45
    scales, packed, _ = expected(some(count), how)
    cases = []
    for scale in (0x80000000, FLOAT32.infinity, 0xBF800000):
        bad = scales.copy()
        bad[3] = scale
        cases.append((bad, packed, dithering.BAD_SCALE))
    padded, beyond = packed.copy(), packed.copy()
    padded[-1] |= 0x80
    beyond[0] |= 0x0F
    cases += [(scales, padded, "unused bits"), (scales, beyond, "not below its bound")]
    cases.append((np.zeros_like(scales), packed, dithering.LEVEL_WITHOUT_SCALE))
    for first, second, text in cases:
        for direction in ("decode", "accumulate"):
            with pytest.raises(DecodeError, match=text) as refused:
                run(direction, how, np.zeros(count, np.uint32), [first, second])
            assert refused.value.row == 0


def test_only_norms_by_pow_have_no_native_row() -> None:
    plain = SHAPES[0]
    shapes = [
        plain._replace(natural_scale=True),
        plain._replace(coded=True, natural=False, levels=128),
        plain._replace(levels=32_767, natural=False),
        plain._replace(p=3.0),
    ]
    table = Table(len(FORMATS) * len(shapes))
    for number, (format, how) in enumerate(product(FORMATS, shapes)):
        table.describe(number, Kernel(Kind.DITHERING, 0, how), format, 100, 2)
    assert table.native.tolist() == len(FORMATS) * [True, True, True, False]


def test_sections_of_another_size_are_a_programming_error() -> None:
    how = SHAPES[2]
    assert Blocks.of(100, how.block).number == 2
    with pytest.raises(RuntimeError, match="refused its arguments"):
        run("decode", how, np.zeros(100, np.uint32), [np.zeros(3, np.uint32), np.zeros(100, "u1")])
    coded = how._replace(coded=True)
    with pytest.raises(RuntimeError, match="refused its arguments"):
        run("encode", coded, np.zeros(100, np.uint32), [np.zeros(2, np.uint32), np.zeros(9, "u1")])


CODED = [how for how in SHAPES if how.coded]


@pytest.mark.parametrize("how", CODED, ids=str)
def test_coded_rows_of_every_length_are_those_of_the_reference(how: Levels) -> None:
    lengths = (*range(301), *(around + step for around in (65_536, 131_072) for step in (-1, 0, 1)))
    for count in lengths if how.block != 8 else lengths[:-3]:
        bits = some(count) if count % 2 else gaussian(count)
        bits[count // 3 : count // 2] = 0x80000000 if count % 3 else 0
        scales, section, nonfinite = expected(bits, how)
        values = np.empty(count, np.uint32)
        codes = dithering.encode(bits, FLOAT32, how, RNG, scales, scales).codes
        dithering.decode(codes, scales, how, FLOAT32, values)
        for simd in each_table():
            parts = [np.empty_like(scales), np.empty(room(how, count), np.uint8)]
            assert run("encode", how, bits, parts) == (0, nonfinite), simd
            assert parts[0].tobytes() == scales.tobytes(), simd
            assert parts[1].tobytes() == section.tobytes(), simd
            found = np.full(count, 7, np.uint32)
            assert run("decode", how, found, parts) == (0, nonfinite), simd
            assert found.tobytes() == values.tobytes(), simd


@pytest.mark.parametrize("block", [*(1 << power for power in range(3, 17)), 0])
@pytest.mark.usefixtures("simd")
def test_coded_rows_of_every_block_are_those_of_the_reference(block: int) -> None:
    how = Levels(2.0, 3, block, block % 3 == 1, False, True)
    bits = some(min(2 * (block or 1000), 70_000) + 77)
    scales, section, nonfinite = expected(bits, how)
    parts = [np.empty_like(scales), np.empty(room(how, bits.size), np.uint8)]
    assert run("encode", how, bits, parts) == (0, nonfinite)
    assert [part.tobytes() for part in parts] == [scales.tobytes(), section.tobytes()]


def row_of(how: Levels, values: np.ndarray, parts: list[np.ndarray], threads: int) -> Row:
    sections = tuple(map(Buffer.of, parts))
    kernel = Kernel(Kind.DITHERING, 0, how)
    return Row(kernel, FLOAT32, Buffer.of(values), sections, RNG.key, threads)


@pytest.mark.parametrize("natural_scale", [False, True])
@pytest.mark.parametrize("block", [0, 1024, 65_536])
@pytest.mark.usefixtures("simd")
def test_the_number_of_threads_changes_no_bit(block: int, natural_scale: bool) -> None:
    how = Levels(2.0, 7, block, True, natural_scale, True)
    bits, blocks = gaussian(TWO_SLICES), Blocks.of(TWO_SLICES, block).number
    bits[300_000:300_100] = some(100)
    results = set()
    for threads in (1, 2, 3):
        scales = np.zeros(blocks if natural_scale else 4 * blocks, np.uint8)
        section = np.empty(room(how, bits.size), np.uint8)
        tally, (_, size) = cpu.run_row("encode", row_of(how, bits, [scales, section], threads))
        values, totals = np.empty_like(bits), np.ones(bits.size, np.float32)
        parts = [scales, section[:size].copy()]
        assert cpu.run_row("decode", row_of(how, values, parts, threads)).tally == tally
        cpu.run_row("accumulate", row_of(how, totals, parts, threads))
        results.add((scales.tobytes(), parts[1].tobytes(), values.tobytes(), totals.tobytes()))
    assert len(results) == 1
    assert tally.nonfinite == int((bits & 0x7FFFFFFF >= FLOAT32.infinity).sum())


def specified(how: Levels, parts: list[np.ndarray], count: int) -> str:
    """What the reference says of sections: scales first, then the coder."""
    try:
        scales = dithering.read_scales(parts[0].view(np.uint32), how, FLOAT32)
        codes = coders.read_coded(parts[1], how.levels + 2, count)
        dithering.decode(codes, scales, how, FLOAT32, np.empty(count, np.uint32))
    except DecodeError as error:
        return str(error)
    return "accepted"


@pytest.mark.parametrize("block", [0, 8])
@pytest.mark.parametrize("count", [45, TWO_SLICES])
@pytest.mark.usefixtures("simd")
def test_hostile_coded_rows_are_refused_with_the_references_words(count: int, block: int) -> None:
    """Each fault alone and with others, in the first and in the last place."""
    how, seen = Levels(2.0, 5, block, False, False, True), set()
    blocks = Blocks.of(count, block).number
    for fault in range(64):
        codes = np.random.default_rng(1).integers(-5, 7, count).astype(np.int32)
        scales = np.full(blocks, 0x3F800000, np.uint32)
        if fault & 1:
            scales[-1] = 0x80000000
        for bit, place in ((2, 0), (4, -1)):
            if fault & bit:
                codes[place] = -6  # a sign on NaN
        for bit, place in ((8, 0), (16, -1)):
            if fault & bit:
                scales[place] &= 0x80000000
                codes[1 if place == 0 else -2] = 3
        section = np.empty(room(how, count), np.uint8)
        section = section[: coders.write_coded(codes, how.levels + 2, section)]
        if fault & 32:
            section[2] ^= 1  # the first block's length
        wanted = specified(how, [scales, section], count)
        for threads, direction in ((1, "decode"), (2, "decode"), (2, "accumulate")):
            row = row_of(how, np.zeros(count, np.uint32), [scales, section], threads)
            try:
                cpu.run_row(direction, row)
                found = "accepted"
            except DecodeError as error:
                found = str(error)
            assert found == wanted
        seen.add(wanted)
    assert seen == {
        "accepted",
        rans.UNFILLED,
        dithering.BAD_SCALE,
        dithering.SIGN_ON_NAN,
        dithering.LEVEL_WITHOUT_SCALE,
    }


def test_coded_rows_take_no_memory() -> None:
    """Beyond their sections a fixed scratch, which is not even allocated."""
    how, bits = CODED[0], gaussian(1 << 22)
    parts: list[np.ndarray] = [np.zeros(1, np.uint32), np.empty(room(how, bits.size), np.uint8)]
    for threads in (1, 2):
        tracemalloc.start()
        _, (_, size) = cpu.run_row("encode", row_of(how, bits, parts, threads))
        for direction in ("decode", "accumulate"):
            cpu.run_row(direction, row_of(how, bits, [parts[0], parts[1][:size]], threads))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1 << 20
