"""Tables that encode, decode or sum a batch of units in one native call.

The unit is a chunk of one parameter, never the bucket that it happens to travel in: its scale, its
randomness and its bytes depend on the parameter's name and the chunk's place in it alone, so
another bucket size, a rebuilt bucket or another owner gives bit-identical results.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits import _native
from fewbits.core.operator import Parts, Written
from fewbits.core.vector import Vector
from fewbits.errors import DecodeError
from fewbits.kernels import parallel
from fewbits.kernels import units as kernels
from fewbits.kernels.formats import FLOAT32, FLOAT64, Format
from fewbits.kernels.units import Tally
from fewbits.rng import Rng, token
from fewbits.schemes.payload import Payload, Sizes, Slot

Tokens = tuple[bytes, ...]


def total_format(format: Format) -> Format:
    """The format in which decoded vectors are summed."""
    return FLOAT64 if format == FLOAT64 else FLOAT32


def float_dtype(format: Format) -> np.dtype[Any]:
    """The NumPy dtype of a totals' format."""
    return np.dtype(format.name)


class Batch:
    """Payloads bound to a flat vector: encode or decode all their slots at once.

    Operators with a native kernel share one table and one call; others are called one by one. A
    `DecodeError` has the number of the bad payload as its `unit`.
    """

    def __init__(self, payloads: Sequence[Payload], format: Format, *, threads: int = 1) -> None:
        self.payloads, self.format, self.threads = payloads, format, threads
        self._groups = []
        first = 0
        for payload in payloads:
            group = _Group(payload, format, first)
            first += len(group.native)
            self._groups.append(group)
        self.slots = [group.payload.slots[at] for group in self._groups for at in group.native]
        self.starts = np.array([slot.start for slot in self.slots], np.uint64)
        self.table = kernels.new_table(len(self.slots))
        self._tokens = [
            _describe(row, slot, format) for row, slot in zip(self.table, self.slots, strict=True)
        ]
        for group in self._groups:
            group.place(self.table)

    def encode(
        self,
        values: npt.NDArray[Any],
        rng: Rng,
        run: Callable[[npt.NDArray[Any]], Tally] | None = None,
    ) -> Tally:
        """Encode the vector's units; each draws from the stream that its name forks from `rng`.

        `run` takes the place of running the table.
        """
        for group in self._groups:
            if not group.payload.fixed:
                group.payload.make_room()
                group.place(self.table)
        _set_keys(self.table, rng, self._tokens)
        tally = self._run("encode", values) if run is None else run(values)
        for group in self._groups:
            sizes = group.sizes(self.table)
            for at, slot in group.alone:
                parts, x = group.payload.parts(at), _part(slot, values)
                written = _encode(slot, parts, x, self.format, rng)
                sizes[at, : len(written.sizes)] = written.sizes
                tally = kernels.total((tally, written.tally))
            group.payload.close(sizes)
        return tally

    def decode(self, values: npt.NDArray[Any]) -> Tally:
        """Decode every unit into its place."""
        ends = [group.first + len(group.native) for group in self._groups]
        for number, group in enumerate(self._groups):
            with blaming(number):
                group.payload.open()
            if not group.payload.fixed:
                group.place(self.table)
        try:
            tally = self._run("decode", values)
        except DecodeError as error:
            error.unit = bisect_right(ends, error.unit or 0)
            raise
        for number, group in enumerate(self._groups):
            for at, slot in group.alone:
                with blaming(number):
                    place = Vector(_part(slot, values), self.format)
                    own = slot.operator.decode(group.payload.parts(at), place)
                tally = kernels.total((tally, own))
        return tally

    def _run(self, direction: kernels.Direction, values: npt.NDArray[Any]) -> Tally:
        return _run_table(direction, self.table, self.starts, values, threads=self.threads)


class Summation:
    """The mean or the sum of every slot's terms, one from each payload, in their order.

    A place is cleared, grows and is divided in neighbouring rows of one table, so that it stays in
    the cache all the while; with `onward` it is also encoded there, and only a place for each
    thread is needed. A `DecodeError` has the number of the bad term's payload as its `unit`.
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
        self._wide = total_format(format)
        slots = terms[0].slots
        self._native = [at for at in range(len(slots)) if self._has_kernels(at)]
        self._alone = [at for at in range(len(slots)) if not self._has_kernels(at)]
        self._rows = 1 + len(terms) + 1 + (onward is not None)
        self.table = kernels.new_table(self._rows * len(self._native))
        self._tokens = list[Tokens]()
        starts = np.array([slots[at].start for at in self._native], np.uint64)
        self._starts = np.repeat(starts, self._rows)
        for number, at in enumerate(self._native):
            self._describe(self.table[self._rows * number : self._rows * (number + 1)], at)
        most = max((slot.count for slot in slots), default=0) if onward is not None else 0
        self._scratch = np.zeros((threads, most), float_dtype(self._wide))
        for number, payload in enumerate(terms):
            self._place(1 + number, payload)

    def run(self, totals: npt.NDArray[Any]) -> Tally:
        """Fill `totals`."""
        self._open()
        tally = self._sum(self._starts, totals)
        for at in self._alone:
            tally = kernels.total((tally, self._add(at, _part(self.terms[0].slots[at], totals))))
        return tally

    def relay(self, rng: Rng) -> Tally:
        """Encode every total into `onward`; what it met there, not in the terms."""
        onward = self.onward
        assert onward is not None
        self._open()
        onward.make_room()
        self._place(-1, onward)
        last = self.table[self._rows - 1 :: self._rows]
        _set_keys(last, rng, self._tokens)
        self._sum(self._places(), self._scratch)
        sizes = onward.sizes.copy()
        _copy_columns(sizes, self._native, last["sizes"])
        tally = kernels.tally(last)
        for at in self._alone:
            slot = onward.slots[at]
            place = self._scratch[0, : slot.count]
            self._add(at, place)
            bits = place.view(self._wide.bits)
            written = _encode(slot, onward.parts(at), bits, self._wide, rng)
            sizes[at, : len(written.sizes)] = written.sizes
            tally = kernels.total((tally, written.tally))
        onward.close(sizes)
        return tally

    def _has_kernels(self, at: int) -> bool:
        term = _kernel(self.terms[0].slots[at], self.format)
        onward = self.onward is None or _kernel(self.onward.slots[at], self._wide)
        return term is not None and onward is not None

    def _describe(self, rows: kernels.Table, at: int) -> None:
        slot = self.terms[0].slots[at]
        kernels.set_kernel(rows[0], (kernels.CLEAR, 0), self.format, slot.count)
        for row in rows[1 : 1 + len(self.terms)]:
            _describe(row, slot, self.format)
        divide = rows[1 + len(self.terms)]
        kernels.set_kernel(divide, (kernels.DIVIDE, 0), self.format, slot.count)
        divide["first"] = self.divisor
        if self.onward is not None:
            self._tokens.append(_describe(rows[-1], self.onward.slots[at], self._wide))
            rows[-1]["encodes"] = True

    def _place(self, row: int, payload: Payload) -> None:
        rows = self.table[row % self._rows :: self._rows]
        _set_sections(rows, payload, self._native)

    def _open(self) -> None:
        for number, payload in enumerate(self.terms):
            with blaming(number):
                payload.open()
            if not payload.fixed:
                self._place(1 + number, payload)

    def _places(self) -> npt.NDArray[np.uint64]:
        """Where in the scratch each row's total grows: every thread has its own."""
        shares = np.diff(_cuts(len(self._native), self.threads))
        threads = np.repeat(np.arange(self.threads, dtype=np.uint64), shares)
        return np.repeat(threads * np.uint64(self._scratch.shape[1]), self._rows)

    def _sum(self, starts: npt.NDArray[np.uint64], totals: npt.NDArray[Any]) -> Tally:
        try:
            return _run_table(
                "accumulate", self.table, starts, totals, threads=self.threads, together=self._rows
            )
        except DecodeError as error:
            error.unit = (error.unit or 0) % self._rows - 1
            raise

    def _add(self, at: int, place: npt.NDArray[Any]) -> Tally:
        place.fill(0)
        tally = Tally()
        for number, payload in enumerate(self.terms):
            with blaming(number):
                slot = payload.slots[at]
                own = slot.operator.accumulate(payload.parts(at), self.format, place)
            tally = kernels.total((tally, own))
        with np.errstate(all="ignore"):  # NaN and infinity are the caller's to judge
            np.divide(place, place.dtype.type(self.divisor), out=place)
        return tally


class _Group:
    """One payload's rows in a batch's table: from `first` on, one for each slot in `native`."""

    def __init__(self, payload: Payload, format: Format, first: int) -> None:
        self.payload, self.first = payload, first
        numbered = list(enumerate(payload.slots))
        self.native = [at for at, slot in numbered if _kernel(slot, format) is not None]
        self.alone = [(at, slot) for at, slot in numbered if _kernel(slot, format) is None]

    def place(self, table: kernels.Table) -> None:
        """Say in the table where the sections are."""
        _set_sections(self._rows(table), self.payload, self.native)

    def sizes(self, table: kernels.Table) -> Sizes:
        """The sizes of what the table has written, and the largest ones of all others."""
        sizes = self.payload.sizes.copy()
        _copy_columns(sizes, self.native, self._rows(table)["sizes"])
        return sizes

    def _rows(self, table: kernels.Table) -> kernels.Table:
        return table[self.first : self.first + len(self.native)]


@contextmanager
def blaming(number: int) -> Iterator[None]:
    """A `DecodeError` inside is about payload `number`."""
    try:
        yield
    except DecodeError as error:
        error.unit = number
        raise


def _kernel(slot: Slot, format: Format) -> kernels.Kernel | None:
    return slot.operator.kernel(slot.count, format)


def _describe(row: Any, slot: Slot, format: Format) -> Tokens:
    """Say what a row encodes or decodes; the names of its random stream."""
    kernel = _kernel(slot, format)
    assert kernel is not None
    kernels.set_kernel(row, kernel, format, slot.count)
    return token(slot.name), *kernel.path


def _set_sections(rows: kernels.Table, payload: Payload, slots: Sequence[int]) -> None:
    columns = min(rows["sizes"].shape[1], payload.sizes.shape[1])
    rows["sections"][:, :columns] = payload.addresses()[slots, :columns]
    rows["sizes"][:, :columns] = payload.sizes[slots, :columns]


def _copy_columns(sizes: Sizes, slots: Sequence[int], written: Sizes) -> None:
    columns = min(sizes.shape[1], written.shape[1])
    sizes[slots, :columns] = written[:, :columns]


def _set_keys(rows: kernels.Table, rng: Rng, tokens: Sequence[Tokens]) -> None:
    if tokens:
        keys = [_key(rng, path) for path in tokens]
        rows["key"] = np.frombuffer(b"".join(keys), "V16")


def _key(rng: Rng, path: Tokens) -> bytes:
    key = rng.key
    for name in path:
        key = Rng(key).child_key(name)
    return key


def _part(slot: Slot, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values[slot.start : slot.start + slot.count]


def _encode(slot: Slot, parts: Parts, bits: npt.NDArray[Any], format: Format, rng: Rng) -> Written:
    return slot.operator.encode(Vector(bits, format), Rng(rng.child_key(token(slot.name))), parts)


def _cuts(groups: int, threads: int) -> list[int]:
    """Where each thread's share of the groups begins, and the end of the last one."""
    return [groups * number // threads for number in range(threads + 1)]


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
    table["values"] = np.uint64(_native.address(values)) + starts * np.uint64(values.itemsize)
    return run_rows(direction, table, threads=threads, together=together)


def run_rows(
    direction: kernels.Direction, table: kernels.Table, *, threads: int, together: int = 1
) -> Tally:
    """Run a table whose rows know where their values are."""
    if not table.size:
        return Tally()
    cuts = _cuts(table.size // together, threads)

    def work(number: int) -> Tally:
        first, last = cuts[number] * together, cuts[number + 1] * together
        try:
            return kernels.run(direction, table[first:last])
        except DecodeError as error:
            error.unit = first + (error.unit or 0)
            raise

    return kernels.total(parallel.each(work, threads))
