"""Rows of signs that native tables run as a whole: the reference's scales, codes and values."""

import tracemalloc

import numpy as np
import pytest

from fewbits.backend import coders, cpu
from fewbits.backend.buffers import Buffer
from fewbits.backend.kernel import Kernel, Kind, Row, RowDirection
from fewbits.backend.table import Table
from fewbits.coding import rans
from fewbits.errors import DecodeError
from fewbits.reference import casts, sign
from fewbits.reference.dithering import BAD_SCALE, LEVEL_WITHOUT_SCALE, SIGN_ON_NAN
from fewbits.reference.formats import FLOAT32, FLOAT64, FORMATS, Format
from fewbits.reference.sign import BOUND
from native_tables import each_table

formats = pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
BLOCKS = (0, *(1 << power for power in range(3, 17)))
LARGE = tuple(around + step for around in (65_536, 131_072) for step in (-1, 0, 1))
TWO_SLICES = 2 * 4 * 65_536 + 12_345  # for two threads


def signs(source: np.random.Generator, count: int, format: Format) -> np.ndarray:
    return np.where(source.integers(0, 2, count), format.sign, 0).astype(format.bits)


def plain(count: int, format: Format) -> np.ndarray:
    """The bits of values without zeros."""
    source = np.random.default_rng(count)
    magnitude = source.integers(format.infinity // 3, format.infinity // 2, count, format.bits)
    return magnitude | signs(source, count, format)


def ends(count: int, format: Format) -> np.ndarray:
    """Zeros, NaN, infinities, subnormal and the largest numbers, with both signs."""
    source = np.random.default_rng(count)
    top, one = format.infinity, 1 << format.mantissa
    rare = np.array([0, top, top + 1, format.quiet_nan, 1, one - 1, one, top - 1], np.uint64)
    magnitude = rare[source.integers(0, rare.size, count)].astype(format.bits)
    return magnitude | signs(source, count, format)


def zeros(count: int, format: Format) -> np.ndarray:
    """Runs of values without zeros between some with many, and one of zeros alone."""
    bits = plain(count, format)
    bits[::5][bits[::5] % 3 == 0] = 0
    bits[count // 3 : count // 2] = 0
    bits[count // 4 : count // 3] = format.sign
    return bits


def one_sign(count: int, format: Format) -> np.ndarray:
    return np.full(count, format.infinity - 1, format.bits)


MAKERS = (plain, ends, zeros, one_sign)


def write_codes(codes: np.ndarray) -> np.ndarray:
    section = rans.encode(np.abs(codes).astype(np.uint16), BOUND, (codes < 0).astype(np.uint8))
    return np.frombuffer(section, np.uint8).copy()


def run(
    direction: RowDirection,
    block: int,
    format: Format,
    values: np.ndarray,
    parts: tuple[np.ndarray, np.ndarray],
) -> tuple[list[bytes], int]:
    """One row of a table; sections lie at odd addresses. The sections, and what is not finite."""
    first = parts[0].view(np.uint8)
    place = np.concatenate([np.zeros(1, np.uint8), first, parts[1]])[1:]
    table = Table(1)
    table.describe(0, Kernel(Kind.SIGN, 0, (block,)), format, values.size, 2)
    assert table.native.all()
    sizes = np.array([[first.size, parts[1].size]], np.uint64)
    table.place(slice(0, 1), Buffer.of(place), np.array([[0, first.size]], np.uint64), sizes)
    table.bind(Buffer.of(values), np.zeros(1, np.uint64))
    cpu.run(direction, table)
    saturated, nonfinite, _ = table.tally()
    assert saturated == 0
    own, size = table.sizes(slice(0, 1), 2)[0].tolist()
    assert own == first.size
    return [place[:own].tobytes(), place[own : own + size].tobytes()], nonfinite


def encoded(bits: np.ndarray, format: Format, block: int) -> tuple[list[bytes], int]:
    blocks = -(-bits.size // (block or max(bits.size, 1)))
    room = rans.largest_size(bits.size, BOUND, True)
    return run(
        "encode", block, format, bits, (np.empty(blocks, format.bits), np.full(room, 165, np.uint8))
    )


def check(bits: np.ndarray, format: Format, block: int) -> None:
    scales, codes, nonfinite = sign.encode(bits, format, block)
    section = write_codes(codes)
    values = np.empty_like(bits)
    assert sign.decode(scales, codes, format, block, values) == nonfinite
    wide = np.float64 if format == FLOAT64 else np.float32
    before = np.linspace(-1, 1, bits.size, dtype=wide)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = before + casts.wide(values, format)

    for simd in each_table():
        wanted = [scales.tobytes(), section.tobytes()], nonfinite
        assert encoded(bits, format, block) == wanted, simd
        found = np.full(bits.size, 1, format.bits)
        assert run("decode", block, format, found, (scales, section))[1] == nonfinite, simd
        assert found.tobytes() == values.tobytes(), simd
        totals = before.copy()
        assert run("accumulate", block, format, totals, (scales, section))[1] == nonfinite, simd
        np.testing.assert_array_equal(totals, sums, simd)


@formats
@pytest.mark.parametrize("turn", [0, *(pytest.param(n, marks=pytest.mark.soak) for n in (1, 2, 3))])
def test_rows_of_every_small_length_are_those_of_the_reference(format: Format, turn: int) -> None:
    """Every length has one maker and one block; over all turns every maker."""
    for count in range(301):
        make = MAKERS[(count + turn) % len(MAKERS)]
        check(make(count, format), format, (0, 8, 64)[count % 3])


@formats
@pytest.mark.parametrize("block", BLOCKS)
def test_rows_of_every_block_are_those_of_the_reference(format: Format, block: int) -> None:
    for make in MAKERS:
        check(make(3001 if block < 64 else 2 * block + 77, format), format, block)


@formats
@pytest.mark.parametrize("block", [0, 65_536])
@pytest.mark.parametrize("count", LARGE)
def test_rows_around_a_coder_block_are_those_of_the_reference(
    format: Format, block: int, count: int
) -> None:
    bits = plain(count, format)
    bits[65_536:][::97] = 0  # the first block is constant, the next ones are not
    bits[65_530:65_536] ^= format.bits.type(format.sign)
    check(bits, format, block)


@formats
@pytest.mark.parametrize("block", [0, 1024, 65_536])
@pytest.mark.usefixtures("simd")
def test_the_number_of_threads_changes_no_bit(format: Format, block: int) -> None:
    bits = plain(TWO_SLICES, format)
    bits[300_000:300_700] = ends(700, format)
    kernel = Kernel(Kind.SIGN, 0, (block,))
    scales, codes, nonfinite = sign.encode(bits, format, block)
    room = np.empty(rans.largest_size(bits.size, BOUND, True), np.uint8)
    wide = np.float64 if format == FLOAT64 else np.float32
    results = set()
    for threads in (1, 2, 3):
        sent, values = np.zeros_like(scales), np.empty_like(bits)
        parts = (Buffer.of(sent), Buffer.of(room))
        row = Row(kernel, format, Buffer.of(bits), parts, threads=threads)
        tally, (_, size) = cpu.run_row("encode", row)
        assert sent.tobytes() == scales.tobytes()
        parts = (Buffer.of(sent), Buffer.of(room[:size].copy()))
        read = row._replace(values=Buffer.of(values), sections=parts)
        assert cpu.run_row("decode", read).tally == tally == (0, nonfinite, 0)
        totals = np.ones(bits.size, wide)
        cpu.run_row("accumulate", read._replace(values=Buffer.of(totals)))
        results.add((room[:size].tobytes(), values.tobytes(), totals.tobytes()))
    assert len(results) == 1
    wanted = np.empty_like(bits)
    sign.decode(scales, codes, format, block, wanted)
    assert wanted.tobytes() == next(iter(results))[1]


def outcome(parts: tuple[np.ndarray, np.ndarray], count: int, block: int, threads: int) -> str:
    values = np.empty(count, np.uint32)
    sections = tuple(map(Buffer.of, parts))
    row = Row(Kernel(Kind.SIGN, 0, (block,)), FLOAT32, Buffer.of(values), sections, threads=threads)
    try:
        cpu.run_row("decode", row)
    except DecodeError as error:
        return str(error)
    return "accepted"


def specified(parts: tuple[np.ndarray, np.ndarray], count: int, block: int) -> str:
    """What the reference says of sections: the coder speaks first."""
    try:
        codes, signs = rans.decode(parts[1].tobytes(), BOUND, count, True)
        assert signs is not None
        signed = codes.astype(np.int32) * (1 - 2 * signs.astype(np.int32))
        sign.decode(parts[0], signed, FLOAT32, block, np.empty(count, np.uint32))
    except DecodeError as error:
        return str(error)
    return "accepted"


@pytest.mark.parametrize("block", [0, 8])
@pytest.mark.parametrize("count", [45, TWO_SLICES])
@pytest.mark.usefixtures("simd")
def test_hostile_rows_are_refused_with_the_references_words(count: int, block: int) -> None:
    """Each fault alone and with others, wherever it is and whichever thread meets it."""
    codes = np.ones(count, np.int32)
    codes[:: 1 if count < 100 else 50_000] = 2  # most coder blocks would else be slow to specify
    seen = set()
    for fault in range(16):
        own = codes.copy()
        scales = np.full(-(-count // (block or count)), 0x3F800000, np.uint32)
        if fault & 1:
            scales[-1] = 0x80000000
        if fault & 2:
            own[0] = -2
        if fault & 4:
            own[-1] = 1
            scales[-1] = scales[-1] & 0x80000000
        section = write_codes(own) if count < 100 else natively_coded(own)
        if fault & 8:
            section[-1] |= 0x80
        words = {outcome((scales, section), count, block, threads) for threads in (1, 2)}
        if count < 100:
            assert words == {specified((scales, section), count, block)}
        assert len(words) == 1
        seen |= words
    assert seen >= {"accepted", BAD_SCALE, SIGN_ON_NAN, LEVEL_WITHOUT_SCALE}
    assert "unused bits at the end of a section are not zero" in seen


def natively_coded(codes: np.ndarray) -> np.ndarray:
    room = np.empty(rans.largest_size(codes.size, BOUND, True), np.uint8)
    return room[: coders.write_coded(codes, BOUND, room)]


def test_constant_blocks_of_every_code_are_read() -> None:
    """Also those that no encoder writes so: zeros and values that are not finite."""
    for count in (1, 4, 5, 100):
        for code in range(BOUND):
            body = bytes([rans.CONSTANT, code, 0])
            body += bytes(-(-count // 8)) if code else b""
            section = np.frombuffer(len(body).to_bytes(3, "little") + body, np.uint8)
            scales = np.array([0x3F800000 if code == 1 else 0], np.uint32)
            values = np.full(count, 7, np.uint32)
            _, nonfinite = run("decode", 0, FLOAT32, values, (scales, section))
            assert nonfinite == (count if code == 2 else 0)
            assert (values == (0, 0x3F800000, FLOAT32.quiet_nan)[code]).all()
            if code == 1:
                with pytest.raises(DecodeError, match=LEVEL_WITHOUT_SCALE):
                    run("decode", 0, FLOAT32, values, (0 * scales, section))


def test_sections_of_another_size_are_a_programming_error() -> None:
    for scales, room in ((1, 100), (3, 100), (2, 10)):
        parts = np.zeros(scales, np.uint32), np.zeros(room, np.uint8)
        with pytest.raises(RuntimeError, match="refused its arguments"):
            run("encode", 64, FLOAT32, np.zeros(100, np.uint32), parts)


def test_rows_take_no_memory() -> None:
    """Beyond their sections a fixed scratch, which is not even allocated."""
    bits = plain(1 << 22, FLOAT32)
    bits[::1000] = 0
    parts = (
        Buffer.of(np.zeros(1, np.uint32)),
        Buffer.of(np.empty(rans.largest_size(bits.size, BOUND, True), np.uint8)),
    )
    for threads in (1, 2):
        row = Row(Kernel(Kind.SIGN, 0, (0,)), FLOAT32, Buffer.of(bits), parts, threads=threads)
        tracemalloc.start()
        _, (first, size) = cpu.run_row("encode", row)
        read = row._replace(sections=(parts[0], parts[1][:size]))
        for direction in ("decode", "accumulate"):
            cpu.run_row(direction, read)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert first == 4
        assert peak < 1 << 20
