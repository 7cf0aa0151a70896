"""Sparse dithering against its theory.

Means over N draws are compared up to four standard errors. Every bound is also approached from
below somewhere, so that neither the identity nor the zero map could pass.
"""

import math
import warnings

import numpy as np
import pytest

import fewbits
from cases import array, exact, sealed
from fewbits import DecodeError, Rng, SaturationWarning, SpecError
from fewbits.backend.kinds import grid as grid_rows
from fewbits.coding import enumerative
from fewbits.core.vector import Vector, from_array
from fewbits.operators.sparse_dithering import SparseDithering
from fewbits.reference import grid as steps
from fewbits.reference.blocks import Blocks
from fewbits.reference.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, FORMATS, Format
from fewbits.reference.grid_scales import Grid, quantised
from fewbits.wire import frame as wire
from fewbits.wire.frame import Header

formats = pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
ROUNDINGS = ("nearest", "stochastic", "subtractive")


def sent(x: np.ndarray, own: SparseDithering, seed: int = 1) -> np.ndarray:
    return exact(fewbits.decompress(fewbits.compress(x, own, seed=seed)))


def error(x: np.ndarray, y: np.ndarray) -> float:
    return float(((y - exact(x)) ** 2).sum() / (exact(x) ** 2).sum())


def codes_of(x: np.ndarray, own: SparseDithering, seed: int = 1) -> np.ndarray:
    vector = from_array(x)[0]
    how = Grid(*own.kernel(vector.count, vector.format).numbers)
    return quantised(vector.bits, vector.format, how, Rng.from_seed(seed)).codes


def written_bits(codes: np.ndarray) -> int:
    scale = np.array([FLOAT32.bias << FLOAT32.mantissa], np.uint64)
    own = enumerative.Stream(scale, codes.astype(np.int32))
    return enumerative.encode(own, codes.size, FLOAT32).size


def entropy(codes: np.ndarray) -> float:
    shares = np.unique(codes, return_counts=True)[1] / codes.size
    return float(-(shares * np.log2(shares)).sum())


def at_the_thresholds(source: np.random.Generator, d: int, nu: float) -> np.ndarray:
    """Values just above the middle between two levels, where codes cost most for their norm."""
    codes = source.choice(4, d, p=source.dirichlet([1, 3, 3, 1]))
    x = np.maximum(codes - 0.499, 0)
    room = d / (4 * nu)
    for i in source.permutation(d):
        if (x**2).sum() <= room:
            break
        x[i] = 0
    x[source.integers(d)] += math.sqrt(max(room - (x**2).sum(), 0))
    return x * source.choice([-1, 1], d) * 10.0 ** source.integers(-5, 5)


def families(source: np.random.Generator, d: int, nu: float) -> np.ndarray:
    """One vector of a random kind."""
    kind = source.integers(7)
    if kind < 3:
        return at_the_thresholds(source, d, nu)
    x = source.standard_normal(d)
    if kind == 3:
        return x
    if kind == 4:
        return x / source.random(d)  # heavy tails
    if kind == 5:
        return np.sign(x) * (source.random(d) < source.random())  # flat, some zeros
    return x * (np.arange(d) == source.integers(d))


# ---- the bounds of the paper ----


def check_the_papers_bounds(trials: int, seed: int) -> None:
    source = np.random.default_rng(seed)
    own = SparseDithering(nu=0.1, coder="paper")
    worst = largest = 0.0
    for trial in range(trials):
        d = int(source.integers(3, 40 if trial % 4 else 900))
        x = families(source, d, 0.1).astype(np.float32)
        if not x.any():
            continue
        codes = codes_of(x, own)
        bound = math.log2(d) + 3.35 * d
        assert enumerative.ideal_bits(codes) <= 30 + bound
        assert written_bits(codes) <= 33 + bound
        section = fewbits.inspect(fewbits.compress(x, own)).sections["stream"]
        assert section == -(-written_bits(codes) // 8)
        found = error(x, sent(x, own))
        assert found <= 0.1
        worst = max(worst, found)
        largest = max(largest, (enumerative.ideal_bits(codes) - 31 - math.log2(d)) / d)
    assert worst > 0.07, "no vector came near the promised error"
    assert largest > 3.1, "no vector came near the promised bits"


def test_nearest_keeps_the_papers_bounds() -> None:
    check_the_papers_bounds(400, seed=1)


@pytest.mark.soak
def test_nearest_keeps_the_papers_bounds_on_ten_thousand_vectors() -> None:
    check_the_papers_bounds(10_000, seed=2)


@pytest.mark.parametrize("omega", [0.1, 0.25, 1.0])
@pytest.mark.parametrize("kind", ["gauss", "flat", "half", "one"])
def test_stochastic_keeps_the_papers_mean_bits_and_variance(omega: float, kind: str) -> None:
    d, trials = 512, 100
    source = np.random.default_rng(5)
    x = source.standard_normal(d)
    x = {
        "gauss": x,
        "flat": np.sign(x),
        "half": np.sign(x) * (np.arange(d) % 2),
        "one": (np.arange(d) == 7) * 1.3,
    }[kind].astype(np.float32)
    own = SparseDithering(nu=omega, rounding="stochastic", coder="paper")
    ideal = [enumerative.ideal_bits(codes_of(x, own, seed)) for seed in range(trials)]
    slope = math.log2(3) + 1 / (2 * math.sqrt(omega))
    assert np.mean(ideal) <= 30 + math.log2(d) + slope * d
    errors = np.array([error(x, sent(x, own, seed)) for seed in range(trials)])
    assert errors.mean() <= omega + 4 * errors.std() / math.sqrt(trials)
    if kind == "gauss":
        assert np.mean(ideal) > 0.8 * slope * d


def test_the_merit_at_a_quarter_holds_on_the_worst_case_family() -> None:
    """32 / ((1 + omega) bits) is 9.9 for the paper's bound without scale and counts.

    Vectors of one magnitude and some zeros, and magnitudes spread around one.
    """
    d, own = 4096, SparseDithering(nu=0.25, rounding="stochastic", coder="paper")
    source = np.random.default_rng(6)
    merits = []
    for share in (1.0, 0.8, 0.67, 0.5, 0.25, 0.1):
        x = source.choice([-1.0, 1.0], d) * (source.random(d) < share)
        for width in (0.0, 1.0, 2.0):
            own_x = (x * (1 + width * (source.random(d) - 0.5))).astype(np.float32)
            bits = [written_bits(codes_of(own_x, own, seed)) for seed in range(3)]
            merits.append(32 / (1.25 * np.mean(bits) / d))
    assert min(merits) >= 9.6
    assert min(merits) < 11, "the family is not the worst case"


def test_the_sharper_omega_is_reached_on_flat_vectors() -> None:
    x = np.full(200_000, 1.25, np.float32)
    for nu, omega in ((1.0, 1.0), (4.0, 3.0), (9.0, 5.0)):
        own = SparseDithering(nu=nu, rounding="stochastic")
        assert own.guarantee(x.size).omega == pytest.approx(omega)
        assert error(x, sent(x, own)) == pytest.approx(omega, rel=0.02)


# ---- errors ----


@formats
@pytest.mark.parametrize("nu", [1 / 9, 1 / 25, 1.0])
@pytest.mark.parametrize("scale", ["norm", "least-squares", "matched"])
def test_flat_vectors_never_exceed_the_sure_bound(format: Format, nu: float, scale: str) -> None:
    own = SparseDithering(nu=nu, scale=scale)
    for d in (1, 2, 3, 64, 257):
        promise = own.guarantee(d, format)
        for value in (1.0, 1.3, 0.7, 1e-3, 3e4):
            x = array(np.full(d, value), format)
            assert error(x, sent(x, own)) <= promise.alpha


def test_nearest_reaches_its_bound_where_all_values_lie_half_way() -> None:
    x = np.full(64, 1.25, np.float32)
    for nu in (1 / 9, 1 / 25, 1.0):
        found = error(x, sent(x, SparseDithering(nu=nu)))
        assert nu * (1 - 1e-5) <= found <= nu


@formats
@pytest.mark.parametrize("nu", [0.01, 0.1, 0.5, 2.0, 30.0])
@pytest.mark.parametrize("scale", ["norm", "least-squares", "matched"])
def test_the_sure_bound_holds_on_vectors_made_to_break_it(
    format: Format, nu: float, scale: str
) -> None:
    source = np.random.default_rng(7)
    own = SparseDithering(nu=nu, scale=scale)
    for _ in range(60):
        d = int(source.integers(1, 50))
        x = families(source, d, nu)
        peak = np.abs(x).max()
        x = array(x / peak if peak else x, format)
        if exact(x).any():
            assert error(x, sent(x, own)) <= own.guarantee(d, format).alpha


def test_least_squares_is_never_worse_and_a_quarter_better_at_one() -> None:
    source = np.random.default_rng(8)
    x = source.standard_normal(100_000).astype(np.float32)
    for nu in (0.05, 0.3, 1.0, 3.0):
        plain, fitted = (
            error(x, sent(x, SparseDithering(nu=nu, scale=scale)))
            for scale in ("norm", "least-squares")
        )
        assert fitted <= plain * (1 + 1e-9)
        assert nu != 1.0 or fitted < 0.78 * plain
    for _ in range(50):
        x = families(source, 20, 1.0).astype(np.float32)
        if x.any():
            plain, fitted = (
                sent(x, SparseDithering(nu=1.0, scale=s)) for s in ("norm", "least-squares")
            )
            assert error(x, fitted) <= error(x, plain) * (1 + 1e-6) + 1e-12


@formats
@pytest.mark.parametrize("block", [0, 100])
def test_a_matched_scale_leaves_no_error_along_the_vector(format: Format, block: int) -> None:
    source = np.random.default_rng(18)
    x = array(source.standard_normal(1000), format)
    for nu in (0.1, 1.0, 9.0, 200.0):
        best, matched = (
            exact(sent(x, SparseDithering(nu=nu, scale=scale, block=block)))
            for scale in ("least-squares", "matched")
        )
        own = exact(x)
        for at in range(0, 1000, block or 1000):
            part = slice(at, at + (block or 1000))
            length = own[part] @ own[part]
            close = pytest.approx(1, rel=4 * 2.0 ** -min(format.mantissa, 22))
            assert matched[part] @ own[part] / length == close
            lost = float((best[part] - own[part]) @ (best[part] - own[part]) / length)
            found = float((matched[part] - own[part]) @ (matched[part] - own[part]) / length)
            assert found == pytest.approx(lost / (1 - lost), rel=0.05)


@formats
@pytest.mark.parametrize("rounding", ["stochastic", "subtractive"])
def test_values_that_may_be_cut_are_beyond_the_promise_and_counted(
    format: Format, rounding: str
) -> None:
    own = SparseDithering(rounding=rounding)
    high = own.guarantee(64, format).high
    assert 0.5 < high / format.largest_value < 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        below = exact(sent(array(np.full(64, 0.99 * high), format), own))
    assert below.max() < format.largest_value
    beyond = array(np.where(np.arange(64) < 7, format.largest_value, 1.0), format)
    with pytest.warns(SaturationWarning, match="7 of 64"):
        sent(beyond, own)


def test_large_nu_sends_the_largest_value_at_least() -> None:
    x = np.array([0.5, -1.0, 0.75, 1.0, 0.1], np.float32)
    for scale in ("norm", "least-squares"):
        y = sent(x, SparseDithering(nu=50.0, scale=scale))
        assert y.tolist() == [0, -1, 0, 0, 0]
    # In blocks, for each block.
    y = sent(np.concatenate([x, 0 * x, x[:2]]), SparseDithering(nu=50.0, block=5))
    assert y.tolist() == [0, -1, 0, 0, 0] + [0] * 5 + [0, -1]


def test_stochastic_draws_the_upper_neighbour_with_the_fraction_as_probability() -> None:
    d, trials = 32, 4000
    x = np.linspace(0.05, 1, d).astype(np.float32)
    own = SparseDithering(nu=0.2, rounding="stochastic")
    step = 2 * math.sqrt(0.2 / d) * np.linalg.norm(x.astype(np.float64))
    t = x / step
    draws = np.array([codes_of(x, own, seed) for seed in range(trials)])
    assert (np.abs(draws - t) < 1 + 1e-6).all()
    up = (draws > np.floor(t)).mean(axis=0)
    fraction = t - np.floor(t)
    assert (np.abs(up - fraction) <= 4.5 * np.sqrt(fraction * (1 - fraction) / trials) + 1e-5).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])  # native code, and the reference
def test_the_error_of_subtractive_dither_is_uniform_whatever_the_input(dtype: type) -> None:
    d = 100_000
    own = SparseDithering(nu=0.5, rounding="subtractive")
    source = np.random.default_rng(9)
    inputs = {
        "flat": np.ones(d),
        "gauss": source.standard_normal(d),
        "sparse": source.standard_normal(d) * (source.random(d) < 0.01),
    }
    for values in inputs.values():
        x = values.astype(dtype)
        step = 2 * math.sqrt(0.5 / d) * np.linalg.norm(exact(x))
        off = np.sort((sent(x, own) - exact(x)) / step)
        # Kolmogorov: 2.2 / sqrt(d) is passed with probability 1e-4.
        assert np.abs(off + 0.5 - np.arange(d) / d).max() < 2.2 / math.sqrt(d) + 1e-5
        assert np.abs(off).max() <= 0.5 + 1e-5
        # The squared error of a uniform number has mean 1/12, standard deviation 1/sqrt(180).
        assert abs((off**2).mean() - 1 / 12) < 4 / math.sqrt(180 * d)
        assert abs(off @ exact(x)) <= 4 * np.linalg.norm(exact(x)) / math.sqrt(12)
    flat, gauss = (inputs[name].astype(dtype) for name in ("flat", "gauss"))
    stochastic = SparseDithering(nu=0.5, rounding="stochastic")
    for x in (flat, gauss):
        assert error(x, sent(x, stochastic)) > 1.9 * error(x, sent(x, own))


def test_the_dither_is_the_frames_own_and_never_the_users_seed() -> None:
    x = np.ones(100, np.float32)
    own = SparseDithering(rounding="subtractive")
    frame = fewbits.compress(x, own, seed=12)
    key = wire.parse(np.frombuffer(frame, np.uint8), 100).sections[2].tobytes()
    assert len(key) == 16
    assert key not in (Rng.from_seed(12).key, Rng.from_seed(12).fork(0).key)
    assert (
        key
        != wire.parse(np.frombuffer(fewbits.compress(x, own, seed=13), np.uint8), 100)
        .sections[2]
        .tobytes()
    )


# ---- bits ----


@pytest.fixture(scope="module")
def gauss() -> np.ndarray:
    return np.random.default_rng(10).standard_normal(1_000_000).astype(np.float32)


@pytest.mark.parametrize("nu", [0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 7.0, 8.0])
def test_rans_is_near_the_entropy_and_below_the_papers_stream(gauss: np.ndarray, nu: float) -> None:
    own = SparseDithering(nu=nu)
    bits = 8 * len(fewbits.compress(gauss, own)) / gauss.size
    codes = codes_of(gauss, own)
    assert entropy(codes) <= bits <= entropy(codes) + 0.03
    zeros = np.count_nonzero(codes == 0)
    places = (
        math.lgamma(codes.size + 1) - math.lgamma(zeros + 1) - math.lgamma(codes.size - zeros + 1)
    ) / math.log(2)
    ideal = 31 + math.log2(codes.size) + places + codes.size - zeros + np.abs(codes).sum()
    assert bits < ideal / codes.size


@pytest.mark.parametrize(("nu", "near"), [(0.985, 0.25), (0.33, 0.1), (0.157, 0.05), (0.03, 0.01)])
def test_frames_are_near_the_rate_of_a_gaussian(gauss: np.ndarray, nu: float, near: float) -> None:
    frame = fewbits.compress(gauss, SparseDithering(nu=nu, scale="least-squares"))
    found = error(gauss, exact(fewbits.decompress(frame)))
    assert found == pytest.approx(near, rel=0.05)
    bits = 8 * len(frame) / gauss.size
    assert 0 < bits - 0.5 * math.log2(1 / found) <= 0.28


# ---- the fixed order of sums ----


@pytest.mark.parametrize("block", [0, 1, 31, 32, 33, 500, 65_536, 70_001])
def test_sums_of_blocks_do_not_depend_on_threads_or_on_other_blocks(block: int) -> None:
    x = np.random.default_rng(block).standard_normal(600_000)
    blocks = Blocks.of(x.size, block)
    one, two = (
        steps.scan(x.view(np.uint64), FLOAT64, blocks, grid_rows.tools(n)).squares for n in (1, 2)
    )
    assert np.array_equal(one, two)
    last = x[(blocks.number - 1) * blocks.size :]
    alone = steps.scan(last.view(np.uint64), FLOAT64, Blocks.of(last.size, 0))
    whole = np.ldexp(one[-1], 2 * steps.scan(x.view(np.uint64), FLOAT64, blocks).exponents[-1])
    assert np.ldexp(alone.squares[0], 2 * alone.exponents[0]) == whole
    assert whole == pytest.approx((last**2).sum(), rel=1e-12)


def test_blocks_are_compressed_as_vectors_of_their_own() -> None:
    x = np.random.default_rng(1).standard_normal(1000).astype(np.float32) * np.repeat(
        [1, 1e-6], 500
    )
    whole = sent(x, SparseDithering())
    assert not whole[500:].any()
    own = sent(x, SparseDithering(block=500))
    parts = np.concatenate([sent(part, SparseDithering()) for part in (x[:500], x[500:])])
    assert np.array_equal(own, parts)


@formats
def test_huge_and_tiny_vectors_keep_their_relative_error(format: Format) -> None:
    source = np.random.default_rng(2)
    own = SparseDithering()
    for scale in (format.largest_power_value / 16, 2**20 * format.smallest_normal):
        x = array(np.clip(source.standard_normal(500), -3, 3) * scale, format)
        assert 0.02 < error(array(exact(x) / scale, FLOAT64), sent(x, own) / scale) < 0.05


# ---- what is refused ----


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("nu=0", "nu must be above 0"),
        ("nu=-1", "nu must be above 0"),
        ("block=-1", "block must be 0"),
        (f"block={2**63}", "block must be 0"),
        ("scale=least-squares,rounding=stochastic", "rounding=nearest only"),
        ("scale=least-squares,rounding=subtractive", "rounding=nearest only"),
        ("scale=matched,rounding=stochastic", "rounding=nearest only"),
        ("coder=paper,rounding=subtractive", "use coder=rans"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(spec: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        fewbits.operator(f"sparse-dithering:{spec}")


def test_sizes_that_a_parameter_cannot_serve_are_refused_with_a_way_out() -> None:
    with pytest.raises(SpecError, match=r"at most 4096 values, got 4097: use coder=rans"):
        fewbits.compress(np.ones(4097, np.float32), "sparse-dithering:coder=paper")
    fewbits.compress(np.ones(4097, np.float32), "sparse-dithering:coder=paper,block=4096")
    fine = SparseDithering(nu=1e-6)
    fine.layout(10_000, FLOAT32)
    with pytest.raises(SpecError, match=r"16 bits for 100000000 values.* block=\d+$") as refused:
        fine.layout(100_000_000, FLOAT32)
    block = int(str(refused.value).rpartition("=")[2])
    SparseDithering(nu=1e-6, block=block).layout(100_000_000, FLOAT32)
    with pytest.raises(SpecError, match="16 bits"):
        SparseDithering(nu=1e-6, block=4 * block).layout(100_000_000, FLOAT32)
    with pytest.raises(SpecError, match="too fine for bfloat16"):
        fine.layout(10, BFLOAT16)
    SparseDithering(nu=1e-4).layout(10, FLOAT16)


def frame_of(own: SparseDithering, count: int, *sections: bytes) -> bytes:
    lengths = tuple(map(len, sections))
    return sealed(Header(FLOAT32, (count,), (own.stage,), lengths).encode() + b"".join(sections))


def test_frames_that_encode_cannot_write_are_refused() -> None:
    own = SparseDithering()
    one, zero, nan = (np.float32(v).tobytes() for v in (1, 0, np.nan))
    # Coded blocks of four ones with their signs, and of four zeros.
    codes, zeros = b"\x04\0\0\x01\x01\0\0", b"\x03\0\0\x01\0\0"
    assert fewbits.decompress(frame_of(own, 4, one, codes)).tolist() == [1, 1, 1, 1]
    assert fewbits.decompress(frame_of(own, 4, zero, zeros)).tolist() == [0] * 4
    for scale in (-1, -0.0, np.inf, -np.inf, -np.nan):
        with pytest.raises(DecodeError, match="a scale is negative or infinite"):
            fewbits.decompress(frame_of(own, 4, np.float32(scale).tobytes(), codes))
    other = (FLOAT32.quiet_nan + 1).to_bytes(4, "little")
    with pytest.raises(DecodeError, match="another NaN than the quiet one"):
        fewbits.decompress(frame_of(own, 4, other, zeros))
    for scale in (zero, nan):
        with pytest.raises(DecodeError, match="without a scale has codes"):
            fewbits.decompress(frame_of(own, 4, scale, codes))
    with pytest.raises(DecodeError, match="a block has a scale and only zeros"):
        fewbits.decompress(frame_of(own, 4, one, zeros))
    dither = SparseDithering(rounding="subtractive")
    assert np.abs(fewbits.decompress(frame_of(dither, 4, one, zeros, bytes(16)))).max() <= 0.5


def test_a_header_whose_parameters_do_not_fit_its_size_is_refused_as_bytes() -> None:
    frame = frame_of(SparseDithering(coder="paper"), 5000, bytes(100))
    with pytest.raises(DecodeError, match="the header's parameters make no sense"):
        fewbits.decompress(frame)
    with pytest.raises(DecodeError, match="the header's parameters make no sense"):
        fewbits.decompress(frame_of(SparseDithering(nu=1e-12), 5000, bytes(4), bytes(100)))


def test_results_beyond_the_largest_number_become_it() -> None:
    own = SparseDithering(nu=0.9, rounding="stochastic")
    for format in FORMATS:
        bits = np.full(50, format.infinity - 1, format.bits)
        out = Vector(np.empty(50, format.bits), format)
        with pytest.warns(SaturationWarning, match="50 of 50"):
            frame = fewbits.compress(bits.view(array([], format).dtype), own, seed=1)
        own.decode(wire.parse(np.frombuffer(frame, np.uint8), 50).sections, out)
        assert (out.bits < format.infinity).all()
        assert (out.bits == format.infinity - 1).any()
