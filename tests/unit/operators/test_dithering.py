"""The dithering operators against their theory: laws and moments are computed, not sampled."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

import fewbits
from cases import array, bits, exact, mixed_bits
from fewbits import Rng, SaturationWarning, SpecError
from fewbits.backend import functions as _native_operators
from fewbits.backend.kinds.dithering import norm
from fewbits.families.dithering import Dithering
from fewbits.operators.natural_dithering import NaturalDithering
from fewbits.operators.standard_dithering import StandardDithering
from fewbits.reference import casts, dithering
from fewbits.reference import natural as natural_reference
from fewbits.reference.dithering import Levels
from fewbits.reference.formats import FLOAT16, FLOAT32, FLOAT64, FORMATS, Format
from fewbits.wire import frame as wire
from references import dithered

formats = pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
CLASSES = pytest.mark.parametrize(
    "cls", [NaturalDithering, StandardDithering], ids=lambda cls: cls.name
)
NORMS = (1.0, 1.5, 2.0, 4.0, math.inf)


def moments(operator: Dithering, x: np.ndarray, format: Format) -> tuple[np.ndarray, float]:
    """The exact mean of every output, and the expected relative squared error."""
    own = bits(x)
    scales = dithering.scales(own, format, operator.p, operator.block)
    spread = scales[np.arange(x.size) // (operator.block or x.size)]
    magnitude, _ = dithering.magnitudes(own, format)
    how = Levels(*operator.kernel(x.size, format).numbers)
    lower, chance = dithering.rounded(magnitude, spread, how, format)
    up = chance / 2.0 ** dithering.chance_bits(format)
    below, above = (
        exact(dithering.values(spread, level, how, format).view(x.dtype))
        for level in (lower, np.minimum(lower + 1, operator.levels))
    )
    size = np.abs(exact(x))
    error = ((below - size) ** 2 * (1 - up) + (above - size) ** 2 * up).sum() / (size**2).sum()
    return np.sign(exact(x)) * (below + up * (above - below)), float(error)


def law(lower: int, chance: int, bits_of_chance: int) -> dict[int, Fraction]:
    up = Fraction(chance, 1 << bits_of_chance)
    return {level: p for level, p in ((lower, 1 - up), (lower + 1, up)) if p}


@pytest.mark.parametrize("levels", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("format", [FLOAT32, FLOAT64], ids=lambda format: format.name)
def test_natural_dithering_is_natural_after_standard_dithering(levels: int, format: Format) -> None:
    """Theorem 8, as exact laws: standard with 2^(s-1) levels, then every level to powers of two."""
    y = (np.arange(4097) / 4096).astype(format.name)
    own, wide = dithering.natural_levels(y, levels), dithering.chance_bits(format)
    coarse = dithering.uniform_levels(y, 1 << (levels - 1))
    for i in range(y.size):
        composed: dict[int, Fraction] = {}
        for j, weight in law(int(coarse.lower[i]), int(coarse.chance[i]), wide).items():
            power = max(j.bit_length() - 1, 0)  # the natural operator on j: 2^a up by j / 2^a - 1
            up = Fraction(j, 1 << power) - 1 if j else Fraction(0)
            for level, p in ((power + 1 if j else 0, 1 - up), (power + 2, up)):
                if p:
                    composed[level] = composed.get(level, Fraction(0)) + weight * p
        assert law(int(own.lower[i]), int(own.chance[i]), wide) == composed


def test_three_eighths_goes_to_the_levels_of_the_papers_figure() -> None:
    y = np.array([3 / 8], np.float32)
    powers, uniform = dithering.natural_levels(y, 3), dithering.uniform_levels(y, 3)
    halves, eighths = (law(int(own.lower[0]), int(own.chance[0]), 31) for own in (powers, uniform))
    assert halves == {1: Fraction(1, 2), 2: Fraction(1, 2)}
    assert eighths == {1: Fraction(7, 8), 2: Fraction(1, 8)}


def test_one_level_is_the_same_for_both() -> None:
    y = np.random.default_rng(1).random(1000, np.float32)
    for mine, other in zip(
        dithering.natural_levels(y, 1), dithering.uniform_levels(y, 1), strict=True
    ):
        assert np.array_equal(mine, other)


@CLASSES
@formats
@pytest.mark.parametrize("levels", [1, 7, 100])
def test_the_mean_is_the_vector(cls: type[Dithering], format: Format, levels: int) -> None:
    """The quotient and the decoded level are each rounded once or twice, and chances have 31 bits.

    Levels of the 16-bit formats are no numbers of these formats, which costs no bias.
    """
    x = array(np.random.default_rng(levels).standard_normal(500), format)
    for p in NORMS:
        mean, error = moments(cls(p, levels, 64), x, format)
        scale = np.abs(exact(x)).max() * 8
        wide = 52 if format == FLOAT64 else 23
        allowed = np.abs(exact(x)) * 2.0 ** (1 - wide) + scale * 2.0 ** -(
            dithering.chance_bits(format) - 1
        )
        assert (np.abs(mean - exact(x)) <= allowed).all()
        assert error > 0


def paper(operator: Dithering, d: int) -> float:
    z = d ** (1 / min(operator.p, 2)) * operator.step
    return (1 / 8 if isinstance(operator, NaturalDithering) else 0) + z * min(1, z)


def notes(operator: Dithering, d: int) -> float:
    z = d ** (1 / min(operator.p, 2)) * operator.step
    return (1 / 8 if isinstance(operator, NaturalDithering) else 0) + min(z, z * z / 4)


@CLASSES
@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("levels", [1, 2, 3, 5, 7, 10])
def test_no_vector_exceeds_the_bound_which_is_below_the_papers(
    cls: type[Dithering], p: float, levels: int
) -> None:
    operator = cls(p, levels)
    source = np.random.default_rng(levels)
    for d in (1, 2, 10, 100, 1000):
        bound = operator.guarantee(d).omega
        assert bound <= 1.0001 * notes(operator, d) <= 1.0001 * paper(operator, d)
        flat = np.ones(d)
        few = np.full(d, operator.step * 4 / 9)
        few[: max(1, d // 100)] = 2 / 3
        half = np.full(d, operator.step / 2)
        half[0] = 1
        vectors = [flat, few, half, source.standard_normal(d), source.standard_cauchy(d)]
        vectors.append(2.0 ** -source.integers(0, 12, d) * 4 / 3)
        for x in vectors:
            _, error = moments(operator, x.astype(np.float32), FLOAT32)
            assert error <= bound * (1 + 1e-6)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
def test_flat_vectors_attain_the_bound(p: float) -> None:
    x = np.ones(4096, np.float32)
    wide, narrow = NaturalDithering(p, 4), StandardDithering(p, 9)
    for operator in (wide, narrow):  # z and w above 9/4
        assert moments(operator, x, FLOAT32)[1] == pytest.approx(
            operator.guarantee(x.size).omega, rel=1e-5
        )
    half = StandardDithering(2, 96)  # 96 / sqrt(4096) = 3/2: between two levels
    assert moments(half, x, FLOAT32)[1] == pytest.approx(half.guarantee(4096).omega, rel=1e-5)


def test_the_quadratic_bound_of_natural_dithering_is_attained() -> None:
    r"""Values at 4/9 of the lowest level and two thirds of the norm: 1/8 + 2z²/9 up to 1 / d."""
    operator, d = NaturalDithering(2, 8), 20_000
    x = np.full(d, operator.step * 4 / 9)
    rest = 1 - (x**2).sum()
    x[0] = 2 / 3
    x[1] = 1 / 3
    x[2 : 2 + int((rest - 5 / 9) / (1 / 6) ** 2)] = 1 / 6
    _, error = moments(operator, x.astype(np.float32), FLOAT32)
    assert 0.97 * operator.guarantee(d).omega <= error <= operator.guarantee(d).omega


@CLASSES
def test_a_natural_scale_costs_nine_eighths(cls: type[Dithering]) -> None:
    plain, natural = cls(2, 7), cls(2, 7, scale="natural")
    for d in (10, 1000):
        assert natural.guarantee(d).omega == pytest.approx(
            9 / 8 * (1 + plain.guarantee(d).omega) - 1
        )
    # The norm 4/3 is sent as 1 (2/3 of the time) or 2, and apart from the elements' draws.
    x = np.array([4 / 3, 0, 0], np.float32)
    seen = [
        float(fewbits.decompress(fewbits.compress(x, natural, seed=seed))[0])
        for seed in range(2000)
    ]
    assert set(seen) == {1.0, 2.0}
    assert np.mean(seen) == pytest.approx(4 / 3, abs=4 * 0.4714 / np.sqrt(2000))


@formats
def test_natural_scales_make_all_outputs_powers_of_two(format: Format) -> None:
    x = array(np.random.default_rng(3).standard_normal(400), format)
    y = exact(fewbits.decompress(fewbits.compress(x, NaturalDithering(scale="natural"), seed=1)))
    mantissa, _ = np.frexp(y[y != 0])
    assert np.isin(mantissa, [0.5, -0.5]).all()
    assert (y != 0).sum() > 300


@CLASSES
@formats
def test_norms_beyond_the_range_cost_nothing(cls: type[Dithering], format: Format) -> None:
    """The largest finite value is then the scale: no magnitude exceeds it."""
    largest = np.full(100, format.infinity - 1, format.bits)
    for p in (1.0, 2.0, 3.0):
        y = fewbits.decompress(fewbits.compress(largest.view(array([], format).dtype), cls(p)))
        assert np.array_equal(bits(y), largest)


@CLASSES
@formats
def test_subnormal_vectors_have_a_norm(cls: type[Dithering], format: Format) -> None:
    tiny = np.arange(1, 9, dtype=format.bits).view(array([], format).dtype)
    for p in (1.0, 2.0, 3.0, math.inf):
        scales = dithering.scales(bits(tiny), format, p, 0)
        wanted = np.linalg.norm(np.arange(1.0, 9.0), p)
        assert abs(int(scales[0]) - wanted) <= 1
        assert np.isfinite(exact(fewbits.decompress(fewbits.compress(tiny, cls(p))))).all()


@formats
def test_scales_are_the_nearest_values_to_the_norms(format: Format) -> None:
    x = array(np.random.default_rng(5).standard_normal(70_000), format)
    for p in (1.0, 1.5, 2.0, 7.0, math.inf):
        norm = np.linalg.norm(exact(x[:512]), p)
        scale = dithering.scales(bits(x), format, p, 512)
        value = casts.to_float64(scale, format)
        assert value[0] == pytest.approx(norm, rel=2.0 ** -(format.mantissa + 1) + 1e-12)
        assert scale.size == 137
        whole = dithering.scales(bits(x), format, p, 0)
        assert casts.to_float64(whole, format)[0] == pytest.approx(
            min(np.linalg.norm(exact(x), p), 65504 if format == FLOAT16 else np.inf),
            rel=2.0 ** -(format.mantissa + 1) + 1e-12,
        )


def test_blocks_have_their_own_scales() -> None:
    x = np.repeat(np.float32([1, 1000, 0, 1e-3]), 8) * np.float32(3)
    for spec in ("terngrad:block=8", "natural-dithering:block=8", "sign:block=8"):
        frame = fewbits.compress(x, spec, seed=1)
        assert np.array_equal(fewbits.decompress(frame), x)
        assert fewbits.inspect(frame).sections["scales"] == 16


@pytest.mark.parametrize("coder", ["packed", "rans"])
def test_saturation_is_only_that_of_natural_scales(coder: str) -> None:
    x = np.float32([3e38, -3e38, 2.0**127, 1e30])
    exact_scale = NaturalDithering(coder=coder)
    assert fewbits.decompress(fewbits.compress(x, exact_scale, seed=1))[0] == x[0]
    with pytest.warns(SaturationWarning, match="2 of 4 values exceed"):
        frame = fewbits.compress(x, NaturalDithering(scale="natural", coder=coder), seed=1)
    assert fewbits.decompress(frame)[:3].tolist() == [2.0**127, -(2.0**127), 2.0**127]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fewbits.compress(x[2:], NaturalDithering(scale="natural"), seed=1)


@pytest.mark.parametrize(
    ("spec", "bits_a_value"),
    [("levels=1", 2), ("levels=3", 3), ("levels=7", 4), ("levels=15", 5), ("levels=127", 8)],
)
def test_sign_and_level_share_a_code(spec: str, bits_a_value: int) -> None:
    x = np.ones(8000, np.float32)
    info = fewbits.inspect(fewbits.compress(x, f"natural-dithering:{spec}", seed=1))
    assert info.sections["codes"] == 1000 * bits_a_value


@pytest.mark.parametrize(
    ("alias", "spec"),
    [
        ("qsgd", "standard-dithering:p=2"),
        ("qsgd:levels=15,block=512", "standard-dithering:p=2,levels=15,block=512"),
        ("terngrad", "standard-dithering:levels=1"),
        ("terngrad:p=2", "standard-dithering:p=2,levels=1"),
        ("ternary", "standard-dithering:p=2,levels=1"),
        ("ternary:coder=rans", "standard-dithering:p=2,levels=1,coder=rans"),
        ("natural-dithering:p=inf", "natural-dithering"),
        ("natural-dithering:p=1.5", "natural-dithering:p=1.5"),
    ],
)
def test_aliases_resolve_to_canonical_specs(alias: str, spec: str) -> None:
    assert fewbits.operator(alias).spec == spec
    assert fewbits.inspect(fewbits.compress(np.ones(3, np.float32), alias)).operator == spec


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("qsgd:p=0.5", "p must be at least 1, or inf, got 0.5"),
        ("qsgd:p=0", "p must be at least 1, or inf, got 0.0"),
        ("qsgd:p=nan", "p must be finite, got 'nan'"),
        ("qsgd:p=-inf", "p must be finite, got '-inf'"),
        ("qsgd:levels=0", "levels must be from 1 to 32767, got 0"),
        ("natural-dithering:levels=128", "levels must be from 1 to 127, got 128"),
        ("sign:block=7", "block must be 0"),
        ("qsgd:block=96", "block must be 0"),
        ("qsgd:block=131072", "block must be 0"),
        ("qsgd:levels=3,levels=4", "parameter 'levels' is given twice"),
        ("qsdg", "unknown operator 'qsdg': did you mean 'qsgd'?"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(spec: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        fewbits.operator(spec)
    assert str(caught.value).startswith(message)


@formats
def test_signs_have_the_error_of_the_projection(format: Format) -> None:
    x = array(np.random.default_rng(6).standard_normal(1000), format)
    x[::5] = 0
    y = exact(fewbits.decompress(fewbits.compress(x, "sign")))
    used = exact(x)[exact(x) != 0]
    assert np.array_equal(np.sign(y), np.sign(exact(x)))
    assert len(set(np.abs(y).tolist())) == 2
    wanted = (used**2).sum() - np.abs(used).sum() ** 2 / used.size
    assert ((y - exact(x)) ** 2).sum() == pytest.approx(wanted, rel=2.0**-14)


def test_signs_cost_one_bit() -> None:
    x = np.random.default_rng(7).standard_normal(200_000).astype(np.float32)
    info = fewbits.inspect(fewbits.compress(x, "sign"))
    assert info.sections["codes"] == 200_000 // 8 + 4 * 6
    y = fewbits.decompress(fewbits.compress(x, "sign"))
    assert ((y - x) ** 2).sum() / (x**2).sum() == pytest.approx(1 - 2 / math.pi, abs=0.01)


def test_draws_of_scales_are_not_those_of_elements() -> None:
    rng = Rng.from_seed(1)
    for format in (FLOAT32, FLOAT64):
        scale = dithering.SCALE_WORDS // (2 if format == FLOAT64 else 1)
        first, other = (natural_reference.draws(rng, at, 4, format).tolist() for at in (0, scale))
        assert not set(first) & set(other)


@CLASSES
@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
@pytest.mark.parametrize(
    ("levels", "block"), [(1, 0), (2, 8), (3, 16), (7, 0), (12, 64), (31, 0), (100, 32), (127, 0)]
)
def test_every_table_rounds_like_the_reference(
    cls: type[Dithering], p: float, levels: int, block: int, simd: str
) -> None:
    """Every width of codes up to 8 bits, tails, values that are not finite, blocks of zeros."""
    for coder in ("packed", "rans"):
        operator = cls(p, levels, block, coder=coder)
        for n in (1, 33, 100, 3001):
            own = mixed_bits(FLOAT32, n, seed=n, rare=0.01 if n > 100 else 0.0)
            own[40:56] = 0
            frame = fewbits.compress(own.view(np.float32), operator, seed=n, nonfinite="carry")
            wanted = dithered(operator)(own, FLOAT32, Rng.from_seed(n).fork(0))
            found = wire.parse(np.frombuffer(frame, np.uint8), n).sections
            assert tuple(section.tobytes() for section in found) == wanted


@pytest.mark.parametrize("levels", [200, 32_767])
def test_codes_wider_than_a_byte_are_those_of_the_reference(levels: int, simd: str) -> None:
    operator = StandardDithering(2, levels)
    own = mixed_bits(FLOAT32, 5000, seed=1, rare=0.0)
    frame = fewbits.compress(own.view(np.float32), operator, seed=1)
    wanted = dithered(operator)(own, FLOAT32, Rng.from_seed(1).fork(0))
    found = wire.parse(np.frombuffer(frame, np.uint8), 5000).sections
    assert tuple(section.tobytes() for section in found) == wanted


@pytest.mark.parametrize("count", [65_536, 65_537, 200_003])
def test_long_norms_are_summed_in_one_order(count: int, simd: str) -> None:
    x = np.random.default_rng(count).standard_normal(count).astype(np.float32)
    for format in FORMATS:
        own = casts.cast(bits(x), FLOAT32, format)[0]
        for p in (1.0, 2.0, math.inf):
            wanted = dithering.scales(own, format, p, 0).tobytes()
            for threads in (1, 2):
                assert norm(own, format, p, threads).tobytes() == wanted


def test_terms_of_norms_have_every_bit_of_the_reference(simd: str) -> None:
    """Before they are rounded to a scale, which hides the order of a sum nearly always."""
    x = np.random.default_rng(5).standard_normal(10_007).astype(np.float32)
    for number, power in ((1, 1), (2, 2)):
        for size in (8, 100, 4096, 65_536):
            sums, _ = _native_operators.norm_terms(bits(x), FLOAT32, size, number)
            terms = np.abs(x.astype(np.float64)) ** power
            pieces = [terms[start : start + size] for start in range(0, x.size, size)]
            assert sums.tolist() == [dithering.chunk_sum(piece) for piece in pieces]


def test_native_norms_refuse_what_does_not_fit() -> None:
    x = np.zeros(64, np.uint32)
    for size, number, shift in ((64, 4, 0), (0, 1, 0), (64, 1, 1025), (64, 1, -1074)):
        with pytest.raises((RuntimeError, ZeroDivisionError)):
            _native_operators.norm_terms(x, FLOAT32, size, number, shift)
    huge = 2**64 - 8  # with the count it exceeds 64 bits
    assert _native_operators.norm_terms(x, FLOAT32, huge, 1)[0] == 0
