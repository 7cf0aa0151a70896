"""Units of compression, and the tables that encode and decode a batch of them in one native call.

The unit is a chunk of one parameter, never the bucket that it happens to travel in: its scale, its
randomness and its bytes depend on the parameter's name and the chunk's place in it alone, so
another bucket size, a rebuilt bucket or another owner gives bit-identical results.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits import _native
from fewbits.core.operator import Operator, Parts
from fewbits.core.vector import Vector
from fewbits.errors import DecodeError
from fewbits.kernels import parallel
from fewbits.kernels import units as kernels
from fewbits.kernels.formats import FLOAT32, FLOAT64, Format
from fewbits.kernels.units import Tally
from fewbits.rng import Rng, token
from fewbits.schemes.comm import Buffer

CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class Unit:
    """One chunk of a parameter: where it lies in the batch's flat vector, and its operators."""

    name: str
    start: int
    count: int
    worker: Operator
    master: Operator


def total_format(format: Format) -> Format:
    """The format in which decoded vectors are summed."""
    return FLOAT64 if format == FLOAT64 else FLOAT32


def chunks(name: str, start: int, count: int, worker: Operator, master: Operator) -> list[Unit]:
    """The units of a parameter that lies at `start` in the batch."""
    return [
        Unit(f"{name}/{at // CHUNK}", start + at, min(CHUNK, count - at), worker, master)
        for at in range(0, count, CHUNK)
    ]


@dataclass(frozen=True, slots=True)
class Slot:
    """A unit's place in a payload: operator, sections' offsets and sizes, values' place."""

    operator: Operator
    name: str
    at: int
    sizes: tuple[int, ...]
    start: int
    count: int


def slots(units: Sequence[Unit], side: str, format: Format) -> tuple[list[Slot], int]:
    """Slots for `units` in a row, and the payload's length; `side` is worker or master."""
    placed, at = [], 0
    for unit in units:
        operator: Operator = getattr(unit, side)
        sizes = tuple(section.size for section in operator.layout(unit.count, format))
        placed.append(Slot(operator, unit.name, at, sizes, unit.start, unit.count))
        at += sum(sizes)
    return placed, at


class Batch:
    """Slots bound to buffers and to a flat vector: encode, decode or accumulate them all at once.

    Operators with a native kernel share one table and one call; others are called one by one.
    """

    def __init__(
        self,
        entries: Sequence[tuple[Slot, Buffer]],
        format: Format,
        *,
        threads: int = 1,
        together: int = 1,
    ) -> None:
        self.format, self.threads = format, threads
        self._together = together  # neighbours that share a place, so one thread must add them
        self.entries = list(entries)
        self._kinds = [slot.operator.native(format) for slot, _ in self.entries]
        self._in_table = [i for i, kind in enumerate(self._kinds) if kind is not None]
        self._alone = [i for i, kind in enumerate(self._kinds) if kind is None]
        self.table = kernels.new_table(len(self._in_table))
        self._starts = np.array([self.entries[i][0].start for i in self._in_table], np.uint64)
        self._tokens = [token(slot.name) for slot, _ in self.entries]
        for row, i in zip(self.table, self._in_table, strict=True):
            self._fill(row, *self.entries[i], self._kinds[i])

    def _fill(self, row: Any, slot: Slot, buffer: Buffer, kind: tuple[int, int] | None) -> None:
        assert kind is not None
        kernels.set_kernel(row, kind, self.format, slot.count)
        kernels.set_sections(row, _native.address(buffer) + slot.at, slot.sizes)

    def encode(self, values: npt.NDArray[Any], rng: Rng) -> Tally:
        """Encode the vector's units; each draws from the stream that its name forks from `rng`."""
        keys = [rng.child_key(name) for name in self._tokens]
        if self._in_table:
            joined = b"".join(keys[i] for i in self._in_table)
            self.table["key"] = np.frombuffer(joined, "V16")
        tally = self._run("encode", values)
        for i in self._alone:
            slot, buffer = self.entries[i]
            x = Vector(values[slot.start : slot.start + slot.count], self.format)
            tally = kernels.total(
                (tally, slot.operator.encode(x, Rng(keys[i]), _parts(slot, buffer)))
            )
        return tally

    def decode(self, values: npt.NDArray[Any]) -> Tally:
        """Decode every unit into its place."""

        def alone(slot: Slot, parts: Parts, place: npt.NDArray[Any]) -> Tally:
            return slot.operator.decode(parts, Vector(place, self.format))

        return kernels.total((self._run("decode", values), self._one_by_one(alone, values)))

    def accumulate(self, totals: npt.NDArray[Any]) -> Tally:
        """Add every decoded unit to its place, those of one place in the order of the entries."""

        def alone(slot: Slot, parts: Parts, place: npt.NDArray[Any]) -> Tally:
            return slot.operator.accumulate(parts, self.format, place)

        return kernels.total((self._run("accumulate", totals), self._one_by_one(alone, totals)))

    def _run(self, direction: kernels.Direction, values: npt.NDArray[Any]) -> Tally:
        if not self._in_table:
            return Tally()
        base = np.uint64(_native.address(values))
        self.table["values"] = base + self._starts * np.uint64(values.itemsize)
        try:
            return self._in_threads(direction)
        except DecodeError as error:
            error.unit = self._in_table[error.unit or 0]
            raise

    def _in_threads(self, direction: kernels.Direction) -> Tally:
        places = len(self.table) // self._together

        def work(number: int) -> Tally:
            cuts = [places * k // self.threads * self._together for k in (number, number + 1)]
            try:
                return kernels.run(direction, self.table[cuts[0] : cuts[1]])
            except DecodeError as error:
                error.unit = cuts[0] + (error.unit or 0)
                raise

        return kernels.total(parallel.each(work, self.threads))

    def _one_by_one(
        self, work: Callable[[Slot, Parts, npt.NDArray[Any]], Tally], values: npt.NDArray[Any]
    ) -> Tally:
        tally = Tally()
        for i in self._alone:
            slot, buffer = self.entries[i]
            try:
                own = work(slot, _parts(slot, buffer), values[slot.start : slot.start + slot.count])
            except DecodeError as error:
                error.unit = i
                raise
            tally = kernels.total((tally, own))
        return tally


def _parts(slot: Slot, buffer: Buffer) -> tuple[Buffer, ...]:
    parts, at = [], slot.at
    for size in slot.sizes:
        parts.append(buffer[at : at + size])
        at += size
    return tuple(parts)
