"""Spherical compression against its theory: the cap, the index, the scales, the end of a search."""

import hashlib
import math
import warnings

import numpy as np
import pytest

import fewbits
import native_tables as native
from cases import DTYPES, array, exact
from fewbits import DecodeError, Rng, SaturationWarning, SpecError
from fewbits.backend import coders
from fewbits.coding import rice
from fewbits.core.composition import Composed
from fewbits.core.vector import Vector
from fewbits.families import caps
from fewbits.operators import spherical
from fewbits.operators.hadamard import Hadamard
from fewbits.operators.spherical import Spherical
from fewbits.reference import directions as kernel
from fewbits.reference.formats import FLOAT32, FORMATS, Format
from fewbits.reference.spherical import SphericalCodes
from fewbits.wire import frame as wire

# alpha, block, -log2 P, and of `strict` and `mmse` the mean error, of `unbiased` omega.
NINE = (
    (0.5, 8, 5.92, 0.402, 0.398, 0.660),
    (0.5, 16, 10.38, 0.447, 0.445, 0.802),
    (0.5, 24, 14.66, 0.461, 0.460, 0.854),
    (0.25, 8, 9.62, 0.198, 0.197, 0.245),
    (0.25, 10, 11.78, 0.206, 0.206, 0.259),
    (0.2, 8, 10.78, 0.156, 0.155, 0.184),
    (0.1, 6, 10.81, 0.073, 0.073, 0.078),
    (0.8, 24, 6.32, 0.747, 0.744, 2.91),
    (0.9, 32, 4.78, 0.859, 0.855, 5.91),
)
nine = pytest.mark.parametrize("row", NINE, ids=lambda row: f"{row[0]}-{row[1]}")
BLOCKS = 10_240


def gaussian(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


def as_vector(x: np.ndarray, format: Format = FLOAT32) -> Vector:
    return Vector(np.ascontiguousarray(x).view(format.bits), format)


def block_errors(x: np.ndarray, y: np.ndarray, size: int) -> np.ndarray:
    """The relative squared error of every block."""
    before, after = exact(x).reshape(-1, size), exact(y).reshape(-1, size)
    return ((after - before) ** 2).sum(axis=1) / (before**2).sum(axis=1)


def searched(own: Spherical, x: np.ndarray, seed: int = 1) -> SphericalCodes:
    rng = Rng.from_seed(seed).fork(0)
    how, bits = own.sphere(x.size, FLOAT32), as_vector(x).bits
    return native.spherical_codes(bits, FLOAT32, how, rng)


def integral(power: int, upper: float) -> float:
    """Of a power of the sine from 0 on, by Gauss' rule."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    angles = upper / 2 * (nodes + 1)
    return float(upper / 2 * (weights * np.sin(angles) ** power).sum())


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("size", [2, 3, 4, 5, 16, 33, 100])
def test_caps_have_their_share_and_their_mean(alpha: float, size: int) -> None:
    angle = math.asin(math.sqrt(alpha))
    part, whole = integral(size - 2, angle), integral(size - 2, math.pi)
    assert caps.probability(alpha, size) == pytest.approx(part / whole, rel=1e-9)
    mean = math.sin(angle) ** (size - 1) / (size - 1) / part
    assert caps.mean_cosine(alpha, size) == pytest.approx(mean, rel=1e-9)


def test_one_value_has_two_directions() -> None:
    assert (caps.probability(0.3, 1), caps.mean_cosine(0.3, 1)) == (0.5, 1.0)
    assert caps.probability(0.01, 1024) == 0.0
    assert caps.rice_parameter(0.0, 22) is None


@nine
def test_caps_are_those_of_the_paper(row: tuple[float, ...]) -> None:
    alpha, size, bits, strict, mmse, omega = row
    mean = caps.mean_cosine(alpha, int(size))
    assert -math.log2(caps.probability(alpha, int(size))) == pytest.approx(bits, abs=0.006)
    # Up to the noise of the table's own measurement.
    assert 2 - alpha - 2 * math.sqrt(1 - alpha) * mean == pytest.approx(strict, abs=0.0025)
    assert 1 - mean**2 == pytest.approx(mmse, abs=0.0025)
    assert 1 / mean**2 - 1 == pytest.approx(omega, rel=0.01)


def test_the_rice_parameter_is_the_best_and_its_excess_small() -> None:
    for chance in 0.49 * 2.0 ** -np.linspace(0, 21, 400):
        parameter = caps.rice_parameter(float(chance), 22)
        lengths = [caps.rice_bits(float(chance), other) for other in range(26)]
        assert lengths[parameter] == min(lengths)
        assert 0 < lengths[parameter] + math.log2(chance) <= 1.5635
    draws = np.random.default_rng(1).geometric(0.003, 200_000) - 1
    parameter = caps.rice_parameter(0.003, 22)
    measured = (parameter + 1 + (draws >> parameter)).mean()
    assert measured == pytest.approx(caps.rice_bits(0.003, parameter), abs=0.02)


def test_the_table_of_normal_numbers_is_fixed() -> None:
    table = kernel.normal_table().astype(np.int64)
    digest = hashlib.sha256(table.astype("<i2").tobytes()).hexdigest()
    assert digest == "045d5118206ae54a01b1ac8cbb2c4d02f724209c9ef11afaa372a57089524101"
    assert (table == -table[::-1]).all()
    assert (table % 2 == 1).all()
    assert (np.diff(table) >= 0).all()
    z = table / 256
    assert (z**2).mean() == pytest.approx(1, abs=3e-4)
    assert (z**4).mean() / (z**2).mean() ** 2 == pytest.approx(3, abs=5e-3)


@nine
def test_indices_are_near_the_lower_bound_and_errors_below_alpha(row: tuple[float, ...]) -> None:
    """The length of a Rice code has a standard deviation below 2 bits: 0.02 for the mean.

    Geometric numbers take at least 1.44 bits more than the bound.
    """
    alpha, size = row[0], int(row[1])
    own = Spherical(alpha, size)
    x = gaussian(BLOCKS * size, seed=size)
    sent = searched(own, x)
    parameter = caps.rice_parameter(caps.probability(alpha, size), 22)
    bits = (parameter + 1 + (sent.indices >> parameter)).mean()
    excess = bits + math.log2(caps.probability(alpha, size))
    assert 1.44 - 0.1 <= excess <= 1.65
    assert not sent.escapes.any()
    frame = fewbits.compress(x, own, seed=1)
    assert 8 * fewbits.inspect(frame).sections["indices"] <= bits * BLOCKS + 8
    errors = block_errors(x, fewbits.decompress(frame), size)
    assert errors.max() <= alpha
    assert errors.max() >= 0.99 * alpha  # the rim is reached
    assert errors.mean() == pytest.approx(row[3], abs=0.004)


@nine
@pytest.mark.parametrize("scale", ["mmse", "unbiased"])
def test_mean_errors_are_those_of_the_theory(row: tuple[float, ...], scale: str) -> None:
    alpha, size = row[0], int(row[1])
    own = Spherical(alpha, size, scale)
    x = gaussian(BLOCKS * size, seed=size)
    y = fewbits.decompress(fewbits.compress(x, own, seed=2))
    errors = block_errors(x, y, size)
    mean, slack = caps.mean_cosine(alpha, size), 4 * errors.std() / math.sqrt(BLOCKS)
    least = 1 - mean**2 if scale == "mmse" else 1 / mean**2 - 1
    assert least - slack <= errors.mean() <= own.guarantee(x.size).error + slack
    assert own.guarantee(x.size).error == pytest.approx(least, rel=0.05)


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
@pytest.mark.parametrize(("alpha", "size"), [(0.5, 8), (0.05, 4), (0.9, 32)])
def test_the_sure_bound_is_about_rounded_results(format: Format, alpha: float, size: int) -> None:
    """The rounding of results to 16 bits alone would move a block in a few hundred over the rim."""
    x = array(gaussian(20_000 * size, seed=4), format)
    y = fewbits.decompress(fewbits.compress(x, Spherical(alpha, size), seed=4))
    errors = block_errors(x, y, size)
    assert errors.max() <= alpha
    assert errors.max() > 0.8 * alpha


def test_the_three_scales_order_as_they_must() -> None:
    """The same directions: mmse has the least error, strict no error above alpha, mmse has some."""
    x = gaussian(16 * 5000)
    errors = {
        scale: block_errors(x, fewbits.decompress(fewbits.compress(x, own, seed=3)), 16)
        for scale in ("strict", "mmse", "unbiased")
        for own in [Spherical(scale=scale)]
    }
    assert errors["mmse"].mean() < errors["strict"].mean() < errors["unbiased"].mean()
    assert errors["strict"].max() <= 0.5 < errors["mmse"].max()


@pytest.mark.parametrize("shape", ["generic", "flat", "one-hot"])
def test_unbiased_blocks_are_right_on_average(shape: str) -> None:
    """Each coordinate of the mean over many equal blocks: five standard errors of what is seen.

    Radii that were rounded to the nearest, or a scale of 1, would be off by far more.
    """
    block = {
        "generic": np.array([1.0, -0.6, 0.3, 0.11, -0.02, 0.7, 0.0, 0.4]),
        "flat": np.ones(8),
        "one-hot": np.eye(8)[3] * 1.1,
    }[shape]
    x = np.tile(block, 1024 * 300).astype(np.float32)
    y = exact(fewbits.decompress(fewbits.compress(x, Spherical(0.5, 8, "unbiased"), seed=5)))
    groups = y.reshape(300, 1024, 8).mean(axis=1)  # blocks of one group are not independent
    z = (groups.mean(axis=0) - exact(x[:8])) / (groups.std(axis=0) / math.sqrt(299))
    assert np.abs(z).max() < 5
    assert np.linalg.norm(groups.mean(axis=0) - block) < 0.03 * np.linalg.norm(block)


def test_accepted_directions_are_uniform_on_the_cap() -> None:
    """The cosine has the law of a cap, by Kolmogorov and Smirnov; T is geometric."""
    size, alpha, count = 8, 0.5, 40_960
    x = gaussian(size * count, seed=9)
    own = Spherical(alpha, size, "mmse")
    y = exact(fewbits.decompress(fewbits.compress(x, own, seed=4))).reshape(-1, size)
    before = exact(x).reshape(-1, size)
    cosines = (y * before).sum(axis=1) / np.linalg.norm(y, axis=1) / np.linalg.norm(before, axis=1)
    assert cosines.min() >= math.sqrt(1 - alpha) - 1e-7
    sines = np.sort(1 - cosines**2)
    chance = caps.probability(alpha, size)
    law = np.array([caps.probability(min(max(s, 1e-9), 0.99), size) for s in sines[::40]]) / chance
    places = np.arange(sines.size)[::40] / sines.size
    assert np.abs(law - places).max() < 1.95 / math.sqrt(count)  # once in a thousand
    numbers = searched(own, x, seed=4).indices
    for at in (0, 20, 60, 150):
        expected = (1 - chance) ** at
        assert (numbers >= at).mean() == pytest.approx(
            expected, abs=5 * math.sqrt(expected * (1 - expected) / count) + 1e-12
        )


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
def test_unbiased_values_that_may_be_cut_are_beyond_the_promise_and_counted(
    format: Format,
) -> None:
    own = Spherical(scale="unbiased")
    high = own.guarantee(64, format).high
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frames = (
            fewbits.compress(array(np.full(64, 0.99 * high), format), own, seed=seed)
            for seed in range(50)
        )
        most = max(np.abs(exact(fewbits.decompress(frame))).max() for frame in frames)
    assert 0.3 * format.largest_value < most < format.largest_value
    with pytest.warns(SaturationWarning, match="3 of 64"):
        fewbits.compress(array(np.where(np.arange(64) < 3, 2 * high, 1.0), format), own, seed=1)


def test_equal_blocks_get_different_directions() -> None:
    """Within a group by their signs, between groups by the groups' own directions."""
    sent = searched(Spherical(), np.ones(16 * 3000, np.float32))
    assert len(set(sent.indices.tolist())) > 1500
    assert not np.array_equal(sent.indices[:1024], sent.indices[1024:2048])
    stream = Rng.from_seed(1)
    one = kernel.drawn(stream, np.array([0, 1, 0]), np.array([5, 5, 6]), 9)
    assert len({row.tobytes() for row in one}) == 3


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8, 12, 16, 17, 24, 25, 33, 64, 501])
def test_every_table_finds_what_the_reference_finds(size: int, simd: str) -> None:
    alpha = 0.5 if size <= 8 else 0.9 if size <= 64 else 0.985
    rng = Rng.from_seed(size)
    for blocks in (1, 3, 1030 if size < 100 else 9):
        values = np.random.default_rng(blocks).standard_normal((blocks, size))
        need = math.sqrt(1 - alpha) * np.linalg.norm(values, axis=1)
        need[::7] *= 1.02
        need[2::5] = np.inf
        for limit in (8, 64, 1024):
            wanted = kernel.first_in_cap(rng, 4, values, need, limit)
            found = native.search(rng, 4, values, need, math.sqrt(1 - alpha), limit)
            assert np.array_equal(found, wanted)
            assert (wanted[2::5] == kernel.NO_DIRECTION).all()
        assert (wanted >= 0).any()


def test_decoding_is_of_the_same_cost_for_every_index() -> None:
    """The direction of an index is made without those before it."""
    own = Spherical(0.1, 8)
    limit = own._limit(8)
    rng = Rng.from_seed(3)
    drawn = kernel.drawn(rng, np.array([2]), np.array([limit - 1]), 8)
    words = rng.words((2 << 32) + 4 * (limit - 1), 4)
    halves = [half for word in words.tolist() for half in (word & 0xFFFF, word >> 16)]
    assert drawn[0].tolist() == [int(kernel.normal_table()[half]) for half in halves]


@pytest.fixture
def short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """About half of the blocks escape."""
    monkeypatch.setattr(spherical, "QUOTIENTS", 1)


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
@pytest.mark.parametrize(("alpha", "size"), [(0.5, 16), (0.1, 6), (0.95, 60)])
def test_escaped_blocks_keep_the_promise(
    format: Format, alpha: float, size: int, short_search: None
) -> None:
    own = Spherical(alpha, size)
    one_hot = np.eye(size)[np.arange(300) % size].ravel()
    for values in (gaussian(size * 300), one_hot, np.ones(size * 99)):
        x = array(values, format)
        vector, out = as_vector(x, format), Vector(np.zeros(x.size, format.bits), format)
        layout = own.layout(x.size, format)
        parts = tuple(np.empty(section.size, np.uint8) for section in layout)
        tally, sizes = own.encode(vector, Rng.from_seed(6), parts)
        filled = tuple(part[:length] for part, length in zip(parts, sizes, strict=True))
        assert own.decode(filled, out).escaped == tally.escaped
        assert 0.2 < tally.escaped / (x.size / size) < 0.8
        errors = block_errors(x, out.bits.view(DTYPES[format]), size)
        assert errors.max() <= alpha
        assert errors.min() < 0.25 * alpha


def test_escaped_blocks_are_counted_behind_a_stage(short_search: None) -> None:
    own = Composed((Hadamard(16),), Spherical(0.5, 16))
    x = as_vector(array(gaussian(16 * 300), FLOAT32), FLOAT32)
    parts = tuple(np.empty(section.size, np.uint8) for section in own.layout(x.count, FLOAT32))
    tally, sizes = own.encode(x, Rng.from_seed(6), parts)
    filled = tuple(part[:length] for part, length in zip(parts, sizes, strict=True))
    out = Vector(np.zeros(x.count, np.uint32), FLOAT32)
    assert own.decode(filled, out).escaped == tally.escaped
    assert 0.2 < tally.escaped / 300 < 0.8


def test_escaped_blocks_are_unbiased(short_search: None) -> None:
    block = np.array([1.0, -0.6, 0.3, 0.11, -0.02, 0.7, 0.0, 2.4])
    x = np.tile(block, 1024 * 300).astype(np.float32)
    y = exact(fewbits.decompress(fewbits.compress(x, Spherical(0.5, 8, "unbiased"), seed=5)))
    groups = y.reshape(300, 1024, 8).mean(axis=1)
    z = (groups.mean(axis=0) - exact(x[:8])) / (groups.std(axis=0) / math.sqrt(299))
    assert np.abs(z).max() < 5


def test_full_searches_hardly_ever_end() -> None:
    worst = max(
        (1 - chance) ** (spherical.QUOTIENTS << caps.rice_parameter(float(chance), 22))
        for chance in 0.5 * 2.0 ** -np.linspace(0, 21, 2000)
    )
    assert worst < 3e-7


@pytest.mark.parametrize("scale", ["strict", "unbiased"])
def test_radii_are_within_their_step(scale: str) -> None:
    own = Spherical(scale=scale)
    x = (gaussian(16 * 4000).reshape(-1, 16) * np.exp2(np.arange(4000) % 40 - 20)[:, None]).ravel()
    x = x.astype(np.float32)
    norms = np.linalg.norm(exact(x).reshape(-1, 16), axis=1)
    y = exact(fewbits.decompress(fewbits.compress(x, own, seed=1))).reshape(-1, 16)
    ratio = np.linalg.norm(y, axis=1) / own._rho(16) / norms
    step = 2.0 ** -own._radius_bits(x.size)
    assert np.abs(ratio - 1).max() <= (step if scale == "unbiased" else step / 2) + 1e-6
    slack = 4 * ratio.std() / math.sqrt(ratio.size)
    assert abs(ratio.mean() - 1) <= slack if scale == "unbiased" else ratio.std() < step / 3


def test_blocks_without_a_direction_take_no_index() -> None:
    x = gaussian(16 * 100).reshape(100, 16)
    x[10:60] = 0
    x[70, 3] = np.nan
    sent = searched(Spherical(), x.ravel())
    assert sent.indices.size == 49
    assert sent.nonfinite == 1
    frame = fewbits.compress(x, "spherical", seed=1, nonfinite="carry")
    y = fewbits.decompress(frame)
    assert not y[10:60].any()
    assert np.isnan(y[70]).all()
    assert np.isfinite(y[71:]).all()


@pytest.mark.parametrize("d", [1, 2, 5, 15, 17, 31])
def test_short_blocks_keep_the_promise(d: int) -> None:
    for seed in range(20):
        x = gaussian(d, seed)
        y = fewbits.decompress(fewbits.compress(x, "spherical:alpha=0.2,block=8", seed=seed))
        for start in range(0, d, 8):
            own = slice(start, start + 8)
            assert block_errors(x[own], y[own], len(x[own]))[0] <= 0.2


def test_a_frame_carries_a_key_of_its_own() -> None:
    x = gaussian(64)
    frame = fewbits.compress(x, "spherical", seed=1)
    parsed = wire.parse(np.frombuffer(frame, np.uint8), 64)
    key = parsed.sections[3].tobytes()
    assert key == Rng.from_seed(1).fork(0).fork("sphere").key
    assert Rng.from_seed(1).key not in frame
    assert Rng.from_seed(1).fork(0).key not in frame
    assert fewbits.compress(x, "spherical", seed=2)[-20:-4] != frame[-20:-4]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("alpha=0.001", "alpha must be from 0.01 to 0.99, got 0.001"),
        ("alpha=1", "alpha must be from 0.01 to 0.99, got 1.0"),
        ("block=1", "block must be from 2 to 1024, got 1"),
        ("block=1025", "block must be from 2 to 1024, got 1025"),
        ("block=40,alpha=0.2", "alpha=0.2 with block=40 needs .* directions for every block"),
        ("block=1024,alpha=0.01", "needs inf directions"),
        ("block=118,alpha=0.8", "needs .* directions for every block"),  # words of a group
        ("scale=norm", "scale must be strict, mmse or unbiased, got 'norm'"),
    ],
)
def test_what_cannot_be_searched_is_refused(spec: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        fewbits.operator(f"spherical:{spec}")


def test_searches_that_the_core_refuses() -> None:
    def search(**numbers: float) -> None:
        given = {"size": 4, "limit": 8, "slope": 1.0} | numbers
        task, size = native.SphereTask(**given), int(given["size"])
        values, rounded = np.ones((1, size)), np.ones((1, size + size % 2), np.int16)
        native.first_in_cap(task, values, rounded, np.ones(1), np.empty(1, np.int32))

    search()
    for bad in (
        *({"size": size} for size in (0, 1025)),
        *({"limit": limit} for limit in (0, 4, 12, 1 << 31)),
        *({"slope": slope} for slope in (math.nan, math.inf, -math.inf)),
    ):
        with pytest.raises(RuntimeError, match="refused"):
            search(**bad)


def test_the_papers_own_settings_are_allowed() -> None:
    for spec in ("alpha=0.15,block=14", "alpha=0.2,block=10", "alpha=0.99,block=1024"):
        own = fewbits.operator(f"spherical:{spec}")
        assert own.guarantee(1000).sure
    x = gaussian(10 * 64)
    y = fewbits.decompress(fewbits.compress(x, "spherical:alpha=0.2,block=10", seed=1))
    assert block_errors(x, y, 10).max() <= 0.2


def test_indices_beyond_the_limit_and_lone_escapes_are_refused() -> None:
    own = Spherical()
    x = gaussian(32)
    parts = [np.empty(section.size, np.uint8) for section in own.layout(32, FLOAT32)]
    _, sizes = own.encode(as_vector(x), Rng.from_seed(1), tuple(parts))
    good = [part[:length] for part, length in zip(parts, sizes, strict=True)]
    out = as_vector(np.zeros(32, np.float32))
    own.decode(tuple(good), out)
    for number, values, message in (
        (1, np.array([own._limit(32), 3]), "escaped block are missing"),
        (1, np.array([own._limit(32) + 1, 3]), "not below its bound"),
        (2, np.eye(32, dtype=np.int32)[5], "escaped block are missing"),
    ):
        bad = list(good)
        room = np.empty(own.layout(32, FLOAT32)[number].size + 8, np.uint8)
        if number == 1:
            written = rice.encode(values, own.sphere(32, FLOAT32).parameter)
            size, room[: written.size] = written.size, written
        else:
            bound = own.layout(32, FLOAT32)[2].bound  # type: ignore[attr-defined]
            size = coders.write_coded(values, bound, room, signed=False)
        bad[number] = room[:size]
        with pytest.raises(DecodeError, match=message):
            own.decode(tuple(bad), out)
