"""Memories in the table that encodes: one native call makes messages, writes and remembers them.

For each unit two neighbouring rows: its message, which is written where the new memory will be, and
its encoding, which takes away at its places what it has sent. So a unit stays in the cache, and is
read once. That is for operators that send few values; for dense ones NumPy's steps of
`feedback.Rule`, which is the specification, were no slower.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits import _native
from fewbits.feedback import Rule
from fewbits.feedback.store import Pair
from fewbits.kernels import units as kernels
from fewbits.kernels.units import Tally
from fewbits.schemes.payload import Unit
from fewbits.schemes.units import Batch, run_rows

_ROWS = 2
_MESSAGE, _ENCODE = range(_ROWS)
_VALUES, _NOW, _THEN = range(3)  # which array a row's numbers are in
Array = npt.NDArray[Any]


def can_remember(batch: Batch, rules: Sequence[tuple[Unit, Rule]]) -> bool:
    """Whether a batch's units with these rules all have rows."""
    rows = {slot.name: row for slot, row in zip(batch.slots, batch.table, strict=True)}
    return all(
        unit.name in rows and not rule.momentum and _leaves_remains(rule, rows[unit.name])
        for unit, rule in rules
    )


def _leaves_remains(rule: Rule, row: Any) -> bool:
    """Whether the memory is the message but for the few values that were sent."""
    return bool(row["kept"]) and not rule.shifts and rule.step == 1


class Remembering:
    """A batch's table with the memory's rows between its own."""

    def __init__(self, batch: Batch, rules: Sequence[tuple[Unit, Rule]]) -> None:
        remembered = {unit.name for unit, _ in rules}
        self._batch, count = batch, len(batch.table)
        self._table = kernels.new_table(_ROWS * count)
        self._sources = np.zeros((_ROWS * count, 3), np.intp)  # of values, x and y
        for number, (slot, own) in enumerate(zip(batch.slots, batch.table, strict=True)):
            message, encode = _ROWS * number + _MESSAGE, _ROWS * number + _ENCODE
            kernels.set_kernel(self._table[message], (kernels.CLEAR, 0), batch.format, 0)
            self._table[encode] = own
            self._table[encode]["encodes"] = True
            if slot.name in remembered:
                self._add(message, int(own["count"]))
                self._table[encode]["remains"] = True
                self._sources[encode, 0] = _THEN
        self._combining = np.flatnonzero(self._table["kind"] == kernels.COMBINE)
        self._starts = np.repeat(batch.starts, _ROWS) * np.uint64(batch.format.itemsize)

    def run(self, values: Array, pair: Pair) -> Tally:
        """Encode the messages that `values` and the memory make; the new memory is `pair.then`."""
        table, own = self._table, self._batch.table
        arrays = values, pair.now[0], pair.then[0]
        bases = np.array([_native.address(array) for array in arrays], np.uint64)
        addresses = bases[self._sources] + self._starts[:, None]
        table["values"] = addresses[:, 0]
        rows = self._combining
        table["sections"][rows, :2] = addresses[rows, 1:]
        for field in ("key", "sections", "sizes"):
            table[field][_ENCODE::_ROWS] = own[field]
        run_rows("accumulate", table, threads=self._batch.threads, together=_ROWS)
        written = table[_ENCODE::_ROWS]
        own["sizes"] = written["sizes"]
        return kernels.tally(written)

    def _add(self, at: int, count: int) -> None:
        """The row of a message: values and memory, added where the new memory will be."""
        row, size = self._table[at], count * self._batch.format.itemsize
        kernels.set_kernel(row, (kernels.COMBINE, 0), self._batch.format, count)
        row["factors"] = 1.0, 1.0
        row["sizes"][:2] = size
        self._sources[at] = _THEN, _VALUES, _NOW
