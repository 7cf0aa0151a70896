"""Rows of directions: the search is native, the rest is the reference's."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fewbits.backend import coders, functions, parallel
from fewbits.backend.coders import PlainCodes
from fewbits.backend.kernel import Row, Written
from fewbits.backend.kinds.plain import cast
from fewbits.coding import rice
from fewbits.errors import DecodeError
from fewbits.reference import casts, directions, spherical
from fewbits.reference.blocks import SUMMATION_PIECE
from fewbits.reference.directions import Float64s, Integers
from fewbits.reference.formats import FLOAT64, Bits, Format
from fewbits.reference.spherical import Sphere, SphericalCodes, runs
from fewbits.reference.tally import Tally
from fewbits.rng import Rng

_LENGTH = 32_000  # of the rounded blocks, which are 16-bit integers


def encode(row: Row) -> Written:
    """Radii, indices, escaped values and the key of the stream."""
    how: Sphere = row.kernel.numbers
    format, rng = row.format, Rng(row.key)
    bits, stream = row.values.array(format.bits), rng.fork("sphere")
    sent = searched(bits, format, how, rng, stream, threads=row.threads)
    radii, indices, escapes, key = (section.array() for section in row.sections)
    sizes = (
        coders.write_coded(sent.radii.astype(np.int32), how.nan_code + 1, radii, signed=False),
        coders.write_rice(sent.indices, how.parameter, indices),
        coders.write_coded(sent.escapes, how.steps + 2, escapes, signed=False),
        coders.write_key(stream.key, key),
    )
    escaped = int(np.count_nonzero(sent.indices == how.limit))
    saturated = casts.count_above(bits, format, how.high)
    return Written(Tally(saturated, sent.nonfinite, escaped), sizes)


def searched(
    bits: Bits, format: Format, how: Sphere, rng: Rng, stream: Rng, *, threads: int = 1
) -> SphericalCodes:
    """The parts of a vector that are sent."""
    found = runs(how, bits.size)
    workers = max(1, min(threads, len(found)))
    cuts = [len(found) * worker // workers for worker in range(workers + 1)]

    def work(worker: int) -> list[SphericalCodes]:
        mine = found[cuts[worker] : cuts[worker + 1]]
        return [spherical.searched(bits, format, how, run, rng, stream, search) for run in mine]

    return spherical.together([part for own in parallel.each(work, workers) for part in own])


def decode(row: Row) -> Tally:
    """Values of the directions."""
    how: Sphere = row.kernel.numbers
    format, out = row.format, row.values.array(row.format.bits)
    blocks = -(-out.size // how.block)
    radii, indices, escaped, codes, stream = _read(row, how, blocks, out.size)
    most = max(1, SUMMATION_PIECE // how.block)
    nan, found = radii == how.nan_code, runs(how, out.size, most)
    live = (radii > 0) & ~nan
    starts = np.cumsum([0, *(run.blocks for run in found)])

    def work(number: int) -> None:
        run, own = found[number], slice(starts[number], starts[number + 1])
        grid = codes[run.elements].reshape(-1, run.size).astype(np.int32)
        if ((grid != 0) != escaped[own, None]).any():
            raise DecodeError("values of an escaped block are missing, or others are there")
        wide, places = radii[own].astype(np.int64), indices[own].astype(np.int64)
        y = spherical.decoded(how, run, wide, places, grid, stream, format)
        y[~live[own]] = 0.0
        y[nan[own]] = np.nan
        cast(y.reshape(-1).view(np.uint64), FLOAT64, format, out[run.elements])

    workers = max(1, min(row.threads, len(found)))
    parallel.each(lambda worker: _all(work, range(worker, len(found), workers)), workers)
    nonfinite = how.block * int(np.count_nonzero(nan))
    if blocks and nan[-1]:  # which may be shorter
        nonfinite -= how.block * blocks - out.size
    return Tally(nonfinite=nonfinite, escaped=int(np.count_nonzero(escaped)))


def _read(
    row: Row, how: Sphere, blocks: int, count: int
) -> tuple[PlainCodes, coders.Signed, npt.NDArray[np.bool_], PlainCodes, Rng]:
    """Radii, indices, which blocks escaped, codes of escaped values, and the stream."""
    sections = [section.array() for section in row.sections]
    radii, _ = coders.coded_decode(sections[0], how.nan_code + 1, blocks, signed=False)
    live = (radii > 0) & (radii != how.nan_code)
    indices = np.zeros(blocks, np.int32)
    numbers = rice.decode(sections[1], how.parameter, how.limit + 1, int(live.sum()))
    indices[live] = numbers
    codes, _ = coders.coded_decode(sections[2], how.steps + 2, count, signed=False)
    stream = Rng(sections[3].tobytes() or bytes(16))
    return radii, indices, indices == how.limit, codes, stream


def search(
    rng: Rng, group: int, values: Float64s, need: Float64s, least: float, limit: int
) -> Integers:
    """`directions.first_in_cap`; `least` is below every `need` divided by its block's norm."""
    blocks, size = values.shape
    padded = np.zeros((blocks, size + size % 2), np.int16)
    with np.errstate(invalid="ignore"):
        factor = np.where(np.isfinite(need), _LENGTH * least / need, 0.0)
    np.rint(values * factor[:, None], out=padded[:, :size], casting="unsafe")
    # Rounding a block moves its product with a direction of length 1 by at most half a root of the
    # size; 1 is far more than the rounding of floats.
    slope = _LENGTH * least - np.sqrt(size) / 2 - 1
    found = np.empty(blocks, np.int32)
    task = functions.SphereArguments(
        key=tuple(rng.key), group=group, size=size, limit=limit, slope=float(slope)
    )
    functions.first_in_cap(directions.normal_table(), task, values, padded, need, found)
    return found.astype(np.int64)


def _all(work: Callable[[int], None], numbers: range) -> None:
    for number in numbers:
        work(number)
