"""Memories in the table that encodes: one call makes messages, writes and remembers them.

Each unit has two neighbouring rows. The first writes its message to the place of the new memory.
The second encodes it and subtracts what it has sent. So a unit stays in the cache and is read once.
This is for operators that send few values. For dense ones NumPy's steps of `feedback.Rule`, which
is the specification, were no slower.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits.backend.buffers import Buffer
from fewbits.backend.kernel import Kernel, Kind
from fewbits.backend.table import Table
from fewbits.collectives.payload import Unit
from fewbits.collectives.units import Batch, run_table
from fewbits.feedback import Rule
from fewbits.feedback.store import MemoryPair
from fewbits.reference.tally import Tally

_ROWS = 2
_MESSAGE, _ENCODE = range(_ROWS)
_VALUES, _NOW, _THEN = range(3)  # which array a row's numbers are in
_CLEAR, _COMBINE = Kernel(Kind.CLEAR), Kernel(Kind.COMBINE)
_Array = npt.NDArray[Any]


def can_remember(batch: Batch, rules: Sequence[tuple[Unit, Rule]]) -> bool:
    """Whether the rows of a batch's units can keep the memories of these rules."""
    numbers = {slot.name: number for number, slot in enumerate(batch.slots)}
    return all(
        unit.name in numbers
        and not rule.momentum
        and not rule.shifts
        and rule.step == 1
        and batch.table.can_leave_remains(numbers[unit.name])
        for unit, rule in rules
    )


class RememberingBatch:
    """A batch's table with the memory's rows between its own."""

    def __init__(self, batch: Batch, rules: Sequence[tuple[Unit, Rule]]) -> None:
        decays = {unit.name: rule.decay for unit, rule in rules}
        self._batch, count = batch, len(batch.table)
        self._table = Table(_ROWS * count, batch.table.columns)
        self._table.copy_rows(slice(_ENCODE, None, _ROWS), batch.table)
        self._sources = np.zeros((_ROWS * count, 3), np.intp)  # of values, x and y
        for number, slot in enumerate(batch.slots):
            message, encode = _ROWS * number + _MESSAGE, _ROWS * number + _ENCODE
            kept = slot.name in decays
            self._table.let_encode(encode, remains=kept)
            if kept:
                self._add(message, slot.count, decays[slot.name])
                self._sources[encode, 0] = _THEN
            else:
                self._table.describe(message, _CLEAR, batch.format, 0)
        self._offsets = np.repeat(batch.offsets, _ROWS)

    def run(self, values: _Array, pair: MemoryPair) -> Tally:
        """Encode the messages made from `values` and the memory; write `pair.then`."""
        table, encoding = self._table, slice(_ENCODE, None, _ROWS)
        arrays = values, pair.now[0], pair.then[0]
        bases = np.array([Buffer.of(array).address for array in arrays], np.uint64)
        addresses = bases[self._sources] + self._offsets[:, None]
        table.bind_each(addresses[:, 0])
        table.place_terms(addresses[:, 1:])
        table.take_places(encoding, self._batch.table)
        run_table("accumulate", table, threads=self._batch.threads, together=_ROWS)
        self._batch.table.take_sizes(table, encoding)
        return table.tally(encoding)

    def _add(self, at: int, count: int, decay: float) -> None:
        """The row of a message: adds values and memory at the place of the new memory."""
        format = self._batch.format
        self._table.describe(at, _COMBINE, format, count)
        self._table.combine(at, (1.0, decay), count * format.itemsize)
        self._sources[at] = _THEN, _VALUES, _NOW
