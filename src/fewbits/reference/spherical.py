r"""Blocks as radii and directions: what the spherical operator sends of a vector, and back."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.reference import directions
from fewbits.reference.directions import Divided, Float64s, Integers
from fewbits.reference.formats import Bits, Format
from fewbits.rng import Rng

STRICT, MMSE, UNBIASED = 0, 1, 2  # scales
_GROUPS = 8  # groups that are handled together
_SLOP = 2.0**-40  # far above the rounding errors of float64
# Rounding to a format with unit u moves a result y of a block x in the promised range by at most
# u (|y| + |x|): the second term is for subnormal results. |y| is below 9/8 |x| unless unbiased.
ROUNDING = 2.25


class Sphere(NamedTuple):
    """How blocks become directions: numbers alone."""

    alpha: float
    block: int
    scale: int
    parameter: int  # of the Rice code of indices
    limit: int  # directions that the encoder looks at
    radius_bits: int  # of a radius, behind its leading one
    nan_code: int  # of a block that is not finite, above those of all radii
    steps: int  # of the grid for escaped blocks, one less than a power of two
    rho: float  # the length of the results for a block of length 1
    last_rho: float  # the same for the last block, which may be shorter
    high: float  # up to where results stay in the format


class SphericalCodes(NamedTuple):
    """Blocks as they travel: codes of radii, indices, and codes of values in escaped blocks."""

    radii: Integers
    indices: Integers  # of blocks with a direction: the limit if escaped
    escapes: npt.NDArray[np.int32]  # one for each value, 0 in blocks that did not escape
    nonfinite: int


class Run(NamedTuple):
    """Neighbouring blocks of one size: the first element, the first group and the number."""

    start: int
    group: int
    blocks: int
    size: int

    @property
    def elements(self) -> slice:
        """The slice of their values."""
        return slice(self.start, self.start + self.blocks * self.size)


Search = Callable[[Rng, int, Float64s, Float64s, float, int], Integers]
"""Stream, first group, blocks, needed products, least cosine, limit: the first directions."""


def plain_search(
    rng: Rng, group: int, values: Float64s, need: Float64s, _: float, limit: int
) -> Integers:
    """The search as `directions.first_in_cap` specifies it."""
    return directions.first_in_cap(rng, group, values, need, limit)


def runs(how: Sphere, d: int, most: int = _GROUPS * directions.GROUP) -> list[Run]:
    """All blocks in order, at most so many together; a last short one has its own directions."""
    full, rest = divmod(d, how.block)
    found = [
        Run(first * how.block, first // directions.GROUP, min(most, full - first), how.block)
        for first in range(0, full, most)
    ]
    if rest:
        found.append(Run(full * how.block, -(-full // directions.GROUP), 1, rest))
    return found


def searched(
    bits: Bits,
    format: Format,
    how: Sphere,
    run: Run,
    rng: Rng,
    stream: Rng,
    search: Search = plain_search,
) -> SphericalCodes:
    """The parts of some blocks that are sent."""
    blocks = directions.split(bits[run.elements], format, run.size)
    live = blocks.norms > 0
    codes, factors = _radii(how, blocks, run, rng, format)
    codes = np.where(live, codes, 0)
    codes[blocks.nonfinite > 0] = how.nan_code
    own = directions.signs(stream, run.start, blocks.values.size).reshape(blocks.values.shape)
    values = blocks.values * own
    need = _needed(how, factors, blocks.norms, live, format)
    found = search(stream, run.group, values, need, math.sqrt(1 - how.alpha), how.limit)
    escaped = live & (found == directions.NO_DIRECTION)
    found[escaped] = how.limit
    escapes = np.zeros(values.shape, np.int32)
    if escaped.any():
        escapes[escaped] = _gridded(how, blocks.values, factors, escaped, run, rng)
    return SphericalCodes(codes, found[live], escapes.ravel(), int(blocks.nonfinite.sum()))


def together(parts: list[SphericalCodes]) -> SphericalCodes:
    """The sent parts of neighbouring blocks, joined."""
    if not parts:
        nothing = np.zeros(0, np.int64)
        return SphericalCodes(nothing, nothing, np.zeros(0, np.int32), 0)
    radii, indices, escapes, nonfinite = zip(*parts, strict=True)
    joined = np.concatenate(radii), np.concatenate(indices), np.concatenate(escapes)
    return SphericalCodes(*joined, sum(nonfinite))


def _radii(
    how: Sphere, blocks: Divided, run: Run, rng: Rng, format: Format
) -> tuple[Integers, Float64s]:
    """Codes of the radii, and the sent radii divided like the values; both void for zeros."""
    drop = 52 - how.radius_bits
    pattern = np.where(blocks.norms > 0, blocks.norms, 1.0).view(np.uint64)
    if how.scale == UNBIASED:
        first = 2 * (run.start // how.block)
        pairs = rng.fork("radii").words(first, 2 * run.blocks).astype(np.uint64)
        addend = (pairs[1::2] << np.uint64(32) | pairs[::2]) >> np.uint64(64 - drop)
    else:
        addend = np.full(run.blocks, 1 << (drop - 1), np.uint64)
    level = (pattern + addend) >> np.uint64(drop)
    offset = blocks.exponents - least_exponent(format) - 1023
    codes = level.astype(np.int64) + (offset << how.radius_bits) + 1
    return codes, (level << np.uint64(drop)).view(np.float64)


def room(how: Sphere, unit: float) -> float:
    """How far a direction may be from a block of length 1, less what rounding takes."""
    return math.sqrt(how.alpha) - ROUNDING * unit - _SLOP


def _needed(
    how: Sphere, factors: Float64s, norms: Float64s, live: npt.NDArray[np.bool_], format: Format
) -> Float64s:
    r"""The least product with a direction of length 1; infinite where there is none.

    With a radius of $g \|x\|$ and cosine $c$ the error of `strict` is
    $g^2 \rho^2 - 2 g \rho c + 1$, and the rounding of the result takes some room.
    """
    cosine = np.full(norms.size, math.sqrt(1 - how.alpha))
    if how.scale == STRICT:
        own = room(how, 2.0 ** -(format.mantissa + 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = factors / norms * cosine
            cosine = (1 - own * own + ratio * ratio) / (2 * ratio)
    possible = live & (cosine < 1)
    return np.where(possible, cosine * norms, np.inf)


def _gridded(
    how: Sphere,
    values: Float64s,
    factors: Float64s,
    escaped: npt.NDArray[np.bool_],
    run: Run,
    rng: Rng,
) -> npt.NDArray[np.int32]:
    """Codes from 1 of the values in escaped blocks."""
    last, step = how.steps, 1 + 2.0**-how.radius_bits
    position = (values[escaped] / (factors[escaped, None] * step) + 1) / 2 * last
    if how.scale == UNBIASED:
        words = rng.fork("escapes").words(run.start, values.size).reshape(values.shape)
        codes = np.floor(position + (words[escaped] + 0.5) / 2**32)
    else:
        codes = np.rint(position)
    return 1 + np.clip(codes, 0, last).astype(np.int32)


def decoded(
    how: Sphere,
    run: Run,
    radii: Integers,
    indices: Integers,
    codes: npt.NDArray[np.int32],
    stream: Rng,
    format: Format,
) -> Float64s:
    """The values of blocks with a radius; anything for the others."""
    bits = how.radius_bits
    level = np.maximum(radii - 1, 0)
    exponents = (level >> bits) + least_exponent(format)
    factors = 1 + (level & ((1 << bits) - 1)) / 2**bits
    place = run.start // run.size % directions.GROUP if run.size == how.block else 0
    groups = run.group + (place + np.arange(run.blocks)) // directions.GROUP
    escaped = indices == how.limit
    vectors = directions.drawn(stream, groups, np.where(escaped, 0, indices), run.size)
    rho = how.rho if run.size == how.block else how.last_rho
    scaled = factors * rho / directions.lengths(vectors)
    vectors = vectors * directions.signs(stream, run.start, vectors.size).reshape(vectors.shape)
    y = vectors * scaled[:, None]
    if escaped.any():
        last, step = how.steps, 1 + 2.0**-bits
        y[escaped] = (2 * (codes[escaped] - 1) - last) / last * (factors[escaped, None] * step)
    with np.errstate(over="ignore", under="ignore"):
        y = np.ldexp(y, exponents[:, None])
    largest = np.finfo(np.float64).max
    clipped: Float64s = np.clip(y, -largest, largest)
    return clipped


def least_exponent(format: Format) -> int:
    """The exponent of the smallest number of a format."""
    return 1 - format.bias - format.mantissa
