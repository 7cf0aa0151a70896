"""Tables of units: many vectors, or chunks of them, encoded or decoded by one native call.

A unit is a row: what kind of kernel, which values, which random stream, where its sections lie.
Rows hold addresses, so whoever builds a table keeps the arrays alive.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits import _native
from fewbits.kernels.formats import Format

Table = npt.NDArray[Any]
Direction = Literal["encode", "decode", "accumulate"]
NATURAL, CAST = _native.NATURAL, _native.CAST
CLEAR, DIVIDE, COMBINE = _native.CLEAR, _native.DIVIDE, _native.COMBINE
CODED = 2  # added to the option of NATURAL: one section, entropy coded
NO_KEY = bytes(16)


class Kernel(NamedTuple):
    """What encodes a unit, if native code does.

    `kept` values of the largest magnitude are handed on by a stage before it, or all if it is 0. It
    draws from the stream that `path` names below the unit's own.
    """

    kind: int
    option: int
    kept: int = 0
    path: tuple[bytes, ...] = ()


class Tally(NamedTuple):
    """What a pass over the values met."""

    saturated: int = 0
    nonfinite: int = 0
    escaped: int = 0  # blocks that were sent in their operator's second way


def new_table(rows: int) -> Table:
    """A table of empty rows."""
    return np.zeros(rows, _native.UNIT)


def set_kernel(row: Any, kernel: Kernel | tuple[int, int], format: Format, count: int) -> None:
    """Say what a row's unit is: its kernel, its values' format and number."""
    row["kind"], row["option"], row["kept"] = Kernel(*kernel)[:3]
    row["dtype"], row["count"] = format.code, count


def set_sections(row: Any, address: int, sizes: Sequence[int]) -> None:
    """Say where a row's sections lie: one after the other from `address` on."""
    for number, size in enumerate(sizes):
        row["sections"][number], row["sizes"][number] = address, size
        address += size


def run(direction: Direction, table: Table) -> Tally:
    """Encode, decode or accumulate every unit; a `DecodeError` says which `unit` is bad."""
    _native.run_units(direction, table)
    return tally(table)


def tally(table: Table) -> Tally:
    """What the last run of these rows met."""
    met = table["tally"]
    return Tally(int(met["saturated"].sum()), int(met["nonfinite"].sum()))


def total(tallies: Sequence[Tally]) -> Tally:
    """What several passes met together."""
    return Tally(*(sum(counts) for counts in zip(*tallies, strict=True)))
