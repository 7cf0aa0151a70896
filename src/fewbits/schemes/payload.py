"""What one rank sends another in a hop: the sections of some units, one after the other.

Sections whose length depends on the values are written where the largest would fit and then moved
together. Their lengths, four bytes each, come first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from fewbits import _native
from fewbits.core.operator import Operator
from fewbits.errors import DecodeError
from fewbits.kernels.formats import Format
from fewbits.schemes.comm import Buffer

CHUNK = 65_536
_LENGTH = np.dtype("<u4")
_SLACK = 256  # bytes by which a payload may outgrow the last one, beside a part of it
Sizes = npt.NDArray[np.uint64]
"""Bytes of each slot's sections, one row for each slot."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One chunk of a parameter: where it lies in the batch's flat vector, and its operators.

    `shard` decides which rank owns it, whatever batch it travels in; None leaves that to its place.
    """

    name: str
    start: int
    count: int
    worker: Operator
    master: Operator
    shard: int | None = None

    @property
    def parameter(self) -> str:
        """The name of the parameter that it is a chunk of."""
        return self.name.rpartition("/")[0]

    @property
    def place(self) -> slice:
        """Where it lies in the batch's vector."""
        return slice(self.start, self.start + self.count)


@dataclass(frozen=True, slots=True)
class Slot:
    """A unit in a payload: its operator, the largest sizes of its sections, its values' place."""

    operator: Operator
    name: str
    start: int
    count: int
    sizes: tuple[int, ...]
    varies: tuple[bool, ...]


class Payload:
    """Slots bound to a buffer; the first `length` bytes of it are the payload at present.

    `offsets` and `sizes` say where in the buffer each slot's sections are, a row for each slot.
    """

    def __init__(
        self, units: Sequence[Unit], side: Literal["worker", "master"], format: Format
    ) -> None:
        self.slots = [_slot(unit, side, format) for unit in units]
        columns = max((len(slot.sizes) for slot in self.slots), default=0)
        self._largest = _matrix([slot.sizes for slot in self.slots], columns)
        self._varies = _matrix([slot.varies for slot in self.slots], columns).astype(bool)
        self.fixed = not self._varies.any()
        self._table = int(self._varies.sum()) * _LENGTH.itemsize
        self._roomy = self._packed(self._largest)
        self.capacity = self._table + int(self._largest.sum())
        self.buffer = np.zeros(self.capacity, np.uint8)
        self.length = self.capacity if self.fixed else 0
        self.make_room()

    @property
    def data(self) -> Buffer:
        """The payload's bytes."""
        return self.buffer[: self.length]

    @property
    def expected(self) -> int:
        """Within how many bytes the next one will probably be: this one and a little more."""
        if self.fixed or self.length == 0:
            return self.length
        return min(self.capacity, self.length + self.length // 64 + _SLACK)

    def make_room(self) -> None:
        """Let every section lie where the largest one would fit."""
        self.offsets, self.sizes = self._roomy, self._largest

    def close(self, sizes: Sizes) -> None:
        """Move sections together that were written with room and have these sizes."""
        if self.fixed:
            return
        offsets = self._packed(sizes)
        for there, here, size in np.stack((offsets, self.offsets, sizes), -1).reshape(-1, 3):
            self.buffer[there : there + size] = self.buffer[here : here + size]
        self.buffer[: self._table] = sizes[self._varies].astype(_LENGTH).view(np.uint8)
        self.length = self._table + int(sizes.sum())
        self.offsets, self.sizes = offsets, sizes

    def open(self) -> None:
        """Find the sections of a payload that has arrived; `length` has been set."""
        if self.fixed:
            return
        sizes = self._largest.copy()
        if self.length >= self._table:
            sizes[self._varies] = self.buffer[: self._table].view(_LENGTH)
        if (sizes > self._largest).any() or self._table + int(sizes.sum()) != self.length:
            raise DecodeError(f"the lengths of the sections do not add up to {self.length} bytes")
        self.offsets, self.sizes = self._packed(sizes), sizes

    def parts(self, number: int) -> tuple[Buffer, ...]:
        """The sections of slot `number`."""
        places = zip(self.offsets[number], self.sizes[number], strict=True)
        found = [self.buffer[at : at + size] for at, size in places]
        return tuple(found[: len(self.slots[number].sizes)])

    def addresses(self) -> Sizes:
        """Where the sections lie in memory."""
        return self.offsets + np.uint64(_native.address(self.buffer))

    def _packed(self, sizes: Sizes) -> Sizes:
        """Offsets of sections of these sizes without gaps."""
        ends = np.cumsum(sizes.reshape(-1), dtype=np.uint64).reshape(sizes.shape)
        return ends - sizes + np.uint64(self._table)


def chunks(
    name: str,
    start: int,
    count: int,
    worker: Operator,
    master: Operator,
    shards: Sequence[int] | None = None,
) -> list[Unit]:
    """The units of a parameter that lies at `start` in the batch; `shards` has one for each."""
    return [
        Unit(
            f"{name}/{number}",
            start + number * CHUNK,
            min(CHUNK, count - number * CHUNK),
            worker,
            master,
            None if shards is None else shards[number],
        )
        for number in range(-(-count // CHUNK))
    ]


def extent(units: Sequence[Unit]) -> int:
    """How long a vector is that holds the units; there may be gaps between them."""
    return max((unit.start + unit.count for unit in units), default=0)


def _slot(unit: Unit, side: str, format: Format) -> Slot:
    operator: Operator = getattr(unit, side)
    sections = operator.layout(unit.count, format)
    sizes = tuple(section.size for section in sections)
    varies = tuple(section.varies for section in sections)
    return Slot(operator, unit.name, unit.start, unit.count, sizes, varies)


def _matrix(rows: Sequence[Sequence[int]], columns: int) -> Sizes:
    """Rows of unequal length, filled up with zeros."""
    matrix = np.zeros((len(rows), columns), np.uint64)
    for number, row in enumerate(rows):
        matrix[number, : len(row)] = row
    return matrix
