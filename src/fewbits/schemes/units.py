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
    """Slots bound to buffers and to a flat vector: encode or decode them all at once.

    Operators with a native kernel share one table and one call; others are called one by one.
    """

    def __init__(
        self,
        entries: Sequence[tuple[Slot, Buffer]],
        format: Format,
        *,
        threads: int = 1,
    ) -> None:
        self.format, self.threads = format, threads
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

    def _run(self, direction: kernels.Direction, values: npt.NDArray[Any]) -> Tally:
        try:
            return _run_table(direction, self.table, self._starts, values, threads=self.threads)
        except DecodeError as error:
            error.unit = self._in_table[error.unit or 0]
            raise

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


class Summation:
    """The mean or the sum of every slot's terms, one from each buffer, in the order of the buffers.

    A place is cleared, grows and is divided in neighbouring rows of one table, so that it stays in
    the cache all the while.
    """

    def __init__(
        self,
        slots: Sequence[Slot],
        buffers: Sequence[Buffer],
        format: Format,
        *,
        divisor: int = 1,
        threads: int = 1,
    ) -> None:
        self.format, self.threads, self.buffers, self.divisor = format, threads, buffers, divisor
        self._alone = [slot for slot in slots if slot.operator.native(format) is None]
        together = [slot for slot in slots if slot.operator.native(format) is not None]
        self._rows = len(buffers) + 2
        self.table = kernels.new_table(self._rows * len(together))
        starts = np.array([slot.start for slot in together], np.uint64)
        self._starts = np.repeat(starts, self._rows)
        for number, slot in enumerate(together):
            self._fill(self.table[self._rows * number : self._rows * (number + 1)], slot)

    def _fill(self, rows: kernels.Table, slot: Slot) -> None:
        kind = slot.operator.native(self.format)
        assert kind is not None
        kernels.set_kernel(rows[0], (kernels.CLEAR, 0), self.format, slot.count)
        for row, buffer in zip(rows[1:-1], self.buffers, strict=True):
            kernels.set_kernel(row, kind, self.format, slot.count)
            kernels.set_sections(row, _native.address(buffer) + slot.at, slot.sizes)
        kernels.set_kernel(rows[-1], (kernels.DIVIDE, 0), self.format, slot.count)
        rows[-1]["first"] = self.divisor

    def run(self, totals: npt.NDArray[Any]) -> Tally:
        """Fill `totals`; a `DecodeError` has the number of the bad term's buffer as its `unit`."""
        try:
            tally = _run_table(
                "accumulate",
                self.table,
                self._starts,
                totals,
                threads=self.threads,
                together=self._rows,
            )
        except DecodeError as error:
            error.unit = (error.unit or 0) % self._rows - 1
            raise
        return kernels.total((tally, *(self._one(slot, totals) for slot in self._alone)))

    def _one(self, slot: Slot, totals: npt.NDArray[Any]) -> Tally:
        place = totals[slot.start : slot.start + slot.count]
        place.fill(0)
        tally = Tally()
        for number, buffer in enumerate(self.buffers):
            try:
                own = slot.operator.accumulate(_parts(slot, buffer), self.format, place)
            except DecodeError as error:
                error.unit = number
                raise
            tally = kernels.total((tally, own))
        with np.errstate(all="ignore"):  # NaN and infinity are the caller's to judge
            np.divide(place, place.dtype.type(self.divisor), out=place)
        return tally


def _run_table(
    direction: kernels.Direction,
    table: kernels.Table,
    starts: npt.NDArray[np.uint64],
    values: npt.NDArray[Any],
    *,
    threads: int,
    together: int = 1,
) -> Tally:
    """Run a table whose rows begin at `starts` of `values`; `together` rows go to one thread."""
    if not table.size:
        return Tally()
    table["values"] = np.uint64(_native.address(values)) + starts * np.uint64(values.itemsize)
    groups = table.size // together

    def work(number: int) -> Tally:
        first, last = (groups * k // threads * together for k in (number, number + 1))
        try:
            return kernels.run(direction, table[first:last])
        except DecodeError as error:
            error.unit = first + (error.unit or 0)
            raise

    return kernels.total(parallel.each(work, threads))


def _parts(slot: Slot, buffer: Buffer) -> tuple[Buffer, ...]:
    parts, at = [], slot.at
    for size in slot.sizes:
        parts.append(buffer[at : at + size])
        at += size
    return tuple(parts)
