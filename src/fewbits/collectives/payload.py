"""The payload of one rank for another in a hop: the sections of some units, one after the other.

Sections whose length depends on the values are written where the largest would fit and then moved
together. Their lengths, four bytes each, come first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from fewbits.backend.buffers import Buffer
from fewbits.core.operator import Operator
from fewbits.errors import DecodeError
from fewbits.reference.formats import Format
from fewbits.wire.sections import Section, check_lengths

UNIT = 65_536  # values of a parameter that are compressed together, unless a session says otherwise
_LEAST_UNIT = 256
_EACH = 4  # units of every rank, so that owners' shares differ by a quarter at most
_MANY_RANKS = 16  # with fewer of them units stay as they are
_LENGTH = np.dtype("<u4")
_SLACK = 256  # bytes by which a payload may outgrow the last one, beside a part of it
Sizes = npt.NDArray[np.uint64]
"""Bytes of each slot's sections, one row for each slot."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Some values of a parameter: their place in the batch's flat vector, and their operators.

    `shard` decides which rank owns it, whatever batch it travels in; if it is None, its place does.
    """

    name: str
    start: int
    count: int
    uplink: Operator
    downlink: Operator
    shard: int | None = None

    @property
    def parameter(self) -> str:
        return self.name.rpartition("/")[0]

    @property
    def place(self) -> slice:
        return slice(self.start, self.start + self.count)


@dataclass(frozen=True, slots=True)
class Slot:
    """A unit in a payload: its operator and sections, and the place of its values."""

    operator: Operator
    name: str
    start: int
    count: int
    layout: tuple[Section, ...]
    sizes: tuple[int, ...]  # the largest ones

    @property
    def least(self) -> tuple[int, ...]:
        return tuple(section.least for section in self.layout)

    @property
    def varies(self) -> tuple[bool, ...]:
        return tuple(section.varies for section in self.layout)


class Payload:
    """Slots bound to some memory; the first `length` bytes of it are the payload at present.

    `offsets` and `sizes` say where in it each slot's sections are, a row for each slot.
    """

    def __init__(
        self, units: Sequence[Unit], side: Literal["uplink", "downlink"], format: Format
    ) -> None:
        self._take_slots(units, side, format)
        columns = self.columns
        self._table = int(self._varies.sum()) * _LENGTH.itemsize
        self._least = _matrix([slot.least for slot in self.slots], columns)
        self._roomy = self._packed(self._largest)
        self.capacity = self._table + int(self._largest.sum())
        self.memory = Buffer.zeros(self.capacity)
        self.length = self.capacity if self.fixed else 0
        self.make_room()

    def _take_slots(
        self, units: Sequence[Unit], side: Literal["uplink", "downlink"], format: Format
    ) -> None:
        self.slots = [_slot(unit, side, format) for unit in units]
        self.columns = columns = max((len(slot.sizes) for slot in self.slots), default=0)
        self._largest = _matrix([slot.sizes for slot in self.slots], columns)
        self._varies = _matrix([slot.varies for slot in self.slots], columns).astype(bool)
        self.fixed = not self._varies.any()

    @property
    def data(self) -> Buffer:
        return self.memory[: self.length]

    @property
    def expected(self) -> int:
        """The probable largest length of the next payload: that of this one and a little more."""
        if self.fixed or self.length == 0:
            return self.length
        return min(self.capacity, self.length + self.length // 64 + _SLACK)

    def make_room(self) -> None:
        """Place every section so that the largest one would fit."""
        self.offsets, self.sizes = self._roomy, self._largest

    def close(self, sizes: Sizes) -> None:
        """Move the sections together, which have these sizes and were written with gaps."""
        if self.fixed:
            return
        offsets, own = self._packed(sizes), self.memory.array()
        for there, here, size in np.stack((offsets, self.offsets, sizes), -1).reshape(-1, 3):
            own[there : there + size] = own[here : here + size]
        own[: self._table] = sizes[self._varies].astype(_LENGTH).view(np.uint8)
        self.length = self._table + int(sizes.sum())
        self.offsets, self.sizes = offsets, sizes

    def open(self) -> None:
        """Find the sections of a payload that has arrived; `length` has been set."""
        if self.fixed:
            return
        sizes = self._largest.copy()
        if self.length >= self._table:
            sizes[self._varies] = self.memory[: self._table].array(_LENGTH)
        if (sizes > self._largest).any() or self._table + int(sizes.sum()) != self.length:
            raise DecodeError(f"the lengths of the sections do not add up to {self.length} bytes")
        if (sizes < self._least).any():
            self._refuse(sizes)
        self.offsets, self.sizes = self._packed(sizes), sizes

    def _refuse(self, sizes: Sizes) -> None:
        """Raise `DecodeError` that names the section that is too short."""
        for slot, own in zip(self.slots, sizes.tolist(), strict=True):
            check_lengths(slot.layout, own[: len(slot.layout)])

    def parts(self, number: int) -> tuple[Buffer, ...]:
        places = zip(self.offsets[number].tolist(), self.sizes[number].tolist(), strict=True)
        found = [self.memory[at : at + size] for at, size in places]
        return tuple(found[: len(self.slots[number].sizes)])

    def _packed(self, sizes: Sizes) -> Sizes:
        ends = np.cumsum(sizes.reshape(-1), dtype=np.uint64).reshape(sizes.shape)
        return ends - sizes + np.uint64(self._table)


def units_of(
    name: str,
    start: int,
    count: int,
    uplink: Operator,
    downlink: Operator,
    shards: Sequence[int] | None = None,
    *,
    size: int = UNIT,
) -> list[Unit]:
    """The units of a parameter that lies at `start` in the batch; `shards` has one for each."""
    return [
        Unit(
            f"{name}/{number}",
            start + number * size,
            min(size, count - number * size),
            uplink,
            downlink,
            None if shards is None else shards[number],
        )
        for number in range(-(-count // size))
    ]


def unit_for(values: int, ranks: int) -> int:
    """How large units are, if so many ranks own those of a model with so many values.

    From 16 ranks on each rank gets four units at least, or else the owner of a whole one would send
    it to all others while many ranks own nothing. It is a power of two, and 65,536 if that is few.
    """
    share = values // (_EACH * ranks)
    if ranks < _MANY_RANKS or share >= UNIT:
        return UNIT
    return max(1 << max(share.bit_length() - 1, 0), _LEAST_UNIT)


def extent(units: Sequence[Unit]) -> int:
    """The length of a vector that holds the units, with the gaps between them."""
    return max((unit.start + unit.count for unit in units), default=0)


def _slot(unit: Unit, side: str, format: Format) -> Slot:
    operator: Operator = getattr(unit, side)
    sections = operator.layout(unit.count, format)
    sizes = tuple(section.size for section in sections)
    return Slot(operator, unit.name, unit.start, unit.count, sections, sizes)


def _matrix(rows: Sequence[Sequence[int]], columns: int) -> Sizes:
    matrix = np.zeros((len(rows), columns), np.uint64)
    for number, row in enumerate(rows):
        matrix[number, : len(row)] = row
    return matrix
