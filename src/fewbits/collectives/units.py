"""Tables that encode, decode or sum a batch of units in one call of a backend.

A unit is a part of one parameter. Its scale, its randomness and its bytes depend only on the
parameter's name and the unit's place in it, never on the batch in which it travels. So another
bucket size, a rebuilt bucket or another owner gives bit-identical results.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits import backend
from fewbits.backend.buffers import Buffer
from fewbits.backend.kernel import Kernel, Kind, RowDirection
from fewbits.backend.table import Table
from fewbits.collectives.payload import Payload, Slot
from fewbits.errors import DecodeError
from fewbits.reference.formats import FLOAT32, FLOAT64, Format
from fewbits.reference.tally import Tally
from fewbits.rng import Rng, token

_CLEAR, _DIVIDE = Kernel(Kind.CLEAR), Kernel(Kind.DIVIDE)


def total_format(format: Format) -> Format:
    return FLOAT64 if format == FLOAT64 else FLOAT32


def float_dtype(format: Format) -> np.dtype[Any]:
    return np.dtype(format.name)


class Batch:
    """Payloads bound to a flat vector: encode or decode all their slots at once.

    A `DecodeError` has the number of the bad payload as its `row`.
    """

    def __init__(self, payloads: Sequence[Payload], format: Format, *, threads: int = 1) -> None:
        self.payloads, self.format, self.threads = payloads, format, threads
        self.slots = [slot for payload in payloads for slot in payload.slots]
        self._ends = np.cumsum([len(payload.slots) for payload in payloads]).tolist()
        self.table = Table(len(self.slots), max((own.columns for own in payloads), default=0))
        for number, slot in enumerate(self.slots):
            _describe(self.table, number, slot, format)
        starts = np.array([slot.start for slot in self.slots], np.uint64)
        self.offsets = starts * np.uint64(format.itemsize)
        self._tokens = [token(slot.name) for slot in self.slots]
        for number in range(len(payloads)):
            self._place(number)

    def encode(
        self,
        values: npt.NDArray[Any],
        rng: Rng,
        run: Callable[[npt.NDArray[Any]], Tally] | None = None,
    ) -> Tally:
        """Encode the vector's units; each draws from the stream that its name forks from `rng`.

        `run` takes the place of running the table.
        """
        for number, payload in enumerate(self.payloads):
            if not payload.fixed:
                payload.make_room()
                self._place(number)
        self.set_keys(rng)
        tally = self._run("encode", values) if run is None else run(values)
        for number, payload in enumerate(self.payloads):
            if not payload.fixed:
                payload.close(self.table.sizes(self._rows(number), payload.columns).copy())
        return tally

    def set_keys(self, rng: Rng) -> None:
        self.table.set_keys(slice(None), [rng.child_key(name) for name in self._tokens])

    def run_unseen(self, direction: RowDirection, values: Buffer, counts: Buffer) -> None:
        """Run all slots, whose sections have fixed sizes; what is met goes to `counts`."""
        self.table.bind(values, self.offsets)
        backend.of(values).run(direction, self.table, threads=self.threads, counts=counts)

    def decode(self, values: npt.NDArray[Any]) -> Tally:
        for number, payload in enumerate(self.payloads):
            with blaming(number):
                payload.open()
            if not payload.fixed:
                self._place(number)
        try:
            return self._run("decode", values)
        except DecodeError as error:
            error.row = bisect_right(self._ends, error.row or 0)
            raise

    def _run(self, direction: RowDirection, values: npt.NDArray[Any]) -> Tally:
        self.table.bind(Buffer.of(values), self.offsets)
        return run_table(direction, self.table, threads=self.threads)

    def _rows(self, number: int) -> slice:
        end = self._ends[number]
        return slice(end - len(self.payloads[number].slots), end)

    def _place(self, number: int) -> None:
        payload = self.payloads[number]
        self.table.place(self._rows(number), payload.memory, payload.offsets, payload.sizes)


class Summation:
    """The mean or the sum of every slot's terms, one from each payload, in their order.

    Neighbouring rows of one table clear a total, add its terms and divide it, so that it stays in
    the cache. With `onward` they also encode it, and each thread needs memory for one total only. A
    `DecodeError` has the number of the bad term's payload as its `row`.
    """

    def __init__(
        self,
        terms: Sequence[Payload],
        format: Format,
        *,
        divisor: int = 1,
        onward: Payload | None = None,
        threads: int = 1,
    ) -> None:
        self.terms, self.format, self.divisor = terms, format, divisor
        self.onward, self.threads = onward, threads
        self._wide, slots = total_format(format), terms[0].slots
        self._rows = 1 + len(terms) + 1 + (onward is not None)
        payloads = terms if onward is None else (*terms, onward)
        self.table = Table(self._rows * len(slots), max(own.columns for own in payloads))
        for at in range(len(slots)):
            self._describe(self._rows * at, at)
        item = np.uint64(float_dtype(self._wide).itemsize)
        starts = np.array([slot.start for slot in slots], np.uint64) * item
        self._offsets = np.repeat(starts, self._rows)
        most = max((slot.count for slot in slots), default=0) if onward is not None else 0
        self._scratch = np.zeros((threads, most), float_dtype(self._wide))
        for number, payload in enumerate(terms):
            self._place(1 + number, payload)
        if onward is not None:
            self._place(-1, onward)

    def run_unseen(self, totals: Buffer, counts: Buffer, rng: Rng | None = None) -> None:
        """Sum payloads of fixed sizes, or with `rng` also encode; what is met goes to `counts`."""
        if rng is not None:
            self._set_keys(rng)
        self.table.bind(totals, self._offsets)
        backend.of(totals).run(
            "accumulate", self.table, threads=self.threads, together=self._rows, counts=counts
        )

    def run(self, totals: npt.NDArray[Any]) -> Tally:
        self._open()
        return self._sum(self._offsets, totals)

    def relay(self, rng: Rng) -> Tally:
        """Encode every total into `onward`; returns the tally of the totals, not of the terms."""
        onward = self.onward
        assert onward is not None
        self._open()
        onward.make_room()
        self._place(-1, onward)
        last = self._set_keys(rng)
        self._sum(self._places(), self._scratch)
        if not onward.fixed:
            onward.close(self.table.sizes(last, onward.columns).copy())
        return self.table.tally(last)

    def _set_keys(self, rng: Rng) -> slice:
        """Name the streams of the rows that encode totals; these rows."""
        assert self.onward is not None
        last = slice(self._rows - 1, None, self._rows)
        self.table.set_keys(last, [rng.child_key(token(own.name)) for own in self.onward.slots])
        return last

    def _describe(self, first: int, at: int) -> None:
        slot, table = self.terms[0].slots[at], self.table
        table.describe(first, _CLEAR, self.format, slot.count)
        for number in range(len(self.terms)):
            _describe(table, first + 1 + number, slot, self.format)
        divide = first + 1 + len(self.terms)
        table.describe(divide, _DIVIDE, self.format, slot.count)
        table.divide_by(divide, self.divisor)
        if self.onward is not None:
            _describe(table, divide + 1, self.onward.slots[at], self._wide)
            table.let_encode(divide + 1)

    def _place(self, row: int, payload: Payload) -> None:
        rows = slice(row % self._rows, None, self._rows)
        self.table.place(rows, payload.memory, payload.offsets, payload.sizes)

    def _open(self) -> None:
        for number, payload in enumerate(self.terms):
            with blaming(number):
                payload.open()
            if not payload.fixed:
                self._place(1 + number, payload)

    def _places(self) -> npt.NDArray[np.uint64]:
        """The place of each row's total in the scratch memory; every thread has its own."""
        groups = len(self.table) // self._rows
        cuts = [groups * number // self.threads for number in range(self.threads + 1)]
        threads = np.repeat(np.arange(self.threads, dtype=np.uint64), np.diff(cuts))
        line = self._scratch.shape[1] * self._scratch.itemsize
        return np.repeat(threads * np.uint64(line), self._rows)

    def _sum(self, offsets: npt.NDArray[np.uint64], totals: npt.NDArray[Any]) -> Tally:
        self.table.bind(Buffer.of(totals), offsets)
        try:
            return run_table("accumulate", self.table, threads=self.threads, together=self._rows)
        except DecodeError as error:
            error.row = (error.row or 0) % self._rows - 1
            raise


@contextmanager
def blaming(number: int) -> Iterator[None]:
    """Make a `DecodeError` of the block name payload `number`."""
    try:
        yield
    except DecodeError as error:
        error.row = number
        raise


def _describe(table: Table, number: int, slot: Slot, format: Format) -> None:
    kernel = slot.operator.kernel(slot.count, format)
    table.describe(number, kernel, format, slot.count, len(slot.sizes))


def run_table(direction: RowDirection, table: Table, *, threads: int, together: int = 1) -> Tally:
    """Run a table whose rows know their values' addresses; returns their tally."""
    backend.at(table.device).run(direction, table, threads=threads, together=together)
    return table.tally()
