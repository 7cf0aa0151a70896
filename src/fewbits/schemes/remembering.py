"""Memories in the table that encodes: one native call makes messages, writes and remembers them.

For each unit four neighbouring rows: its message, its encoding, what that decodes to, and what is
kept of it, so that a unit stays in the cache all the while. `feedback.Rule` is the specification,
and does the same one step after the other for whatever has no rows here.
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

_ROWS = 4
_MESSAGE, _ENCODE, _DECODE, _KEEP = range(_ROWS)
_VALUES, _NOW, _THEN = range(3)  # which array a row's numbers are in
Array = npt.NDArray[Any]
Source = int  # _VALUES, _NOW or _THEN


def can_remember(batch: Batch, rules: Sequence[tuple[Unit, Rule]]) -> bool:
    """Whether a batch's units with these rules all have rows."""
    rows = {slot.name: row for slot, row in zip(batch.slots, batch.table, strict=True)}
    return all(
        unit.name in rows and not rule.momentum and _has_rows(rule, rows[unit.name])
        for unit, rule in rules
    )


def _has_rows(rule: Rule, row: Any) -> bool:
    """The size of a coded section, which decoding needs, is not known before the call."""
    coded = int(row["kind"]) == kernels.NATURAL and int(row["option"]) & kernels.CODED
    return _leaves_remains(rule, row) or not coded


def _leaves_remains(rule: Rule, row: Any) -> bool:
    """Whether the memory is the message but for the few values that were sent."""
    return bool(row["kept"]) and not rule.shifts and rule.step == 1


class Remembering:
    """A batch's table with the memory's rows between its own."""

    def __init__(self, batch: Batch, rules: Sequence[tuple[Unit, Rule]]) -> None:
        by_name = {unit.name: rule for unit, rule in rules}
        self._batch, count = batch, len(batch.table)
        self._table = kernels.new_table(_ROWS * count)
        self._sources = np.zeros((_ROWS * count, 3), np.intp)  # of values, x and y
        for number, (slot, own) in enumerate(zip(batch.slots, batch.table, strict=True)):
            first = _ROWS * number
            for at in range(first, first + _ROWS):
                kernels.set_kernel(self._table[at], (kernels.CLEAR, 0), batch.format, 0)
            self._table[first + _ENCODE] = own
            self._table[first + _ENCODE]["encodes"] = True
            if slot.name in by_name:
                self._describe(first, by_name[slot.name], own)
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
        for row in (_ENCODE, _DECODE):
            for field in ("key", "sections", "sizes"):
                table[field][row::_ROWS] = own[field]
        table["sizes"][_DECODE::_ROWS][table["kind"][_DECODE::_ROWS] == kernels.CLEAR] = 0
        run_rows("accumulate", table, threads=self._batch.threads, together=_ROWS)
        written = table[_ENCODE::_ROWS]
        own["sizes"] = written["sizes"]
        return kernels.tally(written)

    def _describe(self, first: int, rule: Rule, own: Any) -> None:
        """The rows of one unit that has a memory."""
        sign = -1.0 if rule.shifts else 1.0
        if _leaves_remains(rule, own):
            self._combine(first + _MESSAGE, own, _THEN, (_VALUES, 1.0), (_NOW, 1.0))
            self._table[first + _ENCODE]["remains"] = True
            self._sources[first + _ENCODE, 0] = _THEN
            return
        self._combine(first + _MESSAGE, own, _VALUES, (_VALUES, 1.0), (_NOW, sign))
        decode = self._table[first + _DECODE : first + _DECODE + 1]
        decode[0] = own
        decode["decodes"] = True
        self._sources[first + _DECODE, 0] = _THEN
        other: Source = _NOW if rule.shifts else _VALUES
        self._combine(first + _KEEP, own, _THEN, (_THEN, sign * -rule.step), (other, 1.0))

    def _combine(
        self,
        at: int,
        own: Any,
        into: Source,
        x: tuple[Source, float],
        y: tuple[Source, float],
    ) -> None:
        """A row that sets an array to factor times x plus factor times y."""
        format, count = self._batch.format, int(own["count"])
        row = self._table[at]
        kernels.set_kernel(row, (kernels.COMBINE, 0), format, count)
        row["factors"] = x[1], y[1]
        row["sizes"][:2] = count * format.itemsize
        self._sources[at] = into, x[0], y[0]
