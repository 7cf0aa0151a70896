"""Rows of dithering in every format: the reference's scales, codes, values and sums."""

import math

import numpy as np
import pytest

from fewbits.backend import coders, cpu
from fewbits.backend.buffers import Buffer
from fewbits.backend.kernel import Kernel, Kind, Row, Written
from fewbits.coding import bitpack, rans
from fewbits.errors import DecodeError
from fewbits.reference import casts, dithering
from fewbits.reference.blocks import Blocks
from fewbits.reference.dithering import Levels
from fewbits.reference.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, FORMATS, Format
from fewbits.rng import Rng
from native_tables import each_table

formats = pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
*OTHERS, BEST = each_table()
# All tables share the code that cuts rows for threads: the gate has the one that machines pick.
one_table = pytest.mark.parametrize(
    "simd",
    [BEST, *(pytest.param(name, marks=pytest.mark.soak) for name in OTHERS)],
    indirect=True,
)
RNG = Rng(bytes(range(16)))
COUNTS = (0, 1, 7, 8, 31, 33, 65, 1000, 4097)
SHAPES = [
    Levels(math.inf, 7, 0, True, False, False),
    Levels(math.inf, 7, 0, False, False, False),
    Levels(2.0, 7, 0, False, False, True),
    Levels(1.0, 8, 64, False, True, False),
    Levels(2.0, 6, 8, False, False, False),
    Levels(1.0, 16, 0, False, False, True),
    Levels(2.0, 127, 1024, True, True, True),
    Levels(math.inf, 100, 0, False, False, False),
    Levels(math.inf, 127, 8, True, False, False),
    Levels(2.0, 200, 64, False, False, True),
    Levels(math.inf, 254, 0, False, False, True),
    Levels(1.0, 3000, 64, False, True, True),
    Levels(2.0, 32_767, 0, False, False, False),
    Levels(3.0, 7, 8, False, True, False),
]


def any_bits(format: Format, count: int, seed: int) -> np.ndarray:
    """Values of all magnitudes, zeros and values that are not finite among them."""
    source = np.random.default_rng(seed)
    bits = source.integers(0, 256, count * format.itemsize, np.uint8).view(format.bits)
    bits[source.random(count) < 0.1] = 0
    return bits


def numbers(format: Format, values: np.ndarray) -> np.ndarray:
    return casts.cast(values.astype(np.float64).view(np.uint64), FLOAT64, format)[0]


def vectors(format: Format, count: int) -> list[np.ndarray]:
    source = np.random.default_rng(count)
    gauss = numbers(format, source.standard_normal(count))
    grid = numbers(format, source.integers(-14, 15, count) / 8)  # many of them on a level
    some = any_bits(format, count, count)
    magnitudes = some & format.bits.type(format.sign - 1)
    small = some & format.bits.type(format.sign | (1 << format.mantissa) - 1)
    finite = np.where(magnitudes < format.infinity, some, 1).astype(format.bits)
    return [gauss, grid, some, finite, small, 0 * some]


def sections(codes: np.ndarray, sent: np.ndarray, how: Levels, format: Format) -> list[np.ndarray]:
    first = bitpack.pack(sent, format.exponent) if how.natural_scale else sent.view(np.uint8)
    if not how.coded:
        return [first, bitpack.pack(codes, (2 * how.levels + 1).bit_length())]
    room = np.empty(rans.largest_size(codes.size, how.levels + 2, True), np.uint8)
    return [first, room[: coders.write_coded(codes, how.levels + 2, room)]]


def row(how: Levels, format: Format, values: np.ndarray, parts: list[np.ndarray]) -> Row:
    """Values and sections lie at odd addresses."""
    kernel = Kernel(Kind.DITHERING, 0, how)
    return Row(kernel, format, Buffer.of(values), tuple(map(Buffer.of, parts)), RNG.key)


def odd(part: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(1, np.uint8), part.view(np.uint8)])[1:]


def encoded(how: Levels, format: Format, bits: np.ndarray, parts: list[np.ndarray]) -> Written:
    """Over `parts`, which have the sizes that are expected."""
    largest = parts[1].size
    if how.coded:
        largest = rans.largest_size(bits.size, how.levels + 2, True)
    into = [odd(np.zeros(size, np.uint8)) for size in (parts[0].size, largest)]
    written = cpu.run_row("encode", row(how, format, bits, into))
    for part, own, size in zip(parts, into, written.sizes, strict=True):
        assert own[:size].tobytes() == part.tobytes()
    return written


def check(how: Levels, format: Format, bits: np.ndarray) -> None:
    found = dithering.scales(bits, format, how.p, how.block)
    scales, sent = dithering.sent_scales(found, how, format, RNG)
    wanted = dithering.encode(bits, format, how, RNG, scales, sent)
    parts = sections(wanted.codes, sent, how, format)
    read = dithering.read_scales(sent, how, format)
    values = np.empty_like(bits)
    dithering.decode(wanted.codes, read, how, format, values)
    wide = casts.wide(values, format)
    before = np.linspace(-1, 1, bits.size, dtype=wide.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = before + wide
    own = [odd(part) for part in parts]

    for simd in each_table():
        written = encoded(how, format, bits, parts)
        assert written.tally[:2] == (wanted.saturated, wanted.nonfinite), simd
        out = np.empty_like(bits)
        tally = cpu.run_row("decode", row(how, format, out, own)).tally
        assert tally[:2] == (0, wanted.nonfinite), simd
        assert out.tobytes() == values.tobytes(), simd
        totals = before.copy()
        cpu.run_row("accumulate", row(how, format, totals, own))
        np.testing.assert_array_equal(totals, sums, simd)


@formats
@pytest.mark.parametrize("how", SHAPES, ids=str)
def test_rows_are_those_of_the_reference(format: Format, how: Levels) -> None:
    for count in COUNTS if how.block != 8 else COUNTS[:-1]:
        for bits in vectors(format, count):
            check(how, format, bits)


@pytest.mark.parametrize("format", [FLOAT16, BFLOAT16], ids=lambda format: format.name)
@pytest.mark.parametrize("natural", [False, True])
@pytest.mark.parametrize("levels", [1, 6, 7, 12, 49])
def test_every_number_of_16_bits_below_a_scale(format: Format, natural: bool, levels: int) -> None:
    """The scale is the largest of the numbers, from subnormal ones to those near infinity."""
    every = np.arange(format.infinity, dtype=np.uint16)
    signs = np.where(every % 3 == 0, format.sign, 0).astype(np.uint16)
    half = 1 << format.mantissa
    for top in (3, half - 1, half + 5, format.infinity // 2 + 77, format.infinity - 1):
        check(
            Levels(math.inf, levels, 0, natural, False, False), format, (every | signs)[: top + 1]
        )


@formats
def test_rows_of_every_short_length(format: Format) -> None:
    for count in range(1, 130):
        bits = any_bits(format, count, 5)
        check(Levels(2.0, 7, 0, count % 2 == 0, False, count % 4 < 2), format, bits)


@formats
@pytest.mark.parametrize("first", [2**32 - 50, 2**31 - 50])
@pytest.mark.usefixtures("simd")
def test_streams_that_cross_a_segment(format: Format, first: int) -> None:
    """Random words change their keys at index 2^32, which is value 2^31 of float64."""
    how, count = Levels(math.inf, 7, 0, True, False, False), 100
    bits = numbers(format, np.random.default_rng(3).standard_normal(count))
    scale = dithering.scales(bits, format, how.p, 0)
    magnitude, _ = dithering.magnitudes(bits, format)
    lower, chance = dithering.rounded(magnitude, scale, how, format)
    levels = lower + (dithering.draws(RNG, first, count, format) < chance)
    negative = bits >= format.sign
    wanted = dithering.written_codes(levels, negative, np.zeros(count, np.bool_), how)
    packed = np.zeros(bitpack.packed_size(count, 4), np.uint8)
    given = row(how, format, bits, [scale.view(np.uint8), packed])
    native_encode(given, first)
    assert np.array_equal(bitpack.unpack(packed, 4, 16, count), wanted)


def native_encode(given: Row, first: int) -> None:
    """With the scales that are given."""
    from fewbits.backend.native_rows import NativeRow, run_row

    scales, codes = given.sections
    run_row(
        "encode",
        NativeRow(
            Kind.DITHERING, given.format.code, 4, given.values.address, given.elements, first,
            given.key, 0, (scales.address, codes.address, 0), (scales.size, codes.size, 0), 7, 0,
        ),
    )  # fmt: skip


@formats
@pytest.mark.parametrize("block", [0, 8, 65_536])
@pytest.mark.parametrize("natural_scale", [False, True])
@pytest.mark.parametrize("coded", [False, True])
@one_table
@pytest.mark.usefixtures("simd")
def test_the_number_of_threads_changes_no_bit(
    format: Format, block: int, natural_scale: bool, coded: bool
) -> None:
    how = Levels(2.0 if block == 8 else math.inf, 7, block, False, natural_scale, coded)
    count = 2 * 4 * 65_536 + 12_345
    bits = numbers(format, np.random.default_rng(4).standard_normal(count))
    bits[400_000] = format.infinity
    width = format.exponent if natural_scale else 8 * format.itemsize
    scales = np.zeros(bitpack.packed_size(Blocks.of(count, block).number, width), np.uint8)
    room = rans.largest_size(count, 9, True) if coded else bitpack.packed_size(count, 4)
    results = set()
    for threads in (1, 2, 3):
        section, out = np.empty(room, np.uint8), np.empty_like(bits)
        given = row(how, format, bits, [scales, section])._replace(threads=threads)
        tally, (_, size) = cpu.run_row("encode", given)
        read = row(how, format, out, [scales, section[:size]])._replace(threads=threads)
        assert cpu.run_row("decode", read).tally == tally
        results.add((scales.tobytes(), section[:size].tobytes(), out.tobytes(), tally))
    assert len(results) == 1
    assert tally.nonfinite == 1
    assert np.count_nonzero(out) > count // 4


@formats
@pytest.mark.usefixtures("simd")
def test_scales_that_are_no_powers_of_two_are_refused(format: Format) -> None:
    """The code of infinity, and bits behind the last scale."""
    how, count = Levels(2.0, 5, 8, False, True, False), 75
    codes = np.zeros(bitpack.packed_size(count, 4), np.uint8)
    for bad, text in ((False, "unused bits"), (True, "not below its bound")):
        exponents = np.full(10, format.top_code - 1, np.uint16)
        exponents[7] += bad
        scales = bitpack.pack(exponents, format.exponent)
        if not bad:
            if 10 * format.exponent % 8 == 0:
                continue
            scales[-1] |= 0x80
        with pytest.raises(DecodeError, match=text):
            cpu.run_row("decode", row(how, format, np.zeros(count, format.bits), [scales, codes]))


def test_a_norm_of_float32_is_not_that_of_float64() -> None:
    """So that the comparisons above are not of one format with itself."""
    x = np.random.default_rng(1).standard_normal(1000)
    for format in (FLOAT32, FLOAT64):
        wanted = float(np.linalg.norm(casts.to_float64(numbers(format, x), format)))
        scale = casts.to_float64(dithering.scales(numbers(format, x), format, 2.0, 0), format)[0]
        assert abs(scale - wanted) <= 2.0**-format.mantissa * wanted
