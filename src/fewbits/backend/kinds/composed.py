"""Rows of stages before an operator.

Stage number $i$ draws from the stream that $i$ names below the row's, and the operator from the one
after the last stage's.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits.backend.buffers import Buffer
from fewbits.backend.kernel import Row, RowDirection, Written
from fewbits.backend.kinds import stages
from fewbits.reference.formats import Bits
from fewbits.reference.tally import Tally
from fewbits.rng import Rng

RunRow = Callable[[RowDirection, Row], Written]


def encode(row: Row, run: RunRow) -> Written:
    """Split by every stage, then encode the rest with `run`."""
    bits, rng, format = row.values.array(row.format.bits), Rng(row.key), row.format
    tallies, at = [], 0
    for number, stage in enumerate(row.kernel.before):
        end = at + stages.sections(stage)
        parts = tuple(section.array() for section in row.sections[at:end])
        bits, tally = stages.split(
            stage, bits, format, rng.fork(number), parts, row.threads, own=number > 0
        )
        tallies.append(tally)
        at = end
    own = rng.fork(len(row.kernel.before))
    last, sizes = run("encode", _inner(row, bits, at, own.key))
    # What saturates in one stage does so again in the next: no value is to be counted twice.
    saturated = max(tally.saturated for tally in (*tallies, last))
    # Later stages see values that are not finite multiplied or dropped: the first one counts.
    met = Tally(saturated, tallies[0].nonfinite, last.escaped)
    return Written(met, (*(section.size for section in row.sections[:at]), *sizes))


def decode(row: Row, run: RunRow) -> Tally:
    """Decode, then join by every stage."""
    out = row.values.array(row.format.bits)
    handed, last = _handed(row, out.size, run, out)
    side = _side(row, 0)
    tally = stages.join(row.kernel.before[0], side, handed, row.format, out, row.threads)
    return tally._replace(escaped=last.escaped)


def accumulate(row: Row, totals: npt.NDArray[Any], run: RunRow) -> Tally:
    """Decode, join by every stage but the first, and add by that."""
    handed, last = _handed(row, totals.size, run)
    side = _side(row, 0)
    tally = stages.add(row.kernel.before[0], side, handed, row.format, totals, row.threads)
    return tally._replace(escaped=last.escaped)


def _inner(row: Row, bits: Bits, at: int, key: bytes) -> Row:
    kernel = row.kernel._replace(before=())
    return Row(kernel, row.format, Buffer.of(bits), row.sections[at:], key, row.threads)


def _handed(row: Row, count: int, run: RunRow, out: Bits | None = None) -> tuple[Bits, Tally]:
    """The vector that the first stage handed on, and the operator's tally.

    Stages work in place or from one of two rooms to the other. The first one is `out` if it is
    given, and what the first stage handed on is where that stage can join it into `out`.
    """
    before = row.kernel.before
    counts = [count]
    for stage in before:
        counts.append(stages.reduced(stage, counts[-1]))
    place = [0]  # the room of each vector
    for stage in before:
        place.append(place[-1] if stages.in_place(stage) else 1 - place[-1])
    sizes = [
        max(
            (size for size, room in zip(counts[1:], place[1:], strict=True) if room == own),
            default=0,
        )
        for own in (0, 1)
    ]
    rooms = [np.empty(sizes[0], row.format.bits) if out is None else out]
    rooms.append(np.empty(sizes[1], row.format.bits))
    bits = rooms[place[-1]][: counts[-1]]
    at = sum(stages.sections(stage) for stage in before)
    last, _ = run("decode", _inner(row, bits, at, row.key))
    for number in reversed(range(1, len(before))):
        joined = rooms[place[number]][: counts[number]]
        stages.join(before[number], _side(row, number), bits, row.format, joined, row.threads)
        bits = joined
    return bits, last


def _side(row: Row, number: int) -> stages.SideParts:
    """The side sections of a stage."""
    at = sum(stages.sections(stage) for stage in row.kernel.before[:number])
    own = row.sections[at : at + stages.sections(row.kernel.before[number])]
    return tuple(section.array() for section in own)
