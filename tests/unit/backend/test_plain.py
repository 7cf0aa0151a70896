"""The native kernels give the bits of the NumPy reference: every table, length and alignment."""

from dataclasses import dataclass, field

import numpy as np
import pytest

import fewbits
import native_tables as native
import native_tables as units
from cases import mixed_bits
from fewbits.backend import library as _native
from fewbits.coding import bitpack
from fewbits.core.vector import Vector
from fewbits.errors import DecodeError
from fewbits.reference import casts
from fewbits.reference import natural as natural_reference
from fewbits.reference.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, FORMATS, Format
from fewbits.rng import Rng

RNG = Rng.from_seed(11).fork("native")
GUARD = 0xA5
LENGTHS = (0, 1, 2, 7, 8, 9, 15, 16, 31, 32, 33, 63, 64, 65, 95, 96, 127, 129, 1000, 4099)
formats = pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)


@dataclass
class Memory:
    """Bytes at any alignment with guards on both sides that no kernel may touch."""

    size: int
    offset: int = 0
    whole: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.whole = np.full(self.size + 128, GUARD, np.uint8)

    @property
    def bytes(self) -> np.ndarray:
        start = 64 + self.offset
        return self.whole[start : start + self.size]

    def check(self) -> np.ndarray:
        start = 64 + self.offset
        assert (self.whole[:start] == GUARD).all()
        assert (self.whole[start + self.size :] == GUARD).all()
        return self.bytes


def at_offset(data: np.ndarray, offset: int) -> np.ndarray:
    """A copy of an array at an address of any alignment, read-only."""
    memory = Memory(data.nbytes, offset)
    memory.bytes[:] = data.view(np.uint8)
    memory.whole.flags.writeable = False
    return memory.bytes.view(data.dtype)


class Planes:
    """Exponents and signs of `count` elements at odd addresses."""

    def __init__(self, count: int, format: Format, offset: int = 0) -> None:
        self.exponents = Memory(native.packed_size(count, format.exponent), offset)
        self.signs = Memory(native.packed_size(count, 1), 3 * offset)

    def unit(
        self, values: np.ndarray, format: Format, key: bytes = bytes(16), first: int = 0
    ) -> np.ndarray:
        table = units.new_table(1)
        units.set_kernel(table[0], (units.NATURAL, 0), format, values.size)
        table["values"], table["first"] = _native.address(values), first
        table["key"] = np.void(key)
        for number, memory in enumerate((self.exponents, self.signs)):
            table["sections"][0][number] = _native.address(memory.bytes)
            table["sizes"][0][number] = memory.bytes.size
        return table

    def read(self) -> tuple[bytes, bytes]:
        return self.exponents.check().tobytes(), self.signs.check().tobytes()


def encode(
    values: np.ndarray, format: Format, rng: Rng | None, *, first: int = 0, offset: int = 0
) -> tuple[bytes, bytes, int, int]:
    planes = Planes(values.size, format, offset)
    unit = planes.unit(values, format, rng.key if rng else bytes(16), first)
    unit["option"] = rng is None
    tally = units.run("encode", unit)
    return *planes.read(), *tally[:2]


def expected(
    values: np.ndarray, format: Format, rng: Rng | None, first: int = 0
) -> tuple[bytes, bytes, int, int]:
    result = natural_reference.rounded(values, format, rng, first)
    exponents = bitpack.pack(result.exponents, format.exponent).tobytes()
    signs = bitpack.pack(result.signs, 1).tobytes()
    return exponents, signs, result.saturated, result.nonfinite


@pytest.mark.parametrize("rng", [RNG, None], ids=["stochastic", "nearest"])
def test_float32_encodes_as_the_reference_at_every_length(simd: str, rng: Rng | None) -> None:
    values = mixed_bits(FLOAT32, 4100, seed=1, rare=0.004)
    whole = natural_reference.rounded(values, FLOAT32, rng, 5)
    codes = whole.exponents.astype(np.uint8)
    top = codes == 255
    saturated = ((values & 0x7FFFFFFF) > FLOAT32.largest_power) & ~top
    for n in range(4101):
        given = encode(values[:n], FLOAT32, rng, first=5, offset=n % 8)
        signs = np.packbits(whole.signs[:n].astype(np.uint8), bitorder="little")
        counts = int(saturated[:n].sum()), int(top[:n].sum())
        assert given == (codes[:n].tobytes(), signs.tobytes(), *counts), n
    assert counts[0] > 0
    assert counts[1] > 0


def test_float32_decodes_and_accumulates_as_the_reference_at_every_length(simd: str) -> None:
    values = mixed_bits(FLOAT32, 4100, seed=2, rare=0.004)
    whole = natural_reference.rounded(values, FLOAT32, RNG)
    decoded = natural_reference.values(whole.exponents, whole.signs, FLOAT32)
    before = np.random.default_rng(3).standard_normal(4100).astype(np.float32)
    sums = (before + decoded.view(np.float32)).view(np.uint32)
    for n in range(4101):
        planes = Planes(n, FLOAT32, n % 8)
        planes.exponents.bytes[:] = whole.exponents[:n].astype(np.uint8)
        planes.signs.bytes[:] = np.packbits(whole.signs[:n].astype(np.uint8), bitorder="little")
        out = Memory(4 * n, n % 7)
        unit = planes.unit(out.bytes.view(np.uint32), FLOAT32)
        assert units.run("decode", unit).nonfinite == (whole.exponents[:n] == 255).sum()
        assert out.check().tobytes() == decoded[:n].tobytes(), n
        out.bytes[:] = before[:n].view(np.uint8)
        assert units.run("accumulate", unit).nonfinite == (whole.exponents[:n] == 255).sum()
        assert out.check().tobytes() == sums[:n].tobytes(), n


@formats
@pytest.mark.parametrize("rng", [RNG, None], ids=["stochastic", "nearest"])
@pytest.mark.parametrize("rare", [0.0, 0.003, 0.5])
def test_every_format_encodes_as_the_reference(
    simd: str, format: Format, rng: Rng | None, rare: float
) -> None:
    for n in LENGTHS:
        for offset in (0, 1, 3, 5):
            values = at_offset(mixed_bits(format, n, seed=offset, rare=rare), offset)
            given = encode(values, format, rng, first=n, offset=offset)
            assert given == expected(values, format, rng, n), (n, offset)


@formats
@pytest.mark.parametrize("rare", [0.0, 0.003, 0.5])
def test_every_format_decodes_and_accumulates_as_the_reference(
    simd: str, format: Format, rare: float
) -> None:
    total = np.dtype(np.float64 if format == FLOAT64 else np.float32)
    for n in LENGTHS:
        for offset in (0, 1, 3, 5):
            values = mixed_bits(format, n, seed=offset + 10, rare=rare)
            codes = natural_reference.rounded(values, format, RNG)
            planes = Planes(n, format, offset)
            planes.exponents.bytes[:] = bitpack.pack(codes.exponents, format.exponent)
            planes.signs.bytes[:] = bitpack.pack(codes.signs, 1)
            decoded = natural_reference.values(codes.exponents, codes.signs, format)

            out = Memory(n * format.itemsize, offset)
            tally = units.run("decode", planes.unit(out.bytes.view(format.bits), format))
            assert out.check().tobytes() == decoded.tobytes(), (n, offset)
            assert tally.nonfinite == codes.nonfinite

            before = np.random.default_rng(n).standard_normal(n).astype(total)
            sums = Memory(n * total.itemsize, offset)
            sums.bytes[:] = before.view(np.uint8)
            unit = planes.unit(sums.bytes.view(f"u{total.itemsize}"), format)
            tally = units.run("accumulate", unit)
            added = before + casts.to_float64(decoded, format).astype(total)
            assert sums.check().tobytes() == added.tobytes(), (n, offset)
            assert tally.nonfinite == codes.nonfinite


@formats
@pytest.mark.parametrize("first", [2**31 - 50, 2**32 - 50, 2**33 - 50, 2**40 + 17, 2**61 + 3])
def test_streams_cross_segments_and_reach_high_indices(
    simd: str, format: Format, first: int
) -> None:
    values = mixed_bits(format, 333, seed=4, rare=0.003)
    given = encode(values, format, RNG, first=first)
    assert given == expected(values, format, RNG, first)
    assert given != expected(values, format, RNG, first + 1)


@formats
def test_a_stream_that_crosses_inside_a_block_of_the_vector_kernels(
    simd: str, format: Format
) -> None:
    values = mixed_bits(format, 70_001, seed=5, rare=0.0005)
    first = 2**32 - 66_000
    assert encode(values, format, RNG, first=first) == expected(values, format, RNG, first)


@formats
def test_slices_of_one_stream_join_to_the_whole(simd: str, format: Format) -> None:
    values = mixed_bits(format, 640, seed=6)
    whole = encode(values, format, RNG)
    pieces = [encode(values[at : at + 64], format, RNG, first=at) for at in range(0, 640, 64)]
    assert b"".join(piece[0] for piece in pieces) == whole[0]
    assert b"".join(piece[1] for piece in pieces) == whole[1]
    assert sum(piece[2] for piece in pieces) == whole[2]
    assert sum(piece[3] for piece in pieces) == whole[3]


def test_a_table_of_units_is_each_unit_alone(simd: str) -> None:
    vectors = [mixed_bits(FLOAT32, n, seed=n) for n in (0, 5, 64, 333)]
    planes = [Planes(v.size, FLOAT32) for v in vectors]
    single = [p.unit(v, FLOAT32, RNG.key, 9) for p, v in zip(planes, vectors, strict=True)]
    table = np.concatenate(single)
    units.run("encode", table)
    for unit, own, values in zip(table, planes, vectors, strict=True):
        counts = unit["tally"]["saturated"], unit["tally"]["nonfinite"]
        assert (*own.read(), *counts) == expected(values, FLOAT32, RNG, 9)


@formats
@pytest.mark.parametrize("n", [1, 31, 40, 64, 100, 333])
def test_signs_on_zeros_and_on_the_top_code_are_refused(simd: str, format: Format, n: int) -> None:
    for code in (0, format.top_code):
        for at in {0, n // 2, n - 1}:
            exponents = np.full(n, format.bias, np.uint16)
            signs = np.ones(n, np.uint16)
            exponents[at] = code
            planes = Planes(n, format)
            planes.exponents.bytes[:] = bitpack.pack(exponents, format.exponent)
            planes.signs.bytes[:] = bitpack.pack(signs, 1)
            out = np.empty(n, format.bits)
            totals = np.zeros(n, np.float64 if format == FLOAT64 else np.float32)
            with pytest.raises(DecodeError, match="a sign is set"):
                natural_reference.values(exponents, signs, format)
            with pytest.raises(DecodeError, match="a sign is set"):
                units.run("decode", planes.unit(out, format))
            with pytest.raises(DecodeError, match="a sign is set"):
                units.run("accumulate", planes.unit(totals, format))


@formats
def test_padding_bits_are_refused(simd: str, format: Format) -> None:
    for n in (1, 3, 33, 67):
        for plane in ("exponents", "signs"):
            planes = Planes(n, format)
            planes.exponents.bytes[:] = bitpack.pack(
                np.full(n, format.bias, np.uint16), format.exponent
            )
            planes.signs.bytes[:] = 0
            memory = getattr(planes, plane)
            width = format.exponent if plane == "exponents" else 1
            out = np.empty(n, format.bits)
            units.run("decode", planes.unit(out, format))
            if n * width % 8 == 0:
                continue
            memory.bytes[-1] |= 0x80
            with pytest.raises(DecodeError, match="unused bits"):
                units.run("decode", planes.unit(out, format))


def test_wrong_plane_sizes_are_a_programming_error(simd: str) -> None:
    unit = Planes(9, FLOAT32).unit(np.zeros(9, np.uint32), FLOAT32)
    for name, value, status in (
        ("dtype", 9, 1),
        ("option", 4, 1),
        ("kind", 7, 1),
        ("count", 8, 2),
    ):
        wrong = unit.copy()
        wrong[name] = value
        with pytest.raises(RuntimeError, match=f"status {status}"):
            units.run("encode", wrong)
    wrong = unit.copy()
    wrong["sizes"][0][1] = 1
    with pytest.raises(RuntimeError, match="status 2"):
        units.run("encode", wrong)


def every_pattern_of_sixteen_bits() -> np.ndarray:
    return np.arange(1 << 16, dtype=np.uint16)


def cast_inputs(source: Format, n: int, seed: int) -> np.ndarray:
    """Values all over the range: random patterns, ties, and the neighbourhood of every power."""
    rng = np.random.default_rng([seed, n])
    patterns = rng.integers(0, 1 << 63, n, dtype=np.uint64) << np.uint64(1)
    patterns ^= rng.integers(0, 2, n, dtype=np.uint64)
    result = (patterns >> np.uint64(64 - 8 * source.itemsize)).astype(source.bits)
    near = mixed_bits(source, n, seed)
    # Ties of the narrow formats: clear the low bits, so that what is left is exactly half a unit.
    clear = rng.integers(0, source.mantissa, n).astype(np.uint64)
    ties = result.astype(np.uint64) >> clear << clear
    near_one = near.astype(np.uint64) >> clear << clear
    choice = rng.integers(0, 4, n)
    return np.select(
        [choice == 0, choice == 1, choice == 2], [result, near, ties], near_one
    ).astype(source.bits)


@pytest.mark.parametrize("target", FORMATS, ids=lambda format: f"to-{format.name}")
@pytest.mark.parametrize("source", FORMATS, ids=lambda format: f"from-{format.name}")
def test_casts_are_the_references(simd: str, source: Format, target: Format) -> None:
    cases = [cast_inputs(source, n, seed=7) for n in (*LENGTHS, 20_000)]
    if source.itemsize == 2:
        cases.append(every_pattern_of_sixteen_bits())
    with np.errstate(invalid="ignore"):  # signalling NaNs are among the patterns
        wanted = [casts.cast(values, source, target) for values in cases]
    for values, (result, saturated, nonfinite) in zip(cases, wanted, strict=True):
        for offset in (0, 1, 3):
            moved, out = at_offset(values, offset), Memory(values.size * target.itemsize, offset)
            tally = native.cast(moved, source, target, out.bytes.view(target.bits))
            assert out.check().tobytes() == result.tobytes()
            assert (tally.saturated, tally.nonfinite) == (saturated, nonfinite)


def test_casts_to_float16_and_float32_are_numpys(simd: str) -> None:
    values = np.random.default_rng(8).standard_normal(5000) * 2.0 ** np.arange(-40, 10).repeat(100)
    for narrow, format in ((np.float16, FLOAT16), (np.float32, FLOAT32)):
        out = np.empty(values.size, format.bits)
        native.cast(values.view(np.uint64), FLOAT64, format, out)
        kept = np.abs(values) < 60_000
        assert np.array_equal(out.view(narrow)[kept], values.astype(narrow)[kept])


@pytest.mark.parametrize("source", [FLOAT32, FLOAT64], ids=lambda format: format.name)
def test_casts_to_bfloat16_are_ml_dtypes(simd: str, source: Format) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = np.dtype(source.name)
    values = np.random.default_rng(9).standard_normal(5000).astype(np.float32).astype(dtype)
    out = np.empty(values.size, np.uint16)
    native.cast(values.view(source.bits), source, BFLOAT16, out)
    assert np.array_equal(out, values.astype(ml_dtypes.bfloat16).view(np.uint16))


@pytest.mark.parametrize("threads", [2, 3])
@formats
def test_threads_give_the_bits_of_one(format: Format, threads: int) -> None:
    n = 800_003
    values = np.resize(mixed_bits(format, 40_009, seed=12, rare=0.0005), n)
    results = []
    for workers in (1, threads):
        planes = [
            np.zeros(native.packed_size(n, width), np.uint8) for width in (format.exponent, 1)
        ]
        tally = native.natural_encode(values, format, RNG, tuple(planes), threads=workers)
        out = np.empty(n, format.bits)
        back = native.natural_decode(tuple(planes), format, out, threads=workers)
        totals = np.ones(n, np.float64 if format == FLOAT64 else np.float32)
        native.natural_accumulate(tuple(planes), format, totals, threads=workers)
        narrow = np.empty(n, np.uint16)
        cast = native.cast(values, format, BFLOAT16, narrow, threads=workers)
        arrays = (*planes, out, totals, narrow)
        results.append(([a.tobytes() for a in arrays], tally, back, cast))
    assert results[0] == results[1]
    assert results[0][1].saturated > 0


@pytest.mark.parametrize("place", [0, 300_000, 599_999])
def test_any_thread_finds_a_value_that_its_cast_does_not_write(place: int) -> None:
    sent, out = np.full(600_000, 0x3C00, np.uint16), np.zeros(600_000, np.uint16)
    half = fewbits.operator("float16")
    for threads in (1, 2):
        half.decode((sent.view(np.uint8),), Vector(out, BFLOAT16), threads=threads)
        assert set(out.tolist()) == {0x3F80}
    sent[place] |= 1  # bfloat16 has no such bit
    for threads in (1, 2):
        with pytest.raises(DecodeError, match="cannot have written"):
            half.decode((sent.view(np.uint8),), Vector(out, BFLOAT16), threads=threads)


def test_accumulation_in_another_dtype_is_a_programming_error() -> None:
    planes = np.zeros(4, np.uint8), np.zeros(1, np.uint8)
    with pytest.raises(RuntimeError, match="summed in float32"):
        fewbits.operator("natural").accumulate(planes, FLOAT32, np.zeros(4, np.float64))
    with pytest.raises(RuntimeError, match="do not fit 8 values"):
        native.natural_accumulate(planes, FLOAT32, np.zeros(4, np.float64))
    with pytest.raises(RuntimeError, match="cannot cast"):
        native.cast(np.zeros(3, np.uint32), FLOAT32, FLOAT16, np.zeros(4, np.uint16))
