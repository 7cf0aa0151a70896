"""The arithmetic of memories as tables of rows, for memories that lie where the values lie.

`feedback.Rule` is the specification. Each of its operations is one rounding of `a x + b y`, so a
row of kind COMBINE gives the same bits. Rows of one table do not depend on each other; what does,
is in the next one.
"""

from collections.abc import Callable, Container, Sequence
from typing import Literal, NamedTuple

import numpy as np

from fewbits import backend
from fewbits.backend.boxes import COUNTS_SIZE
from fewbits.backend.buffers import Buffer
from fewbits.backend.kernel import Kernel, Kind
from fewbits.backend.table import Table
from fewbits.collectives.payload import Unit
from fewbits.collectives.units import Batch
from fewbits.feedback import Rule
from fewbits.feedback.store import StreamPair
from fewbits.reference.formats import Format
from fewbits.rng import Rng

_Source = Literal["values", "now", "then", "momentum now", "momentum then", "zeros"]
_COMBINE = Kernel(Kind.COMBINE)


class Term(NamedTuple):
    """A factor and what it multiplies."""

    factor: float
    source: _Source


class Assignment(NamedTuple):
    """`target` becomes the sum of two terms."""

    target: _Source
    x: Term
    y: Term


Assignments = Sequence[Assignment]
_NOTHING = Term(-1.0, "zeros")  # adds -0, which changes nothing, not even the sign of a zero


def message(rule: Rule) -> Assignments:
    """`Rule.message`."""
    if rule.shifts:
        return [Assignment("values", Term(1, "values"), Term(-1, "now"))]
    if not rule.momentum:
        return [Assignment("values", Term(1, "values"), Term(rule.decay, "now"))]
    return [
        Assignment("momentum then", Term(rule.momentum, "momentum now"), Term(1, "values")),
        Assignment("values", Term(1, "momentum then"), Term(rule.decay, "now")),
    ]


def keep(rule: Rule) -> Assignments:
    """`Rule.keep`; what masks its momentum works on the host."""
    assert not rule.masks
    if rule.shifts:
        return [Assignment("then", Term(rule.step, "then"), Term(1, "now"))]
    if rule.step == 1:
        return [Assignment("then", Term(1, "values"), Term(-1, "then"))]
    return [Assignment("then", Term(-rule.step, "then"), Term(1, "values"))]


def receive(rule: Rule) -> Assignments:
    """`Rule.receive`."""
    if rule.shifts:
        return [
            Assignment("then", Term(rule.step, "values"), Term(1, "now")),
            Assignment("values", Term(rule.scale, "values"), Term(1, "now")),
        ]
    if rule.scale == 1:
        return []
    return [Assignment("values", Term(rule.scale, "values"), _NOTHING)]


def unchanged(rule: Rule) -> Assignments:
    """What becomes of a memory that is not used in a step."""
    kept = [Assignment("then", Term(1, "now"), _NOTHING)]
    if rule.momentum:
        kept.append(Assignment("momentum then", Term(1, "momentum now"), _NOTHING))
    return kept


class _Rows:
    """One table: an assignment for each of some units."""

    def __init__(self, rows: Sequence[tuple[Unit, Assignment]], format: Format) -> None:
        self._rows, self._table = rows, Table(len(rows))
        self._offsets = np.zeros((len(rows), 3), np.uint64)
        for number, (unit, own) in enumerate(rows):
            self._table.describe(number, _COMBINE, format, unit.count)
            factors = float(own.x.factor), float(own.y.factor)
            self._table.combine(number, factors, unit.count * format.itemsize)
            for column, source in enumerate((own.target, own.x.source, own.y.source)):
                start = 0 if source == "zeros" else unit.start * format.itemsize
                self._offsets[number, column] = start

    def run(self, places: dict[_Source, int], device: str, unused: Buffer) -> None:
        bases = np.array(
            [
                [places[each] for each in (own.target, own.x.source, own.y.source)]
                for _, own in self._rows
            ],
            np.uint64,
        )
        addresses = bases + self._offsets
        self._table.bind_each(addresses[:, 0], device)
        self._table.place_terms(addresses[:, 1:])
        backend.at(device).run("accumulate", self._table, counts=unused)


class StreamSide:
    """Some units with their rules and their memory, in one role; see `correction.Side`."""

    def __init__(
        self, pair: StreamPair, rules: Sequence[tuple[Unit, Rule]], format: Format
    ) -> None:
        self._pair, self._rules, self._format = pair, rules, format
        most = max((unit.count for unit, _ in rules), default=0)
        self._zeros = Buffer.zeros(most * format.itemsize, pair.device)
        self._unused = Buffer.zeros(COUNTS_SIZE, pair.device)  # COMBINE counts nothing
        self._tables: dict[object, list[_Rows]] = {}

    def send(
        self, batch: Batch, values: Buffer, rng: Rng, counts: Buffer, unused: Container[str] = ()
    ) -> None:
        """Turn `values` into messages and encode them; those of `unused` parameters stay zero."""
        self._each(message, values, unused)
        batch.set_keys(rng)
        batch.run_unseen("encode", values, counts)

    def keep(
        self, batch: Batch, values: Buffer, counts: Buffer, unused: Container[str] = ()
    ) -> None:
        """Write the memory after `batch` has encoded the messages in `values`."""
        if not self._rules:
            return
        batch.run_unseen("decode", self._pair.line(self._pair.then, 0), counts)
        self._each(keep, values, unused, unchanged)
        self._pair.written = True

    def receive(self, values: Buffer) -> None:
        """Turn decoded messages, or means of them, into estimates."""
        self._each(receive, values)
        self._pair.written |= any(rule.shifts for _, rule in self._rules)

    def _each(
        self,
        work: Callable[[Rule], Assignments],
        values: Buffer,
        unused: Container[str] = (),
        other: Callable[[Rule], Assignments] = lambda _: [],
    ) -> None:
        idle = frozenset(unit.name for unit, _ in self._rules if unit.parameter in unused)
        if (work, idle) not in self._tables:
            self._tables[work, idle] = self._made(work, idle, other)
        for table in self._tables[work, idle]:
            table.run(self._places(values), self._pair.device, self._unused)

    def _made(
        self,
        work: Callable[[Rule], Assignments],
        idle: Container[str],
        other: Callable[[Rule], Assignments],
    ) -> list[_Rows]:
        """A table for each of the assignments that follow each other."""
        stages: dict[int, list[tuple[Unit, Assignment]]] = {}
        for unit, rule in self._rules:
            for number, own in enumerate((other if unit.name in idle else work)(rule)):
                stages.setdefault(number, []).append((unit, own))
        return [_Rows(stages[number], self._format) for number in sorted(stages)]

    def _places(self, values: Buffer) -> dict[_Source, int]:
        pair = self._pair
        found: dict[_Source, int] = {"values": values.address, "zeros": self._zeros.address}
        if self._rules:
            found |= {"now": pair.now.address, "then": pair.then.address}
        if pair.rows > 1:
            found["momentum now"] = pair.line(pair.now, 1).address
            found["momentum then"] = pair.line(pair.then, 1).address
        return found
