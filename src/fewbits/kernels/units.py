"""Tables of units: many vectors, or chunks of them, encoded or decoded by one native call.

A unit is a row: what kind of kernel, which values, which random stream, where its sections lie.
Rows hold addresses, so whoever builds a table keeps the arrays alive.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits import _native
from fewbits.kernels.native import Tally

Table = npt.NDArray[Any]


def new_table(rows: int) -> Table:
    """A table of empty rows."""
    return np.zeros(rows, _native.UNIT)


def encode(table: Table) -> Tally:
    """Encode every unit's values into its sections."""
    return _run("encode", table)


def decode(table: Table) -> Tally:
    """Decode every unit's sections into its values; `BadUnitError` says which unit is bad."""
    return _run("decode", table)


def accumulate(table: Table) -> Tally:
    """Add every decoded unit to its values, in the table's order."""
    return _run("accumulate", table)


def _run(direction: str, table: Table) -> Tally:
    _native.run_units(direction, table)
    tally = table["tally"]
    return Tally(int(tally["saturated"].sum()), int(tally["nonfinite"].sum()))
