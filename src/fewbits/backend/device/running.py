"""Tables on a device: prepared once, and again only if more than their streams has changed."""

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch

from fewbits.backend.buffers import CPU, Buffer
from fewbits.backend.device.kernels.rows import BAD, NONFINITE, SATURATED, TALLIES
from fewbits.backend.device.kernels.settling import settle
from fewbits.backend.device.launches import start
from fewbits.backend.device.memory import torch_device, upload
from fewbits.backend.device.preparing import TableRecipe, recipe
from fewbits.backend.device.registry import refused
from fewbits.backend.kernel import Row, RowDirection, Written
from fewbits.backend.native_rows import NATIVE_ROW
from fewbits.backend.table import Table
from fewbits.errors import SpecError
from fewbits.rng import Rng

_SETTLED = 256  # rows that `settle` looks at together
_FIELDS = NATIVE_ROW.fields
assert _FIELDS is not None
_KEY, _BEHIND_KEY, _RESULTS = (_FIELDS[name][1] for name in ("key", "kept", "tally"))
_prepared: "WeakKeyDictionary[Table, dict[RowDirection, Prepared]]" = WeakKeyDictionary()


class _State(NamedTuple):
    """All of a table but its streams and results."""

    numbers: bytes
    kernels: tuple[object, ...]
    formats: tuple[object, ...]
    how: tuple[object, ...]

    @classmethod
    def of(cls, table: Table, *how: object) -> "_State":
        rows = table.rows.view(np.uint8).reshape(len(table), -1)
        parts = rows[:, :_KEY], rows[:, _BEHIND_KEY:_RESULTS], *table.places()
        numbers = b"".join(part.tobytes() for part in parts)
        return cls(numbers, tuple(table.kernels), tuple(table.formats), how)


class Prepared:
    """A table whose numbers are on the device."""

    def __init__(self, state: _State, recipe: TableRecipe, device: str) -> None:
        self.state, self._device, self._scratch = state, device, recipe.scratch
        self._rows, self._counted = upload(recipe.lines, device), upload(recipe.counted, device)
        self._launches = [
            launch._replace(work=upload(launch.work, device)) for launch in recipe.launches
        ]
        self._lines = {
            id(own): upload(own, device)
            for own in (launch.lines for launch in recipe.launches)
            if own is not None
        }
        shape = len(recipe.lines), TALLIES
        self._tally, self._ignored = (
            torch.zeros(shape, dtype=torch.int64, device=self._rows.device) for _ in range(2)
        )
        self._key_bytes, self._keys = b"", self._rows

    def start(self, table: Table) -> None:
        """Start every launch."""
        keys = np.ascontiguousarray(table.rows["key"])
        if keys.tobytes() != self._key_bytes:
            self._key_bytes = keys.tobytes()
            _fork(keys, table)
            self._keys = upload(keys.view(np.int32).reshape(-1, 4), self._device)
        for launch in self._launches:
            work: Any = launch.work
            if launch.scratch is not None:
                launch.scratch.zero_()
            lines = self._rows if launch.lines is None else self._lines[id(launch.lines)]
            tables = lines, self._keys, self._tally if launch.counts else self._ignored
            start(
                self._device, launch.kernel, len(work), work, *tables, *launch.arguments,
                warps=launch.warps, **launch.constants,
            )  # fmt: skip

    def settle(self, counts: Buffer) -> None:
        """Add what was met to `counts`, without waiting."""
        rows = self._tally.shape[0]
        tables = self._tally, self._counted, rows
        start(self._device, settle, 1, *tables, counts.address, warps=4, BLOCK=_SETTLED)

    def finish(self, table: Table) -> None:
        """Wait, and put what was met into the table; `DecodeError` names the first bad row."""
        met = self._tally.cpu().numpy().copy()
        self._tally.zero_()
        own: Any = table.rows["tally"]
        own["saturated"], own["nonfinite"] = met[:, SATURATED], met[:, NONFINITE]
        bad = np.flatnonzero(met[:, BAD])
        if bad.size:
            reasons = int(met[bad[0], BAD])
            kernel = table.kernels[bad[0]]
            assert kernel is not None
            error = refused((reasons & -reasons).bit_length() - 1, kernel)
            error.row = int(bad[0])
            raise error


def _fork(keys: np.ndarray[Any, Any], table: Table) -> None:
    """Give rows behind a stage the stream of their operator, where the table has not done it."""
    for number, (kernel, fork) in enumerate(zip(table.kernels, table.forks, strict=True)):
        if kernel is not None and kernel.before and fork is None:
            own = Rng(keys[number].tobytes()).fork(len(kernel.before))
            keys[number] = np.frombuffer(own.key, "V16")[0]


def run(
    direction: RowDirection,
    table: Table,
    *,
    threads: int = 1,  # noqa: ARG001
    together: int = 1,
    counts: Buffer | None = None,
) -> None:
    """Run every row; neighbouring rows that share their values keep their order.

    With `counts` (see `Count`) nothing is read back and nothing is raised for bad rows. Without, it
    waits, fills the table's tallies and raises `DecodeError` for the first bad row.
    """
    if not len(table):
        return
    prepared = _prepare(direction, table, together)
    prepared.start(table)
    if counts is None:
        prepared.finish(table)
    else:
        prepared.settle(counts)


def _prepare(
    direction: RowDirection, table: Table, together: int = 1, *, checked: bool = False
) -> Prepared:
    device = table.device
    if device == CPU:
        raise SpecError("a device cannot run a table whose values are on the host")
    torch_device(device)
    state, known = _State.of(table, device, together), _prepared.setdefault(table, {})
    found = known.get(direction)
    if found is None or found.state != state:
        own = recipe(direction, table, device, together=together, checked=checked)
        found = known[direction] = Prepared(state, own, device)
    return found


def run_row(direction: RowDirection, row: Row) -> Written:
    """Run a table of one row."""
    columns, table = len(row.sections), Table.of_row(direction, row)
    prepared = _prepare(direction, table, checked=True)
    prepared.start(table)
    prepared.finish(table)
    return Written(table.tally(), tuple(table.sizes(slice(None), columns)[0].tolist()))
