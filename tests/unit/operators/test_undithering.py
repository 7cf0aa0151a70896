"""The native decoder of the dithering operators: the values and the refusals of the NumPy one."""

import numpy as np
import pytest

import fewbits
from fewbits import DecodeError
from fewbits.coding import bitpack
from fewbits.core.vector import Vector
from fewbits.families.dithering import Dithering
from fewbits.operators.natural_dithering import NaturalDithering
from fewbits.operators.standard_dithering import StandardDithering
from fewbits.reference.formats import FLOAT32
from fewbits.reference.tally import Tally
from native_tables import each_table
from references import undithered

CLASSES = pytest.mark.parametrize(
    "cls", [NaturalDithering, StandardDithering], ids=lambda cls: cls.name
)
Parts = list[np.ndarray]
Outcome = tuple[bytes, int] | str
TWO_SLICES = 2 * 4 * 65_536 + 12_345  # for two threads
SCALES = np.array([1.0, 3.7, 1e-38, 1e-44, 3.4028235e38, 1e-30, 0.0], np.float32).view(np.uint32)
LEVELS = [(1, 0), (2, 8), (3, 16), (7, 0), (7, 8), (7, 32), (12, 64), (31, 0), (100, 512), (127, 8)]


def sections(operator: Dithering, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scales and codes of all kinds; a block whose scale is 0 holds zeros and NaN."""
    source = np.random.default_rng([seed, n, operator.levels])
    size = operator.block or max(n, 1)
    blocks = -(-n // size)
    scales = np.where(
        source.random(blocks) < 0.5,
        SCALES[source.integers(0, SCALES.size, blocks)],
        source.random(blocks, np.float32).view(np.uint32),
    )
    codes = source.integers(0, 2 * operator.levels + 2, n).astype(np.uint16)
    empty = scales[np.arange(n) // size] == 0
    codes[empty] = np.where(source.random(n) < 0.9, 0, 2 * operator.levels + 1)[empty]
    return scales, codes


def packed(operator: Dithering, scales: np.ndarray, codes: np.ndarray) -> Parts:
    """As they stand in a frame, at odd addresses."""
    width = (2 * operator.levels + 1).bit_length()
    parts = [scales.astype(np.uint32).view(np.uint8), bitpack.pack(codes, width)]
    return [np.concatenate([np.zeros(1, np.uint8), part])[1:] for part in parts]


def decoded(operator: Dithering, parts: Parts, n: int, threads: int = 1) -> Outcome:
    out = Vector(np.full(n, 0xA5A5A5A5, np.uint32), FLOAT32)
    try:
        tally = operator.decode(tuple(parts), out, threads=threads)
    except DecodeError as error:
        return str(error)
    assert tally.saturated == 0
    return out.bits.tobytes(), tally.nonfinite


def specified(operator: Dithering, parts: Parts, n: int) -> Outcome:
    """What the NumPy decoder makes of sections."""
    try:
        bits, nonfinite = undithered(operator, FLOAT32, parts, n)
    except DecodeError as error:
        return str(error)
    return bits.tobytes(), nonfinite


@CLASSES
@pytest.mark.parametrize(("levels", "block"), LEVELS)
def test_every_code_has_the_value_of_the_reference(
    cls: type[Dithering], levels: int, block: int
) -> None:
    """Tails of groups and of pieces; subnormal, largest and absent scales."""
    operator = cls(levels=levels, block=block)
    for n in (*range(1, 76, 2), 4095, 4097, 8191, 12_345):
        for seed in range(3):
            parts = packed(operator, *sections(operator, n, seed))
            wanted = specified(operator, parts, n)
            assert not isinstance(wanted, str)
            for simd in each_table():
                assert decoded(operator, parts, n) == wanted, simd


@CLASSES
def test_values_are_those_of_the_formula(cls: type[Dithering], simd: str) -> None:
    """Level by level in Python's own arithmetic, so that both decoders cannot err alike."""
    for levels in (1, 7, 20, 127):
        operator = cls(levels=levels)
        codes = np.arange(2 * levels + 2, dtype=np.uint16)
        for scale in SCALES[:-1]:
            n = float(np.uint32(scale).view(np.float32))
            ratio = [
                2.0 ** (j - levels) if cls is NaturalDithering else j / levels
                for j in range(1, levels + 1)
            ]
            wanted = np.float32([0.0, *(n * r for r in ratio), *(-(n * r) for r in ratio)])
            found = decoded(operator, packed(operator, np.array([scale]), codes), codes.size)
            bits = np.append(wanted.view(np.uint32), np.uint32(FLOAT32.quiet_nan))
            assert found == (bits.tobytes(), 1)


@pytest.mark.parametrize("scale", ["exact", "natural"])
@pytest.mark.parametrize("block", [0, 8, 65_536])
def test_neither_threads_nor_norms_matter(scale: str, block: int, simd: str) -> None:
    x = np.random.default_rng(block).standard_normal(TWO_SLICES).astype(np.float32)
    x[::1000] = np.nan
    for p in (1.0, 2.0) if scale == "exact" else (np.inf,):
        operator = StandardDithering(p, 15, block, scale=scale)  # type: ignore[arg-type]
        into = tuple(
            np.zeros(section.size, np.uint8) for section in operator.layout(x.size, FLOAT32)
        )
        rng = fewbits.Rng.from_seed(1)
        operator.encode(Vector(x.view(np.uint32), FLOAT32), rng, into)
        wanted = specified(operator, list(into), x.size)
        assert wanted[1] == -(-x.size // 1000)
        for threads in (1, 2):
            assert decoded(operator, list(into), x.size, threads) == wanted


@CLASSES
@pytest.mark.parametrize(("levels", "block"), [(2, 0), (5, 8), (9, 64), (40, 65_536)])
def test_hostile_codes_are_refused_as_the_reference_does(
    cls: type[Dithering], levels: int, block: int, simd: str
) -> None:
    """Each fault alone and together with others, wherever it is and whoever meets it first."""
    operator = cls(levels=levels, block=block)
    beyond, width = 2 * levels + 2, (2 * levels + 1).bit_length()
    seen = set()
    for n, threads in ((1, 1), (45, 1), (9001, 1), (TWO_SLICES, 1), (TWO_SLICES, 2)):
        scales, codes = sections(operator, n)
        scales[:] = 1
        for fault in range(1, 8):
            for place in (0, n // 2) if n == TWO_SLICES else (0, n // 2, n - 1):
                own, many = scales.copy(), codes.copy()
                if fault & 1:
                    many[place] = beyond
                if fault & 2:
                    own[n // 3 // (block or n)] = 0
                    many[n // 3] = levels
                parts = packed(operator, own, many)
                if fault & 4 and n * width % 8:
                    parts[1][-1] |= 0x80
                found = decoded(operator, parts, n, threads)
                assert found == specified(operator, parts, n)
                seen.add(found if isinstance(found, str) else "")
    assert seen - {""} == {
        "a code is not below its bound",
        "unused bits at the end of a section are not zero",
        "a block whose scale is 0 holds a level above 0",
    }


@CLASSES
@pytest.mark.parametrize("scale", [0x7F800000, 0x7FC00000, 0x80000000, 0xBF800000])
def test_scales_are_refused_before_codes(cls: type[Dithering], scale: int, simd: str) -> None:
    operator = cls(levels=2, block=8)
    parts = packed(operator, np.array([0x3F800000, scale]), np.full(16, 7, np.uint16))
    assert decoded(operator, parts, 16) == "a scale is negative or not finite"


def test_sections_of_a_wrong_length_are_refused(simd: str) -> None:
    operator = NaturalDithering()
    parts = packed(operator, *sections(operator, 99))
    for length in (0, 49, 51):
        short = [parts[0], np.resize(parts[1], length)]
        assert decoded(operator, short, 99) == (
            f"section 'codes' has {length} bytes, 99 values need 50"
        )


@CLASSES
@pytest.mark.parametrize(("levels", "block"), [(7, 0), (3, 8), (40, 4096)])
def test_accumulating_is_decoding_and_adding(
    cls: type[Dithering], levels: int, block: int, simd: str
) -> None:
    operator = cls(levels=levels, block=block)
    for n in (0, 1, 37, 4097, TWO_SLICES):
        parts = tuple(packed(operator, *sections(operator, n)))
        start = np.random.default_rng(n).standard_normal(n).astype(np.float32)
        wanted = start.copy()
        values, nonfinite = undithered(operator, FLOAT32, list(parts), n)
        wanted += values.view(np.float32)
        for threads in (1, 2):
            totals = start.copy()
            tally = operator.accumulate(parts, FLOAT32, totals, threads=threads)
            assert tally == Tally(0, nonfinite)
            assert totals.tobytes() == wanted.tobytes()


def test_totals_of_another_format_are_refused() -> None:
    operator = NaturalDithering()
    parts = tuple(packed(operator, *sections(operator, 8)))
    with pytest.raises(RuntimeError, match="float32 is summed in float32, got float64"):
        operator.accumulate(parts, FLOAT32, np.zeros(8))
