"""Rows that keep the largest values before another kind encodes them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from fewbits.backend.device.kernels.places import count_ones, list_places, write_low, write_string
from fewbits.backend.device.kernels.plans import (
    BINS,
    COUNTS,
    FLAGS,
    HANDED,
    KEPT_VALUES,
    LISTED,
    LOW_BITS,
    PLACES,
    PLAN_WIDTH,
    STRING,
)
from fewbits.backend.device.kernels.rows import AT_COUNT, AT_SECTIONS, AT_VALUES
from fewbits.backend.device.kernels.selecting import DIGIT, count_digits, count_kept, take_kept
from fewbits.backend.device.kernels.spreading import (
    ADD,
    PUT,
    SUBTRACT,
    clear_values,
    spread_around,
    spread_kept,
)
from fewbits.backend.device.language import INTERPRETED
from fewbits.backend.device.launches import Launch, LineNumbers, RowGroup, work_of
from fewbits.backend.device.memory import torch_device, upload
from fewbits.backend.kernel import RANGED, Kernel, Kind
from fewbits.coding.places import widths
from fewbits.errors import SpecError

MOST_ADDRESSED = 1 << 30  # whose places have 32-bit numbers and bits
# How many bytes of a section a program writes, bits it reads, values it selects from.
_BYTES, _BITS, _SELECTED = 1024, 1024, 2048
_ALIGNMENT = 16
Inner = Callable[[RowGroup], list[Launch]]


def is_alone(before: tuple[Kernel, ...]) -> bool:
    """Whether these stages are the one that a device has."""
    return [own.kind for own in before] == [Kind.TOP_K]


def is_ranged(before: tuple[Kernel, ...]) -> bool:
    """Whether places are coded as wire version 1 has them, one after the other."""
    return is_alone(before) and before[0].option == RANGED


class _Room(NamedTuple):
    """The plan of a group's rows, on the device too, and the part of its memory to be cleared."""

    plan: LineNumbers
    there: Any
    cleared: Any


def _room(group: RowGroup, own: LineNumbers) -> _Room:
    """Memory for these rows of a group, which keep some of their values and not all."""
    assert group.kept is not None
    plan = np.zeros((len(group.lines), PLAN_WIDTH), np.int64)
    d, k = group.counts[own], group.kept[own]
    n = np.minimum(k, d - k)
    split = [widths(int(count), int(listed)) for count, listed in zip(d, n, strict=True)]
    low, zeros = np.array(split, np.int64).reshape(-1, 2).T
    rows = group.numbers[own]
    plan[rows, KEPT_VALUES], plan[rows, LISTED], plan[rows, LOW_BITS] = k, n, low
    plan[rows, STRING] = n + zeros
    passes = -(-(group.format.exponent + group.format.mantissa) // DIGIT)
    counts = -(-np.maximum(d, n + zeros) // min(_BITS, group.block))
    sizes = {
        BINS: np.full_like(d, passes * 4 << DIGIT),
        FLAGS: n + zeros,
        COUNTS: 8 * counts,
        PLACES: 4 * n,
        HANDED: k * group.format.itemsize,
    }
    at, cleared = 0, 0
    for column, size in sizes.items():
        room = -(-size // _ALIGNMENT) * _ALIGNMENT
        ends = np.cumsum(room)
        plan[rows, column] = at + ends - room
        at += int(ends[-1])
        cleared = at if column == FLAGS else cleared
    memory = torch.zeros(at, dtype=torch.uint8, device=torch_device(group.device))
    for column in sizes:
        plan[rows, column] += memory.data_ptr()
    return _Room(plan, upload(plan, group.device), memory[:cleared])


def launches(group: RowGroup, inner: Inner) -> list[Launch]:
    """Select and list, then let `inner` encode; or the reverse."""
    assert group.kept is not None
    if np.any(group.counts > MOST_ADDRESSED):
        raise SpecError(f"a device has no kernel for top-k of more than {MOST_ADDRESSED} values")
    some = np.flatnonzero(group.kept < group.counts)
    whole = np.flatnonzero(group.kept == group.counts)
    found = _inner(group, whole, group.lines[:, AT_VALUES], inner, group.direction)
    if not some.size:
        return found
    room = _room(group, some)
    handed = room.plan[:, HANDED]
    steps = _Steps(group, some, room)
    if group.direction == "encode":
        found += steps.select() + _inner(group, some, handed, inner, "encode") + steps.write()
        if group.remains:
            again = _inner(group, some, handed, inner, "decode")
            found += [own._replace(counts=False) for own in again] + steps.spread(SUBTRACT)
        return found
    found += steps.read() + _inner(group, some, handed, inner, "decode")
    return found + steps.spread(ADD if group.direction == "accumulate" else PUT)


def _inner(
    group: RowGroup, own: LineNumbers, values: LineNumbers, inner: Inner, direction: Any
) -> list[Launch]:
    """What runs the operator behind the stage, on these rows of the group."""
    if not own.size:
        return []
    assert group.kept is not None
    rows, counts = group.numbers[own], group.kept[own]
    lines = group.lines.copy()
    lines[rows, AT_VALUES], lines[rows, AT_COUNT] = values[rows], counts
    lines[rows, AT_SECTIONS:-1] = group.lines[rows, AT_SECTIONS + 1 :]
    kernel = group.kernel._replace(before=())
    behind = group._replace(
        direction=direction, kernel=kernel, numbers=rows, counts=counts, lines=lines,
        divisors=group.divisors[own], kept=None, remains=False,
    )  # fmt: skip
    return [own if own.lines is not None else own._replace(lines=lines) for own in inner(behind)]


class _Steps:
    """The launches of a selection."""

    def __init__(self, group: RowGroup, own: LineNumbers, room: _Room) -> None:
        self._group, self._room = group, room
        self._rows, self._counts = group.numbers[own], group.counts[own]
        self._format = {"EXPONENT": group.format.exponent, "MANTISSA": group.format.mantissa}

    def _launch(self, kernel: Any, counts: LineNumbers, block: int, **constants: Any) -> Launch:
        work = work_of(self._rows, counts, block)
        return Launch(kernel, work, constants | {"BLOCK": block}, (self._room.there,))

    def _planned(self, column: int) -> LineNumbers:
        found: LineNumbers = self._room.plan[self._rows, column]
        return found

    def _block(self, most: int) -> int:
        return self._group.block if self._group.device == INTERPRETED else most

    def select(self) -> list[Launch]:
        """Find the threshold, then the kept values and their places."""
        block, format = self._block(_SELECTED), self._group.format
        known = self._format | {"ALIGNED": self._group.is_aligned(0)}
        passes = -(-(format.exponent + format.mantissa) // DIGIT)
        found = [
            self._launch(count_digits, self._counts, block, PASS=number, **known)
            for number in range(passes)
        ]
        found[0] = found[0]._replace(scratch=self._room.cleared)
        found.append(self._launch(count_kept, self._counts, block, **known))
        found.append(self._launch(take_kept, self._counts, block, **known))
        return found

    def write(self) -> list[Launch]:
        """Write the section of places."""
        low = -(-self._planned(LISTED) * self._planned(LOW_BITS) // 8)
        string = -(-self._planned(STRING) // 8)
        return [
            self._launch(write_low, low, _BYTES),
            self._launch(write_string, string, _BYTES),
        ]

    def read(self) -> list[Launch]:
        """List the places of a section."""
        string, block = self._planned(STRING), self._block(_BITS)
        return [
            self._launch(count_ones, string, block)._replace(scratch=self._room.cleared),
            self._launch(list_places, string, block),
        ]

    def spread(self, how: int) -> list[Launch]:
        """Use the kept values at their places."""
        group, block = self._group, self._group.block
        others = self._planned(KEPT_VALUES) != self._planned(LISTED)
        found = []
        if how == PUT:
            wide = {"WIDE": group.format.itemsize == 4, "ALIGNED": group.is_aligned(0)}
            direct = np.where(others, 0, self._counts)
            found.append(self._launch(clear_values, direct, block, **wide)._replace(arguments=()))
        known = self._format | {"HOW": how}
        kept = np.where(others, 0, self._planned(KEPT_VALUES))
        found.append(self._launch(spread_kept, kept, block, **known))
        around = np.where(others, self._counts, 0)
        found.append(self._launch(spread_around, around, block, **known))
        return [own for own in found if len(own.work)]
