"""Paths through a trellis: the shortest ones; a dither of the whole period is unbiased."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from fewbits.coding.paths import POLYNOMIALS, Paths, next_state
from fewbits.reference import trellis
from fewbits.rng import Rng

PATHS, STEPS = 32, 128
states = pytest.mark.parametrize("states", POLYNOMIALS)


@states
def test_the_shortest_path_is_found(states: int) -> None:
    """By trying all; in state s only levels of its parity are taken, from state 0 on."""
    source = np.random.default_rng(states)
    for count in (1, 2, 3, 4, 5, 8):
        fixed = source.integers(-100, 100, count)
        least = None
        for free in itertools.product((0, 1), repeat=count):
            state, length = 0, 0
            for value, bit in zip(fixed.tolist(), free, strict=True):
                label = (state & 1) + 2 * bit
                length += (value - 16 * (label + 4 * ((value - 16 * label + 32) >> 6))) ** 2
                state = next_state(states, state, bit)
            least = length if least is None else min(least, length)
        found = trellis.levels(fixed, states)
        assert ((fixed - 16 * found) ** 2).sum() == least
        state = 0
        for level in found.tolist():
            assert level & 1 == state & 1
            state = next_state(states, state, level >> 1 & 1)


@states
def test_lengths_that_are_compared_differ_by_less_than_half_a_byte(states: int) -> None:
    """Native code keeps them modulo 256. Both states before a state have a common one before."""
    length, steps = trellis.lengths(np.arange(64)), states.bit_length() - 1
    most = {(a, b): int((length[a] - length[b]).max()) for a in range(4) for b in range(4)}
    ways: dict[tuple[int, int], list[list[int]]] = {}
    for first in range(states):
        for free in itertools.product((0, 1), repeat=steps):
            state, labels = first, []
            for bit in free:
                labels.append((state & 1) + 2 * bit)
                state = next_state(states, state, bit)
            ways.setdefault((first, state), []).append(labels)
    apart = np.zeros((states, states), int)
    for (first, a), own in ways.items():
        for (other, b), theirs in ways.items():
            if first == other:
                sums = (sum(map(most.get, zip(p, q, strict=True))) for p in own for q in theirs)  # type: ignore[arg-type]
                apart[a, b] = max(apart[a, b], *sums)
    edges = trellis.Edges.of(states)
    for before, labels in zip(edges.before.tolist(), edges.labels.tolist(), strict=True):
        for i, j in ((0, 1), (1, 0)):
            assert apart[before[i], before[j]] + most[labels[i], labels[j]] < 128


def test_mean_errors_of_the_codes() -> None:
    """In squared steps, of uniform values; two steps apart and without a trellis it is 1/3."""
    fixed = np.random.default_rng(1).integers(0, 64, 65_536)
    for states, wanted in ((4, 0.2645), (8, 0.2603), (16, 0.2564)):
        found = ((fixed / 16 - trellis.levels(fixed, states)) ** 2).mean()
        assert found == pytest.approx(wanted, abs=0.002)


# ---- bias ----

VECTORS = {
    "constant": np.full(STEPS, 0.37),
    "ramp": np.linspace(-2, 2, STEPS),
    "sparse": np.where(np.arange(STEPS) % 9 == 4, 1.3, 0.0),
    "heavy": np.random.default_rng(2).standard_t(1.5, STEPS),
}
Change = Callable[[np.ndarray], np.ndarray]


def bias(x: np.ndarray, draws: int, change: Change, rate: int = 0) -> float:
    """The squared mean error against its expectation by chance, in standard deviations.

    Every path of a block is a draw of the same values, in steps. `rate` is what a level costs for
    each bit of its magnitude, in the metric.
    """
    total, squares, blocks = np.zeros(STEPS), 0.0, draws // PATHS
    values = np.repeat(x, PATHS).astype(np.float64)
    for number in range(blocks):
        words = change(Rng.from_seed(number).words(0, values.size))
        u, turned = trellis.dither(words)
        t = np.where(turned, -values, values) + u
        fixed = np.rint(16 * t).astype(np.int64)
        n = trellis.levels(fixed, 8) if not rate else priced(fixed, u, rate)
        error = np.where(turned, u - n, n - u) - values
        total += error.reshape(STEPS, PATHS).sum(axis=1)
        squares += float((error**2).sum())
    count = blocks * PATHS
    variance = squares / (count * STEPS)
    chance = (total / count) ** 2 / (variance / count)
    return float((chance.sum() - STEPS) / np.sqrt(2 * STEPS))


def priced(fixed: np.ndarray, u: np.ndarray, rate: int) -> np.ndarray:
    """Levels of paths that are shortest with a price on what is far from 0."""
    toward = np.rint(np.sign(u - fixed / 16) * np.minimum(np.abs(fixed / 16 - u), 0.5) * rate)
    return trellis.levels(fixed + toward.astype(np.int64), 8)


def unchanged(words: np.ndarray) -> np.ndarray:
    return words


@pytest.mark.parametrize("name", VECTORS)
def test_the_dither_of_a_whole_period_is_unbiased(name: str) -> None:
    assert abs(bias(VECTORS[name], 3200, unchanged)) < 5


def test_shorter_dithers_and_prices_are_biased() -> None:
    """A period of one step; and a rate in the metric, which prefers what is near 0."""
    assert bias(VECTORS["constant"], 3200, lambda words: words & np.uint32(0x3FFFFFFE)) > 20
    assert bias(VECTORS["ramp"], 3200, unchanged, rate=8) > 20


@pytest.mark.parametrize("dithered", [False, True])
@states
def test_symbols_lead_back_to_levels(states: int, dithered: bool) -> None:
    """Through the reference's writer and reader of a section, with levels that are far away."""
    from fewbits.coding import rans

    for count, step in ((1, 1.0), (130, 1.0), (700, 0.2), (5000, 2.0), (5000, 0.01)):
        x = np.random.default_rng(count).standard_normal(count) / step
        x[count // 2] = 500.0
        words = Rng.from_seed(3).words(0, count) if dithered else None
        u = 0.0 if words is None else trellis.dither(words)[0]
        n = trellis.levels(np.rint(16 * (x + u)).astype(np.int64), states)
        magnitudes, signs = np.abs(n).astype(np.uint16), (n < 0).astype(np.uint8)
        data = rans.encode(magnitudes, 60000, signs, Paths(states, words))
        codes, marks = rans.decode(data, 60000, count, True, Paths(states, words))
        assert np.array_equal(codes, magnitudes)
        assert np.array_equal(marks, signs)
        version = rans.needed_version(np.frombuffer(data, np.uint8))
        assert count < 5000 or version == (3 if step == 2.0 else 4)  # tables, or halves
