"""Rows of dithering that native tables run as a whole: the reference's scales, codes and values."""

import math

import numpy as np
import pytest

from fewbits.backend import cpu
from fewbits.backend.buffers import Buffer
from fewbits.backend.kernel import Kernel, Kind, RowDirection
from fewbits.backend.table import Table
from fewbits.coding import bitpack
from fewbits.errors import DecodeError
from fewbits.reference import dithering
from fewbits.reference.blocks import Blocks
from fewbits.reference.dithering import Levels
from fewbits.reference.formats import FLOAT32, FLOAT64
from fewbits.rng import Rng

COUNTS = (0, 1, 7, 8, 9, 31, 33, 1000, 4095, 4097, 70_001)
SHAPES = [
    Levels(math.inf, 7, 0, True, False, False),
    Levels(2.0, 1, 0, False, False, False),
    Levels(1.0, 127, 64, False, False, False),
    Levels(2.0, 127, 8, True, False, False),
    Levels(2.0, 5, 4096, True, False, False),
]
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


def expected(bits: np.ndarray, how: Levels) -> tuple[np.ndarray, np.ndarray, int]:
    scales = dithering.scales(bits, FLOAT32, how.p, how.block)
    found = dithering.encode(bits, FLOAT32, how, RNG, scales, scales)
    return scales, bitpack.pack(found.codes, width(how)), found.nonfinite


def run(
    direction: RowDirection, how: Levels, values: np.ndarray, parts: tuple[np.ndarray, ...]
) -> tuple[int, int]:
    """One row of a table; sections lie at odd addresses."""
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
        parts[1][:] = place[parts[0].nbytes :]
    return table.tally()[:2]


@pytest.mark.parametrize("how", SHAPES, ids=str)
@pytest.mark.usefixtures("simd")
def test_rows_write_and_read_what_the_reference_does(how: Levels) -> None:
    for bits in (make(count) for count in COUNTS for make in (some, gaussian)):
        count = bits.size
        scales, packed, nonfinite = expected(bits, how)
        parts = np.empty_like(scales), np.empty_like(packed)
        assert run("encode", how, bits, parts) == (0, nonfinite)
        assert parts[0].tobytes() == scales.tobytes()
        assert parts[1].tobytes() == packed.tobytes()

        values = np.empty(count, np.uint32)
        codes = bitpack.unpack(packed, width(how), 2 * how.levels + 2, count)
        assert dithering.decode(codes, scales, how, FLOAT32, values) == nonfinite
        found = np.empty(count, np.uint32)
        assert run("decode", how, found, parts) == (0, nonfinite)
        assert found.tobytes() == values.tobytes()

        totals = np.linspace(-1, 1, count, dtype=np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            sums = totals + values.view(np.float32)
        assert run("accumulate", how, totals, parts) == (0, nonfinite)
        np.testing.assert_array_equal(totals, sums)


def test_norms_beyond_the_range_are_its_largest_value() -> None:
    bits = np.full(100, np.float32(3e38).view(np.uint32))
    for how in (SHAPES[1], Levels(1.0, 3, 0, False, False, False)):
        scales, packed, _ = expected(bits, how)
        parts = np.empty_like(scales), np.empty_like(packed)
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
                run(direction, how, np.zeros(count, np.uint32), (first, second))
            assert refused.value.row == 0


def test_rows_that_native_tables_lack_run_otherwise() -> None:
    plain = SHAPES[0]
    lacking = [
        (plain._replace(natural_scale=True), FLOAT32),
        (plain._replace(coded=True), FLOAT32),
        (plain._replace(levels=128, natural=False), FLOAT32),
        (plain._replace(p=3.0), FLOAT32),
        (plain, FLOAT64),
    ]
    table = Table(len(lacking))
    for number, (how, format) in enumerate(lacking):
        table.describe(number, Kernel(Kind.DITHERING, 0, how), format, 100, 2)
    assert not table.native.any()


def test_sections_of_another_size_are_a_programming_error() -> None:
    how = SHAPES[2]
    assert Blocks.of(100, how.block).number == 2
    with pytest.raises(RuntimeError, match="refused its arguments"):
        run("decode", how, np.zeros(100, np.uint32), (np.zeros(3, np.uint32), np.zeros(100, "u1")))
