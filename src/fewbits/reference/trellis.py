r"""Whole multiples of a step that lie on paths of a trellis, found by Viterbi's algorithm.

A trellis has $S$ states. In state $s$ only levels $n \equiv s \pmod 2$ are allowed, and the next
state follows from $s$ and from bit 1 of $n$. So half of the levels are there at a time, and which
half depends on all levels before: a path is near a vector though the steps that it may take are
large. Value $i$ of a coder block belongs to path $i \bmod L$; all paths begin in state 0.

The search is exact in whole numbers. A value is taken to sixteenths of a step,
$f = \mathrm{rint}(16 x / \Delta + 16 u)$, and a path's length is the sum of $(f / 16 - n)^2$, up to
what all paths have in common.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.coding.paths import lanes_log2, next_state
from fewbits.coding.rans import CODER_BLOCK
from fewbits.reference import casts, grid
from fewbits.reference.blocks import Blocks
from fewbits.reference.casts import to_float64
from fewbits.reference.formats import FLOAT64, Bits, Format
from fewbits.reference.grid import Codes, Numbers
from fewbits.reference.grid_scales import LEAST_SQUARES, Quantised, fit, scale_format
from fewbits.reference.tally import Tally
from fewbits.reference.trellis_rate import finest, fits, number_at, sampled
from fewbits.rng import Rng

_Words = npt.NDArray[np.uint32]
_Whole = npt.NDArray[np.int64]


LARGEST_LEVEL = 1 << 16  # no level is as large
SURE_NU = 15 / 16  # steps above this keep their promise by what they are seen to keep


class Trellis(NamedTuple):
    """How a vector is rounded to levels on paths: numbers alone."""

    nu: float  # the largest, if there is a rate
    shrink: float
    high: float
    bound: int
    states: int
    dithered: bool
    scale: int
    bits: float = 0.0  # the rate that is wanted, 0 where nu is given
    least: int = 0  # the places of the smallest and the largest nu, with a rate
    most: int = 0

    @property
    def factors(self) -> tuple[float, float]:
        """What a native row has as its factors."""
        return self.bits or self.nu, self.shrink


class Edges(NamedTuple):
    """For each state the two before it, the one without bit `second` first, and their labels."""

    before: _Whole
    labels: _Whole

    @classmethod
    def of(cls, states: int) -> "Edges":
        found: dict[int, list[tuple[int, int]]] = {state: [] for state in range(states)}
        for state in range(states):
            for free in (0, 1):
                found[next_state(states, state, free)].append((state, (state & 1) + 2 * free))
        pairs = np.array([sorted(found[state]) for state in range(states)])
        return cls(pairs[:, :, 0], pairs[:, :, 1])


def lengths(fixed: _Whole) -> _Whole:
    """What the level nearest to each value costs, for every label n mod 4."""
    p = fixed % 64
    q = (p - 16) % 64
    even, odd = 16 - np.minimum(p, 64 - p), 16 - np.minimum(q, 64 - q)
    middle = 8 - np.abs(even)
    return np.stack([-even, middle - odd, even, middle + odd])


def levels(fixed: _Whole, states: int) -> _Whole:
    """The levels of the shortest paths through one coder block."""
    paths = 1 << lanes_log2(fixed.size)
    steps = -(-fixed.size // paths)
    padded = np.zeros(steps * paths, np.int64)
    padded[: fixed.size] = fixed
    rows = padded.reshape(steps, paths)
    last = fixed.size - (steps - 1) * paths  # of the paths, so many have the last step
    costs, edges = lengths(rows), Edges.of(states)
    total = np.zeros((states, paths), np.int64)
    choices = np.zeros((steps, states, paths), np.int64)
    for step in range(steps):
        ways = total[edges.before] + costs[edges.labels, step]
        later = (ways[:, 1] < ways[:, 0]).astype(np.int64)
        if 1 << step < states:
            later[:] = 0  # only the first can be reached from state 0
        choices[step] = later
        now = np.where(later == 1, ways[:, 1], ways[:, 0])
        total = now if step < steps - 1 else np.where(np.arange(paths) < last, now, total)
    found = np.empty((steps, paths), np.int64)
    ends = np.where(np.arange(paths) < last, steps, steps - 1)
    state = _ends(total, ends, states)
    lane = np.arange(paths)
    for step in range(steps - 1, -1, -1):
        way = choices[step, state, lane]
        label = edges.labels[state, way]
        found[step] = label + 4 * ((rows[step] - 16 * label + 32) >> 6)
        state = np.where(step < ends, edges.before[state, way], state)
    return found.reshape(-1)[: fixed.size]


def _ends(total: _Whole, ends: _Whole, states: int) -> _Whole:
    """The state in which the shortest path ends, the lowest of equals; a short one reaches few."""
    reached = {0}
    far = np.full(total.shape, np.iinfo(np.int64).max)
    for step in range(states.bit_length()):
        here = np.isin(np.arange(states), list(reached))
        far = np.where(here[:, None] & ((ends == step) | ((1 << step >= states) & (ends > step))),
                       total, far)  # fmt: skip
        reached = {next_state(states, state, free) for state in reached for free in (0, 1)}
    return np.asarray(far.argmin(axis=0))


def dither(words: _Words) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """The dither of each value, uniform on [0, 4), and whether its sign is turned."""
    return ((words >> 1).astype(np.float64) + 0.5) * 2.0**-29, words & 1 != 0


def fixed_point(bits: Bits, format: Format, step: float, words: _Words | None) -> _Whole:
    """Values in sixteenths of the step, with their dither; in float32 unless they are float64."""
    wide = np.dtype(np.float64 if format == FLOAT64 else np.float32)
    x = to_float64(bits, format).astype(wide)
    if words is not None:
        x = np.where(words & 1 != 0, -x, x)
    t = x / np.array(step, wide) * np.array(16, wide)
    if words is not None:
        t = t + (words >> 1).astype(np.int32).astype(wide) * np.array(2.0**-25, wide)
    return np.asarray(np.rint(t), np.int64)


def step_bits(how: Trellis, nu: float, scanned: grid.Scanned, count: int, format: Format) -> Bits:
    """The step; 0 where all values are, NaN where one is not finite."""
    scale = scale_format(format)
    squares = float(scanned.squares[0])
    if not np.isfinite(squares):
        return np.array([scale.quiet_nan], scale.bits)
    if squares == 0:
        return np.zeros(1, scale.bits)
    with np.errstate(over="ignore"):
        wanted = np.ldexp(np.sqrt(nu / count) * scanned.norms * how.shrink, scanned.exponents)
    return grid.rounded_scales(wanted, scale, np.zeros(1, np.bool_)).astype(scale.bits)


class Stepped(NamedTuple):
    """The scale that is sent and the levels, and which share of the squares they keep."""

    sent: Bits
    codes: Codes
    kept: float


def stepped(
    bits: Bits, format: Format, how: Trellis, nu: float, scanned: grid.Scanned, rng: Rng
) -> Stepped:
    """Levels of one step."""
    scale, codes, kept = scale_format(format), np.zeros(bits.size, np.int32), 1.0
    sent = step_bits(how, nu, scanned, bits.size, format)
    step = to_float64(sent, scale)
    if step[0] > 0:
        for start in range(0, bits.size, CODER_BLOCK):
            part = slice(start, min(start + CODER_BLOCK, bits.size))
            words = rng.words(start, part.stop - start) if how.dithered else None
            codes[part] = levels(fixed_point(bits[part], format, float(step[0]), words), how.states)
        if how.scale == LEAST_SQUARES:
            found = grid.fit(bits, format, Blocks.of(bits.size, 0), scanned, codes)
            fit(sent, step, found.best, scale)
            kept = float(found.kept[0])
    return Stepped(sent, codes, kept)


def wanted_nu(bits: Bits, format: Format, how: Trellis, scanned: grid.Scanned, rng: Rng) -> float:
    """The nu that is given, or the one that a vector's rate asks for."""
    squares = float(scanned.squares[0])
    if not how.bits:
        return how.nu
    if not np.isfinite(squares) or squares == 0:
        return number_at(how.most)
    some, peak = bits[sampled(bits.size)], float(np.abs(to_float64(bits, format)).max())
    # None of the words that the vector uses: a step that had seen them would make results biased.
    words = rng.words(bits.size, some.size) if how.dithered else None

    def within(place: int) -> bool:
        sent = step_bits(how, number_at(place), scanned, bits.size, format)
        step = float(to_float64(sent, scale_format(format))[0])
        if not step > 0 or peak > (LARGEST_LEVEL - 16) * step:
            return False
        found = levels(fixed_point(some, format, step, words), how.states)
        return fits(found, how.states, words, how.bound, bits.size, how.bits)

    return number_at(finest(how.least, how.most, within))


def quantised(bits: Bits, format: Format, how: Trellis, rng: Rng) -> Quantised:
    """The parts of a vector that are sent."""
    if not bits.size:
        return Quantised(np.zeros(0, scale_format(format).bits), np.zeros(0, np.int32), Tally())
    scanned = grid.scan(bits, format, Blocks.of(bits.size, 0))
    nu = wanted_nu(bits, format, how, scanned, rng)
    found = stepped(bits, format, how, nu, scanned, rng)
    if nu > SURE_NU and not how.dithered and not found.kept >= least_kept(format):
        found = stepped(bits, format, how, SURE_NU, scanned, rng)
    saturated = 0
    with np.errstate(over="ignore", invalid="ignore"):
        within = np.ldexp(scanned.norms[0], scanned.exponents[0]) <= how.high
    if how.dithered and not within:
        saturated = casts.count_above(bits, format, how.high)
    return Quantised(found.sent, found.codes, Tally(saturated, scanned.nonfinite))


def least_kept(format: Format) -> float:
    """The share of the squares that levels must keep, rounding of results included."""
    return 1 - SURE_NU + 2.0 ** -(format.mantissa + 1) + 2.0**-20


def values(codes: Codes, scale: float, format: Format, rng: Rng | None) -> Bits:
    """Levels less their dither, times the scale, rounded once to the format."""
    y = codes.astype(np.float64)
    out = np.empty(codes.size, format.bits)
    if rng is not None:
        u, turned = dither(rng.words(0, codes.size))
        y = np.where(turned, u - y, y - u)
    grid.scaled(y, np.array([scale]), format, out)
    return out
