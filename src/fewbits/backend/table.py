"""Tables of rows: many vectors, or units of them, that a backend runs in one call.

A row says what kind of kernel, which values, which random stream, where its sections lie. What a
run has written and met is read from the table, when it is needed.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.backend import native_rows
from fewbits.backend.buffers import CPU, Buffer
from fewbits.backend.kernel import RANGED, Kernel, Kind, Row, RowDirection, total_itemsize
from fewbits.backend.kinds import dithering, grid, sign, trellis
from fewbits.reference.formats import Format
from fewbits.reference.tally import Tally
from fewbits.rng import KEY_BYTES, Rng, token

_Numbers = npt.NDArray[np.uint64]
NATIVE = frozenset((Kind.NATURAL, Kind.CAST, Kind.CLEAR, Kind.DIVIDE, Kind.COMBINE))
_NARROW = 3  # sections of a native row
_AFTER_STAGE = token(1)  # names the stream of an operator behind one stage
Rows = slice


def native_kept(kernel: Kernel, count: int) -> int | None:
    """How many values a native row keeps, 0 for all; None if native tables lack such a row."""
    if kernel.kind not in NATIVE:
        return None
    if not kernel.before:
        return 0
    first, *others = kernel.before
    if others or first.kind is not Kind.TOP_K or first.option == RANGED:
        return None
    kept = int(first.numbers[0])
    # Whole vectors and complements of sets have no native row.
    return kept if kept <= native_rows.MAX_KEPT and 0 < 2 * kept <= count else None


def _numbers(kernel: Kernel) -> tuple[int, int, int] | None:
    """Option, levels and block of a native row that has several numbers."""
    if kernel.before:
        return None
    kinds = {
        Kind.DITHERING: dithering,
        Kind.GRID: grid,
        Kind.SIGN: sign,
        Kind.TRELLIS: trellis,
    }
    found = kinds.get(kernel.kind)
    return None if found is None else found.native_numbers(kernel)


def _part(memory: Buffer | None, address: int, size: int) -> Buffer:
    if memory is None:
        return Buffer(address, size)
    start = address - memory.address
    return memory[start : start + size]


class _Columns(NamedTuple):
    """Columns as Python's own numbers, which are faster to look at one by one."""

    encodes: list[int]
    values: list[int]
    counts: list[int]
    sections: list[list[int]]
    sizes: list[list[int]]
    keys: bytes


class Table:
    """Rows, each with at most `columns` sections."""

    def __init__(self, rows: int, columns: int = _NARROW) -> None:
        self.rows = np.zeros(rows, native_rows.NATIVE_ROW)
        self.kernels: list[Kernel | None] = [None] * rows
        self.formats: list[Format | None] = [None] * rows
        self.parts = [0] * rows
        self.escaped = np.zeros(rows, np.uint64)
        self.native, self.all_native = np.ones(rows, np.bool_), True
        self._kept = np.zeros(rows, np.bool_)
        self.forks: list[bytes | None] = [None] * rows  # names of streams of native rows
        wide = columns > _NARROW
        self._sections = np.zeros((rows, columns), np.uint64) if wide else self.rows["sections"]
        self._sizes = np.zeros((rows, columns), np.uint64) if wide else self.rows["sizes"]
        self._wide, self.columns = wide, columns
        self._values: Buffer | None = None
        self._device = CPU
        self._memory: list[Buffer | None] = [None] * rows  # where the sections are

    @classmethod
    def of_row(cls, direction: RowDirection, row: Row) -> "Table":
        """A table of one row."""
        columns = len(row.sections)
        table = cls(1, columns)
        table.describe(0, row.kernel, row.format, row.count(direction), columns)
        table.bind(row.values, np.zeros(1, np.uint64))
        table.set_keys(slice(None), [row.key])
        if columns:
            addresses = np.array([[own.address for own in row.sections]], np.uint64)
            sizes = np.array([[own.size for own in row.sections]], np.uint64)
            table.place(slice(None), row.sections[0], addresses - addresses[0, 0], sizes)
        return table

    def __len__(self) -> int:
        return self.rows.size

    def describe(
        self, number: int, kernel: Kernel, format: Format, count: int, sections: int = 0
    ) -> None:
        """Say what a row is: its kernel, its values' format and number, its sections' number."""
        row, kept = self.rows[number], native_kept(kernel, count)
        row["kind"], row["option"], row["kept"] = kernel.kind, kernel.option, kept or 0
        row["dtype"], row["count"] = format.code, count
        numbers = _numbers(kernel)
        if numbers is not None:
            kept = 0
            row["option"], row["levels"], row["block"] = numbers
        if kernel.kind in (Kind.GRID, Kind.TRELLIS):
            row["factors"] = kernel.numbers.factors
            if kernel.numbers.dithered and not kernel.before:
                self.forks[number] = grid.FORK
        elif kept:
            self.forks[number] = _AFTER_STAGE
        self.kernels[number], self.formats[number], self.parts[number] = kernel, format, sections
        self.native[number] = kept is not None
        self.all_native &= kept is not None
        self._kept[number] = bool(kept)

    def divide_by(self, number: int, divisor: int) -> None:
        """Say by what a row of kind DIVIDE divides."""
        self.rows[number]["first"] = divisor

    def combine(self, number: int, factors: tuple[float, float], size: int) -> None:
        """Say how a row of kind COMBINE adds two vectors of `size` bytes."""
        self.rows[number]["factors"], self._sizes[number, :2] = factors, size

    def let_encode(self, number: int, *, remains: bool = False) -> None:
        """While others accumulate, this row encodes what they have summed.

        With `remains` it leaves there what it has not sent; see `can_leave_remains`.
        """
        self.rows[number]["encodes"], self.rows[number]["remains"] = True, remains

    def can_leave_remains(self, number: int) -> bool:
        """Whether a row sends few values, and can take them away from the others."""
        return bool(self._kept[number])

    def copy_rows(self, to: Rows, source: "Table") -> None:
        """Take over another table's rows, to be run beside others."""
        numbers = range(len(self))[to]
        self.rows[to] = source.rows
        self.native[to], self._kept[to] = source.native, source._kept
        self.all_native &= source.all_native
        self._sections[to], self._sizes[to] = source._sections, source._sizes
        for own, number in enumerate(numbers):
            self.kernels[number], self.formats[number] = source.kernels[own], source.formats[own]
            self.parts[number], self.forks[number] = source.parts[own], source.forks[own]

    @property
    def device(self) -> str:
        """Where the values are that were bound last."""
        return self._device

    def bind(self, values: Buffer, offsets: _Numbers) -> None:
        """Say where the rows' values are: so many bytes behind the beginning of a buffer."""
        self.rows["values"] = np.uint64(values.address) + offsets
        # As bytes, of which rows are slices.
        self._values = values if self.all_native else values.as_bytes()
        self._device = values.device

    def bind_each(self, addresses: _Numbers, device: str = CPU) -> None:
        self.rows["values"] = addresses
        self._values, self._device = None, device

    def set_keys(self, rows: Rows, keys: Sequence[bytes]) -> None:
        """Name the random streams of rows."""
        if not keys:
            return
        forks = self.forks[rows]
        if any(forks):
            keys = [
                key if fork is None else Rng(key).child_key(fork)
                for key, fork in zip(keys, forks, strict=True)
            ]
        self.rows["key"][rows] = np.frombuffer(b"".join(keys), "V16")

    def place(self, rows: Rows, memory: Buffer, offsets: _Numbers, sizes: _Numbers) -> None:
        """Say where in a buffer the sections of rows lie, a line for each row."""
        columns = offsets.shape[1]
        self._sections[rows, :columns] = offsets + np.uint64(memory.address)
        self._sizes[rows, :columns] = sizes
        self._memory[rows] = [memory] * len(offsets)

    def place_terms(self, addresses: _Numbers) -> None:
        """Say where the two vectors lie that rows of kind COMBINE add; a line for every row."""
        combining = self.rows["kind"] == Kind.COMBINE
        self._sections[combining, :2] = addresses[combining]

    def take_places(self, rows: Rows, source: "Table") -> None:
        """Take over another table's streams and sections, whose rows these are."""
        self.rows["key"][rows] = source.rows["key"]
        self._sections[rows], self._sizes[rows] = source._sections, source._sizes
        self._memory[rows] = source._memory

    def take_sizes(self, source: "Table", rows: Rows) -> None:
        """Take over what another table has written for these rows."""
        self._sizes[:] = source._sizes[rows]

    def sizes(self, rows: Rows, columns: int) -> _Numbers:
        """How large the sections of rows are, as the last run has written them."""
        written: _Numbers = self._sizes[rows, :columns]
        return written

    def tally(self, rows: Rows = slice(None)) -> Tally:
        """What the last run of these rows met."""
        met = self.rows["tally"][rows]
        counts = met["saturated"].sum(), met["nonfinite"].sum(), self.escaped[rows].sum()
        return Tally(*(int(count) for count in counts))

    # ---- for backends ----

    def places(self) -> tuple[_Numbers, _Numbers]:
        """Where the sections of all rows lie, and their sizes; a line for each row."""
        return self._sections, self._sizes

    def open(self) -> None:
        """Before a run: native rows know their first sections themselves."""
        if self._wide:
            self.rows["sections"] = self._sections[:, :_NARROW]
            self.rows["sizes"] = self._sizes[:, :_NARROW]
        if not self.all_native:
            self._plain = _Columns(
                self.rows["encodes"].tolist(),
                self.rows["values"].tolist(),
                self.rows["count"].tolist(),
                self._sections.tolist(),
                self._sizes.tolist(),
                self.rows["key"].tobytes(),
            )

    def close(self) -> None:
        if self._wide:
            self._sizes[self.native, :_NARROW] = self.rows["sizes"][self.native]

    def row(self, number: int, direction: RowDirection) -> tuple[RowDirection, Row]:
        """A row that is not native, and what it does in a run."""
        kernel, format, plain = self.kernels[number], self.formats[number], self._plain
        assert kernel is not None
        assert format is not None
        chosen: RowDirection = "encode" if plain.encodes[number] else direction
        item = total_itemsize(format) if chosen == "accumulate" else format.itemsize
        values = _part(self._values, plain.values[number], item * plain.counts[number])
        memory, parts = self._memory[number], range(self.parts[number])
        starts, sizes = plain.sections[number], plain.sizes[number]
        sections = tuple([_part(memory, starts[at], sizes[at]) for at in parts])
        key = plain.keys[KEY_BYTES * number : KEY_BYTES * (number + 1)]
        return chosen, Row(kernel, format, values, sections, key)

    def finish(self, number: int, tally: Tally, sizes: Sequence[int] | None = None) -> None:
        """What a row that is not native met and wrote."""
        met: Any = self.rows[number]["tally"]
        met["saturated"], met["nonfinite"], self.escaped[number] = tally
        if sizes is not None:
            self._sizes[number, : len(sizes)] = sizes
