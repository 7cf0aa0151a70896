"""Rows of directions: native code, some blocks at a time."""

import math
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from fewbits.backend import coders, library, parallel
from fewbits.backend.kernel import Row, Written
from fewbits.backend.library import Bytes, key_words
from fewbits.backend.sphere_functions import (
    RiceWriter,
    SphereCodes,
    SphericalArguments,
    decode_blocks,
    encode_blocks,
    live_blocks,
)
from fewbits.coding.rans import CODER_BLOCK
from fewbits.errors import DecodeError
from fewbits.reference import spherical
from fewbits.reference.formats import Bits, Format
from fewbits.reference.spherical import Run, Sphere
from fewbits.reference.tally import Tally
from fewbits.rng import Rng

_VALUES = 1 << 16  # that a thread encodes before what it found is written


def encode(row: Row) -> Written:
    """Radii, indices, escaped values and the key of the stream."""
    how: Sphere = row.kernel.numbers
    bits, stream = row.values.array(row.format.bits), Rng(row.key).fork("sphere")
    radii, indices, escapes, key = (section.array() for section in row.sections)
    live = live_blocks(bits, row.format.code, how.block)
    first, last = _CodeWriter(radii, how.nan_code + 1), _CodeWriter(escapes, how.steps + 2)
    between, counts = RiceWriter(indices, how.parameter, live), np.zeros(3, np.int64)
    for codes, met in searched(bits, row.format, how, Rng(row.key), stream, row.threads):
        first.append(codes.radii)
        between.append(codes.indices)
        last.append(codes.escapes)
        counts += met
    sizes = first.ended(), between.size, last.ended(), coders.write_key(stream.key, key)
    return Written(Tally(*counts.tolist()), sizes)


def searched(
    bits: Bits, format: Format, how: Sphere, rng: Rng, stream: Rng, threads: int = 1
) -> Iterator[tuple[SphereCodes, tuple[int, int, int]]]:
    """The parts of a vector that are sent, in order; they are void when the next ones are made."""
    runs = spherical.runs(how, bits.size, max(1, _VALUES // how.block))
    workers = max(1, min(threads, len(runs)))
    most = max((run.blocks for run in runs), default=0)
    values = max((run.blocks * run.size for run in runs), default=0)
    rooms = [
        SphereCodes(*map(np.empty, (most, most, values), (np.uint16, np.int32, np.uint16)))
        for _ in range(workers)
    ]

    def work(together: list[Run], number: int) -> tuple[SphereCodes, tuple[int, int, int]]:
        run, room = together[number], rooms[number]
        own = _arguments(how, format, stream, rng)
        own.first, own.size, own.group, own.place = run.start, run.size, run.group, 0
        if run.size == how.block:
            own.group, own.place = 0, run.start // how.block
        met = encode_blocks(own, bits[run.elements], run.blocks, room)
        count = run.blocks
        codes = room.radii[:count], room.indices[:count], room.escapes[: count * run.size]
        return SphereCodes(*codes), met

    for first in range(0, len(runs), workers):
        own = runs[first : first + workers]
        yield from parallel.each(partial(work, own), len(own))


def decode(row: Row) -> Tally:
    """Values of the directions."""
    how: Sphere = row.kernel.numbers
    out = row.values.array(row.format.bits)
    *sections, key = (section.array() for section in row.sections)
    own = _arguments(how, row.format, Rng(key.tobytes() or bytes(16)))
    blocks = -(-out.size // how.block)
    workers = min(parallel.shares(out.size, row.threads), max(1, blocks))
    cuts = list(pairwise(blocks * worker // workers for worker in range(workers + 1)))
    try:
        found = parallel.each(lambda n: decode_blocks(own, sections, out, *cuts[n]), workers)
    except DecodeError:  # once more, so that the reason does not depend on the number of threads
        found = [decode_blocks(own, sections, out, 0, blocks)]
    nonfinite, escaped = (sum(met) for met in zip(*found, strict=True))
    return Tally(nonfinite=nonfinite, escaped=escaped)


def _arguments(
    how: Sphere, format: Format, stream: Rng, private: Rng | None = None
) -> SphericalArguments:
    """The numbers of the operator; encoding draws from a private stream too."""
    unit = 2.0 ** -(format.mantissa + 1)
    keys = {"key": stream}
    if private is not None:
        keys |= {"radii_key": private.fork("radii"), "escapes_key": private.fork("escapes")}
    return SphericalArguments(
        **{name: tuple(key_words(rng.key)) for name, rng in keys.items()},
        size=how.block, block=how.block, limit=how.limit, dtype=format.code, scale=how.scale,
        parameter=how.parameter, radius_bits=how.radius_bits, nan_code=how.nan_code,
        least_exponent=spherical.least_exponent(format), steps=how.steps,
        cosine=math.sqrt(1 - how.alpha), room=spherical.room(how, unit), rho=how.rho,
        last_rho=how.last_rho, high=how.high,
    )  # fmt: skip


class _CodeWriter:
    """A coded section, written when there are codes for a block."""

    def __init__(self, into: Bytes, bound: int) -> None:
        self._into, self._bound, self._size = into, bound, 0
        self._codes, self._count = np.empty(CODER_BLOCK, np.uint16), 0

    def append(self, codes: npt.NDArray[np.uint16]) -> None:
        done = 0
        while done < codes.size:
            part = codes[done : done + CODER_BLOCK - self._count]
            self._codes[self._count : self._count + part.size] = part
            self._count += part.size
            done += part.size
            if self._count == CODER_BLOCK:
                self._flush()

    def ended(self) -> int:
        """Write the last block; the size of the section."""
        if self._count:
            self._flush()
        return self._size

    def _flush(self) -> None:
        codes, into = self._codes[: self._count], self._into[self._size :]
        self._size += library.coded_encode(codes, None, self._bound, into)
        self._count = 0
