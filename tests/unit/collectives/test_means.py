"""What the ranks agree on: the right mean, the right error, and the same bits everywhere."""

import numpy as np
import pytest

import fewbits
from fewbits import Rng
from fewbits.coding.bitpack import packed_size
from fewbits.collectives.header import SIZE
from fewbits.collectives.payload import UNIT, Unit, units_of
from fewbits.collectives.progress import Spending
from fewbits.collectives.reduction import ReductionTask, commit
from fewbits.collectives.units import total_format
from fewbits.reference import casts
from fewbits.reference import natural as natural_reference
from fewbits.reference.formats import FLOAT32, FLOAT64, FORMATS, Format
from fewbits.rng import token
from unit.collectives.local import (
    COLLECTIVES,
    SIZES,
    WORLDS,
    Rank,
    floats,
    gradient,
    reduced,
    same_everywhere,
    together,
    units,
)

EVERY = pytest.mark.parametrize("collective", COLLECTIVES)
FORMAT = pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
WORLD = pytest.mark.parametrize("world", WORLDS)
COUNT = sum(SIZES)
# Sections of every kind and number: two, three, and one whose length varies.
SPARSE = (
    "sparse-dithering",
    "sparse-dithering:rounding=subtractive",
    "sparse-dithering:rounding=stochastic,coder=paper",
)


def rank_order_mean(world: int, format: Format) -> np.ndarray:
    total = np.zeros(COUNT, total_format(format).name)
    for rank in range(world):
        total = total + floats(gradient(rank, COUNT, format), format)
    return total / total.dtype.type(world)


@EVERY
@WORLD
@FORMAT
def test_the_identity_gives_the_mean_summed_in_rank_order(
    collective: str, world: int, format: Format
) -> None:
    result = same_everywhere(reduced(collective, world, units(uplink="identity"), format=format))
    assert result.dtype == (np.float64 if format == FLOAT64 else np.float32)
    assert result.tobytes() == rank_order_mean(world, format).tobytes()


def natural(values: np.ndarray, rng: Rng, batch: list[Unit], format: Format) -> np.ndarray:
    """The natural operator on every unit, from the NumPy reference alone."""
    out = np.empty(values.size, format.bits)
    for unit in batch:
        place = slice(unit.start, unit.start + unit.count)
        own = Rng(rng.child_key(token(unit.name)))
        codes = natural_reference.rounded(values[place], format, own)
        out[place] = natural_reference.values(codes.exponents, codes.signs, format)
    return out


@WORLD
@FORMAT
@EVERY
def test_schemes_are_the_algorithm_as_written(collective: str, world: int, format: Format) -> None:
    """Workers' operator with their own draws, sum in rank order, then the master's operator on the
    mean (sharded) or on the sum, divided afterwards (star); gather has no master.
    """
    batch, rng, wide = units(), Rng.from_seed(11), total_format(format)
    total = np.zeros(COUNT, wide.name)
    for rank in range(world):
        sent = natural(gradient(rank, COUNT, format), rng.fork("private", 0, rank), batch, format)
        total = total + floats(sent, format)
    n = total.dtype.type(world)
    master = rng.fork("second hop", 0)
    if collective == "gather":
        expected = total / n
    elif collective == "sharded":
        expected = natural((total / n).view(wide.bits), master, batch, wide).view(wide.name)
    else:
        expected = natural(total.view(wide.bits), master, batch, wide).view(wide.name) / n
    result = same_everywhere(reduced(collective, world, batch, format=format))
    assert result.tobytes() == expected.tobytes()


@pytest.mark.parametrize("world", [2, 5])
@EVERY
def test_the_mean_is_unbiased_and_its_error_is_what_theory_says(
    collective: str, world: int
) -> None:
    r"""For equal gradients x on n ranks, with both operators unbiased and independent,

    $$ E\|\bar C - x\|^2 / \|x\|^2 \le (1 + \omega_W/n)(1 + \omega_M) - 1 . $$

    At $|x_i| = 4/3$ a worker's variance is exactly 1/8 of the square, so the first factor is
    attained. The master of a shard sees means $m$ in [1, 2] and adds
    $E(m-1)(2-m) = 2/9 - 2/(9n)$, a share of $1/8 - 1/(8n)$: together exactly 1/8.
    """
    size, seeds = 4096, 40
    x = np.full(size, 4 / 3, np.float32) * np.where(np.arange(size) % 2, 1, -1).astype(np.float32)
    batch = units((size,))
    errors, mean = [], np.zeros(size)
    for seed in range(seeds):
        result = reduced(
            collective, world, batch, vectors=lambda _: x.view(np.uint32), rng=Rng.from_seed(seed)
        )[0]
        mean += result.astype(np.float64) / seeds
        errors.append(float(np.sum((result - x) ** 2) / np.sum(x**2)))
    first = 1 / 8 / world
    bound = (1 + first) * (1 + 1 / 8) - 1 if collective != "gather" else first
    observed = float(np.mean(errors))
    # The relative squared error of a coordinate is at most 1/4 (values between 1 and 2), for a star
    # at most 2 (the sum is rounded to 4, 8 or 16 and divided by 5): so is its standard deviation.
    slack = 6 * (2 if collective == "star" else 1 / 4) / np.sqrt(size * seeds)
    assert first - slack < observed < bound + slack
    if collective != "star":
        assert abs(observed - (first if collective == "gather" else 1 / 8)) < slack
    # Unbiased: the sign-corrected mean of all draws, with variance at most bound * x^2 each.
    bias = float(np.mean(mean * np.sign(x)) - 4 / 3)
    assert abs(bias) < 6 * np.sqrt(bound) * (4 / 3) / np.sqrt(size * seeds)


def test_ranks_and_steps_draw_independently() -> None:
    """The same draws on all ranks would cost a factor n: the error would not shrink with n."""
    size = 20_000
    x = np.full(size, 4 / 3, np.float32)
    by_world = {}
    for world in (1, 2, 5):
        result = reduced("gather", world, units((size,)), vectors=lambda _: x.view(np.uint32))[0]
        by_world[world] = float(np.mean((result - x) ** 2)) * world
    # Each is 2/9 in expectation; the squared error of a draw is 1/9 or 4/9, so the average over
    # 20,000 has a standard deviation of 0.0012 at one rank, and less at more.
    for value in by_world.values():
        assert value == pytest.approx(2 / 9, abs=6 * 0.0025)
    steps = [reduced("gather", 2, units(), step=step)[0].tobytes() for step in (0, 1, 0)]
    assert steps[0] == steps[2] != steps[1]


@EVERY
@pytest.mark.parametrize(
    "worker", ["natural", "identity", "float16", "bfloat16", "spherical", *SPARSE]
)
@pytest.mark.parametrize(
    "master", ["natural", "identity", "natural:rounding=nearest", "float16", "spherical", *SPARSE]
)
def test_operators_of_both_directions_differ_freely(
    collective: str, worker: str, master: str
) -> None:
    result = same_everywhere(reduced(collective, 3, units(uplink=worker, downlink=master)))
    both = (fewbits.operator(worker), fewbits.operator(master))
    lost = [o.guarantee(1).error for o in (both[:1] if collective == "gather" else both)]
    exact = rank_order_mean(3, FLOAT32)
    error = np.linalg.norm(result - exact) / np.linalg.norm(exact)
    if not any(lost):
        assert error == 0
    else:
        # Workers' errors are relative to their own vectors, which are up to sqrt(3) times longer
        # than the mean together; 3 sigma and more of room for the few large coordinates.
        limit = 2 * sum(np.sqrt(loss) for loss in lost) * np.sqrt(3)
        assert 0 < error < limit


@EVERY
def test_different_operators_for_different_units(collective: str) -> None:
    mixed = [
        Unit(f"p{i}/0", unit.start, unit.count, fewbits.operator(there), fewbits.operator(back))
        for i, (unit, there, back) in enumerate(
            zip(
                units(),
                ("natural", "identity", "float16", "natural", "identity"),
                ("natural", "identity", "natural", "identity", "identity"),
                strict=True,
            )
        )
    ]
    result = same_everywhere(reduced(collective, 3, mixed))
    exact = rank_order_mean(3, FLOAT32)
    for unit in mixed:
        place = slice(unit.start, unit.start + unit.count)
        kept = unit.uplink == unit.downlink == fewbits.operator("identity")
        assert np.array_equal(result[place], exact[place]) == kept


@EVERY
@pytest.mark.parametrize("world", [1, 3])
def test_results_do_not_depend_on_the_batch_or_the_owner(collective: str, world: int) -> None:
    batch = units()
    whole = same_everywhere(reduced(collective, world, batch))
    pieces = []
    for unit in batch:  # each alone in its batch, so always owned by rank 0
        alone = [Unit(unit.name, 0, unit.count, unit.uplink, unit.downlink)]
        part = slice(unit.start, unit.start + unit.count)
        pieces.append(
            reduced(
                collective, world, alone, vectors=lambda r, part=part: gradient(r, COUNT)[part]
            )[0]
        )
    assert np.concatenate(pieces).tobytes() == whole.tobytes()
    backwards = list(reversed(batch))  # other owners, same places
    assert reduced(collective, world, backwards)[0].tobytes() == whole.tobytes()


@EVERY
@pytest.mark.parametrize("threads", [2, 3, 7])
def test_results_do_not_depend_on_threads(collective: str, threads: int) -> None:
    one = reduced(collective, 3, units())[0]
    many = same_everywhere(reduced(collective, 3, units(), threads=threads))
    assert many.tobytes() == one.tobytes()


RESULTS: dict[str, bytes] = {}


@EVERY
def test_results_do_not_depend_on_the_table_of_kernels(collective: str, simd: str) -> None:
    result = same_everywhere(reduced(collective, 3, units((1, 70_001, 300)))).tobytes()
    assert RESULTS.setdefault(collective, result) == result


@EVERY
@pytest.mark.parametrize("sizes", [(), (1,), (1, 1), (3,), (33, 1, 65)])
def test_worlds_larger_than_the_batch(collective: str, sizes: tuple[int, ...]) -> None:
    exact = same_everywhere(reduced(collective, 5, units(sizes, "identity")))
    lossy = same_everywhere(reduced(collective, 5, units(sizes, "natural")))
    assert exact.size == lossy.size == sum(sizes)
    assert not sizes or exact.tobytes() != lossy.tobytes()


@EVERY
def test_the_caller_gets_float32_for_16_bits_and_keeps_its_vector(collective: str) -> None:
    for format in FORMATS[2:]:
        seen = {}

        def vectors(rank: int, format: Format = format, seen: dict = seen) -> np.ndarray:
            return seen.setdefault(rank, gradient(rank, COUNT, format))

        result = same_everywhere(reduced(collective, 2, units(), format=format, vectors=vectors))
        assert result.dtype == np.float32


@EVERY
@pytest.mark.parametrize("value", [60_000.0, 3e38], ids=["float16", "float32"])
def test_sums_have_the_room_that_the_format_of_totals_has(collective: str, value: float) -> None:
    format = FORMATS[2] if value < 1e5 else FLOAT32
    bits, saturated, _ = casts.cast(np.full(COUNT, value).view(np.uint64), FLOAT64, format)
    assert not saturated
    result = reduced(
        collective, 2, units(uplink="identity"), format=format, vectors=lambda _: bits
    )[0]
    # float16 is summed in float32; the sum of two large float32 overflows, as it would without us.
    assert np.isfinite(result).all() == (value < 1e5)


def test_chunks_are_named_by_their_place_in_the_parameter() -> None:
    operator = fewbits.operator("natural")
    assert units_of("w", 5, 0, operator, operator) == []
    parts = units_of("w", 5, 2 * UNIT + 1, operator, operator)
    assert [(u.name, u.start, u.count) for u in parts] == [
        ("w/0", 5, UNIT),
        ("w/1", 5 + UNIT, UNIT),
        ("w/2", 5 + 2 * UNIT, 1),
    ]


@EVERY
def test_a_parameter_of_several_chunks(collective: str) -> None:
    operator = fewbits.operator("natural")
    batch = units_of("w", 0, 2 * UNIT + 77, operator, operator)
    result = same_everywhere(reduced(collective, 3, batch))
    errors = result - sum(gradient(r, result.size).view(np.float32) for r in range(3)) / 3
    assert 0 < np.linalg.norm(errors) < np.linalg.norm(result)


@EVERY
@pytest.mark.parametrize("world", [2, 5])
def test_bytes_are_counted_as_the_layout_says(collective: str, world: int) -> None:
    def work(rank: Rank) -> Spending:
        reduction = COLLECTIVES[collective](ReductionTask(units(), FLOAT32, rank.comm))
        reduction.run(gradient(rank.comm.rank, COUNT), Rng.from_seed(1), rank.progress)
        commit(rank.comm, rank.progress)
        return rank.progress.spent

    spent = [rank.result for rank in together(world, work)]
    one_way = sum(packed_size(size, 8) + packed_size(size, 1) for size in SIZES)
    ways = world if collective == "gather" else 2
    assert sum(s.payload_bytes for s in spent) == (world - 1) * ways * one_way
    hops = 1 if collective == "gather" else 2
    assert {s.header_bytes for s in spent} == {(hops + 1) * SIZE * (world - 1)}


@EVERY
@pytest.mark.parametrize(
    "spec",
    [
        "natural-dithering",
        "natural-dithering:p=2,levels=3,block=8,scale=natural,coder=rans",
        "qsgd:block=64",
        "terngrad:coder=rans",
        "sign",
    ],
)
def test_operators_with_scales_reduce_alike_on_all_ranks(collective: str, spec: str) -> None:
    mean = rank_order_mean(3, FLOAT32)
    result = same_everywhere(reduced(collective, 3, units(uplink=spec)))
    error = ((result - mean) ** 2).sum() / (mean**2).sum()
    alone = same_everywhere(reduced(collective, 3, units(uplink=spec, downlink="identity")))
    assert ((alone - mean) ** 2).sum() / (mean**2).sum() > 0
    # Independent errors of three ranks average out; those of the mean come on top.
    largest = max(fewbits.operator(spec).guarantee(size).error for size in SIZES)
    assert error <= 4 * (1 + largest) ** 2
    again = same_everywhere(reduced(collective, 3, units(uplink=spec), threads=2))
    assert again.tobytes() == result.tobytes()
