"""The trellis operator: what it promises, what it refuses, how near the limit it comes."""

import math

import numpy as np
import pytest

import fewbits
from fewbits import SpecError
from fewbits.backend import library
from fewbits.operators.trellis import TrellisPaths
from fewbits.reference.formats import BFLOAT16, FLOAT32


def gauss(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


def measured(x: np.ndarray, spec: str) -> tuple[float, float]:
    """Bits a value of the frame, and the error relative to the squared norm."""
    frame = fewbits.compress(x, spec, seed=1)
    y = fewbits.decompress(frame).astype(np.float64)
    return 8 * len(frame) / x.size, float(((y - x) ** 2).sum() / (x.astype(np.float64) ** 2).sum())


@pytest.mark.parametrize(("states", "gap"), [(4, 0.125), (8, 0.11), (16, 0.1)])
@pytest.mark.parametrize("nu", [3.0, 0.8, 0.1, 0.01, 0.001])
def test_frames_are_a_tenth_of_a_bit_from_the_limit(states: int, gap: float, nu: float) -> None:
    """On 2^17 values; the tables cost 0.01 bit of that."""
    bits, error = measured(gauss(1 << 17), f"trellis:nu={nu},scale=least-squares,states={states}")
    low = 0 if 0.005 < nu < 1 else 0.015  # few bits, or large tables
    assert 0 < bits - math.log2(1 / error) / 2 < gap + low


FAMILIES = {
    "gauss": gauss(40_000),
    "heavy": gauss(40_000) ** 5,
    "layers": np.concatenate([gauss(20_000), gauss(20_000) / 100]),
    "sparse": np.where(np.arange(40_000) % 50 == 7, gauss(40_000), 0).astype(np.float32),
    "ramp": np.linspace(-1, 1, 40_000, dtype=np.float32),
}


@pytest.mark.parametrize("factor", [0.0, 1e-3, 30.0])
@pytest.mark.parametrize("columns", [16, 128, 1024])
def test_bits_are_found_though_a_column_differs(columns: int, factor: float) -> None:
    """Places that are a power of two apart would see this column only, or never."""
    x = gauss(1 << 18).reshape(-1, columns).copy()
    x[:, 0] *= factor
    bits, _ = measured(x, "trellis:rounding=subtractive,bits=2")
    assert 1.85 < bits < 2.1


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("how", ["scale=least-squares", "rounding=subtractive"])
def test_bits_are_those_that_were_asked_for(name: str, how: str) -> None:
    """Within what 8192 values say of all, and no more where every step has fewer.

    On a ramp neighbours are alike, which values further apart do not show; of heavy tails 8192
    values see too little. Both are promised to be within a tenth of a bit.
    """
    x, head = FAMILIES[name], 8 * 80 / 40_000 + (0.1 if name in ("ramp", "heavy") else 0)
    for wanted in (1.0, 2.0, 4.5):
        spec = f"trellis:{how},bits={wanted}"
        bits, error = measured(x, spec)
        assert wanted - 0.12 < bits < wanted + 0.06 + head or (bits < wanted and error < 1e-4)
        promised = fewbits.operator(spec).guarantee(x.size)
        assert error <= (promised.alpha or promised.omega)  # type: ignore[operator]


def test_a_rate_is_found_for_many_values_and_for_few() -> None:
    """A promise for all vectors is weaker where 16 bits limit the levels of some."""
    operator = fewbits.operator("trellis:rounding=subtractive,bits=7")
    assert operator.guarantee(1000).omega <= 2 / (4**7 - 1) < operator.guarantee(1 << 22).omega
    bits, _ = measured(gauss(1 << 18), operator.spec)
    assert 6.9 < bits < 7.06
    for count in (0, 1, 2, 31):
        x = gauss(count)
        y = fewbits.decompress(fewbits.compress(x, "trellis:bits=3"))
        assert ((y - x) ** 2).sum() <= 8 / 4**3 * (x**2).sum()


@pytest.mark.parametrize("nu", [1.0, 3.0, 10.0, 1e6])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_coarse_steps_keep_a_sixteenth_of_the_squares(nu: float, dtype: str) -> None:
    """Levels of small values would all be 0; the promise is 15/16."""
    spec = f"trellis:nu={nu},scale=least-squares"
    promised = fewbits.operator(spec).guarantee(300).alpha
    assert promised == 15 / 16
    ones = np.ones(300)
    alone = np.where(np.arange(300) == 7, 1.0, 0.0)
    for x in (ones, ones * np.sign(gauss(300)), gauss(300), alone, alone + ones / 100):
        own = x.astype(dtype)
        _, error = measured(own, spec)
        assert error <= promised


@pytest.mark.parametrize("nu", [4.0, 1.0, 0.1])
def test_unbiased_frames_are_nearer_than_those_of_sparse_dithering(nu: float) -> None:
    x = gauss(1 << 17)
    gaps = []
    for spec in (
        f"trellis:nu={nu},rounding=subtractive",
        f"sparse-dithering:nu={nu},rounding=subtractive",
    ):
        bits, error = measured(x, spec)
        gaps.append(bits - math.log2(1 + 1 / error) / 2)
    assert 0 < gaps[0] < gaps[1] - 0.08


@pytest.mark.parametrize("rounding", ["nearest", "subtractive"])
def test_the_error_is_below_what_is_promised(rounding: str) -> None:
    for nu in (0.9, 0.2, 0.01):
        for x in (gauss(5000), gauss(5000) ** 5, np.ones(300, np.float32), gauss(1)):
            _, error = measured(x, f"trellis:nu={nu},rounding={rounding}")
            assert error <= (nu if rounding == "nearest" or x.size > 1 else 4 * nu)


def odd_nu(steps: int) -> float:
    """A nu for which one value is so many steps; the factor that a step has depends on it a bit."""
    nu = 1 / steps**2
    for _ in range(5):
        nu = (1 / (steps * TrellisPaths(nu).paths(1, FLOAT32).shrink)) ** 2
    return nu


@pytest.mark.parametrize("steps", [3, 9, 101])
def test_the_promise_is_tight_for_short_vectors(steps: int) -> None:
    """Up to the factor 31/32: the first levels are even, so odd values are a step away."""
    nu = odd_nu(steps)
    for count, states in ((1, 4), (1, 8), (2, 8), (2, 16)):
        spec = f"trellis:nu={nu!r},states={states}"
        _, error = measured(np.ones(count, np.float32), spec)
        assert error == pytest.approx((31 / 32) ** 2 * nu, rel=1e-3)
        promised = fewbits.operator(spec).guarantee(count).alpha
        assert promised is not None
        assert error <= promised <= 1.07 * error


def test_the_promise_of_coarse_steps_is_tight() -> None:
    """A value that has the smallest share of the squares that does, and no level beside it."""
    for share, lowest in ((0.0635, 0.93), (0.06, 0.0)):
        x = np.full(300, np.sqrt((1 - share) / 299)) * np.sign(gauss(300, 3))
        x[-1] = np.sqrt(share)
        _, error = measured(x.astype(np.float32), "trellis:nu=5,scale=least-squares")
        assert lowest < error < 15 / 16
    assert error < 0.2  # of the last, whose levels were found again


# ---- bias ----

COUNT, DRAWS = 128, 10_000
VECTORS = {
    "constant": np.full(COUNT, 0.37),
    "ramp": np.linspace(-2, 2, COUNT),
    "sparse": np.where(np.arange(COUNT) % 9 == 4, 1.3, 0.0),
    "heavy": np.random.default_rng(2).standard_t(1.5, COUNT),
}


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("nu", [4.0, 0.2])
def test_frames_are_unbiased(name: str, nu: float) -> None:
    """The squared mean error of ten thousand frames is what chance makes of it.

    Were the operator unbiased, the squared means over their variances would add up to the number of
    values, with a variance of twice that.
    """
    x = VECTORS[name].astype(np.float32)
    total, squares = np.zeros(COUNT), np.zeros(COUNT)
    for seed in range(DRAWS):
        frame = fewbits.compress(x, f"trellis:nu={nu},rounding=subtractive", seed=seed)
        error = fewbits.decompress(frame).astype(np.float64) - x
        total += error
        squares += error**2
    chance = (total / DRAWS) ** 2 / (squares / DRAWS**2)
    assert abs(chance.sum() - COUNT) < 5 * math.sqrt(2 * COUNT)


@pytest.mark.parametrize("bits", [1, 4])
def test_a_step_that_a_rate_asks_for_knows_nothing_of_the_dither(bits: int) -> None:
    """Few equal values, whose rate depends on their dither alone: their mean tells the bias."""
    x = np.ones(3, np.float32)
    operator = fewbits.operator(f"trellis:rounding=subtractive,bits={bits}")
    errors = np.array([
        fewbits.decompress(fewbits.compress(x, operator, seed=seed)).mean() - 1.0
        for seed in range(20_000)
    ])  # fmt: skip
    assert errors.std() > 0
    assert abs(errors.mean()) < 5 * errors.std() / math.sqrt(errors.size)


@pytest.mark.parametrize("before", ["hadamard", "top-k:fraction=0.3", "rand-k:fraction=0.5"])
def test_stages_stand_before_it(before: str) -> None:
    x = gauss(5000)
    for own in ("trellis", "trellis:nu=0.5,rounding=subtractive"):
        y = fewbits.decompress(fewbits.compress(x, f"{before}|{own}", seed=2))
        assert np.corrcoef(x, y)[0, 1] > 0.5


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("trellis:nu=0", "nu must be above 0"),
        ("trellis:nu=1", "nu must be below 1 for rounding=nearest"),
        ("trellis:bits=1", "bits must be from 1.5 to 7 for rounding=nearest,scale=norm"),
        ("trellis:scale=least-squares,bits=0.05", "bits must be from 0.25 to 7"),
        ("trellis:rounding=subtractive,bits=0.4", "bits must be from 0.5 to 7"),
        ("trellis:nu=0.2,bits=3", "not both"),
        ("trellis:states=5", "states must be 4, 8 or 16, got '5'"),
        (
            "trellis:rounding=subtractive,scale=least-squares",
            "would make rounding=subtractive biased",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(spec: str, text: str) -> None:
    with pytest.raises(SpecError, match=text):
        fewbits.operator(spec)


def test_steps_that_are_too_fine_are_refused() -> None:
    with pytest.raises(SpecError, match="levels of more than 16 bits"):
        fewbits.compress(gauss(5000), "trellis:nu=1e-7")
    with pytest.raises(SpecError, match="too fine for bfloat16"):
        fewbits.operator("trellis:nu=1e-6").layout(10, BFLOAT16)


@pytest.mark.parametrize(
    "spec",
    [
        "trellis:rounding=subtractive,bits=2",
        "trellis:scale=least-squares,bits=0.7",
        "trellis:nu=3,scale=least-squares",  # of the constant vector levels are found again
    ],
)
def test_threads_give_the_same_bytes(spec: str) -> None:
    x = gauss((1 << 19) + 70)
    bad = np.where(np.arange(x.size) == 400_000, np.inf, x).astype(np.float32)
    for own in (x, np.ones_like(x), bad):
        frames = [
            fewbits.compress(own, spec, seed=1, threads=threads, nonfinite="carry")
            for threads in (1, 2)
        ]
        assert frames[0] == frames[1]
        values = [fewbits.decompress(frames[0], threads=threads).tobytes() for threads in (1, 2)]
        assert values[0] == values[1]


def test_levels_without_a_scale_are_refused(simd: str) -> None:
    """No encoder writes them; a frame from elsewhere may."""
    frame = fewbits.compress(gauss(200), "trellis:nu=0.2")
    sent = fewbits.inspect(frame).sections["scales"]
    assert sent == 4
    start = len(frame) - 4 - sum(fewbits.inspect(frame).sections.values())
    body = frame[:start] + bytes(4) + frame[start + 4 : -4]
    sealed = body + library.crc32c(np.frombuffer(body, np.uint8)).to_bytes(4, "little")
    with pytest.raises(fewbits.DecodeError, match="without a scale"):
        fewbits.decompress(sealed)
