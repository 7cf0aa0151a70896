"""Rows of levels on paths of a trellis: the native core's own."""

from fewbits.backend.kernel import Kernel, Kind, Row, RowDirection, Written
from fewbits.backend.kinds.grid import FORK
from fewbits.backend.native_rows import run_whole
from fewbits.reference.grid_scales import LEAST_SQUARES
from fewbits.reference.trellis import Trellis
from fewbits.rng import Rng

_STATES = {4: 4, 8: 8, 16: 12}  # in an option


def native_numbers(kernel: Kernel) -> tuple[int, int, int] | None:
    """Option, levels and block of a native row; None if native tables lack such a row."""
    if kernel.kind is not Kind.TRELLIS or kernel.before:
        return None
    return _numbers(kernel.numbers)


def run(direction: RowDirection, row: Row) -> Written:
    """Encode, decode or accumulate one row."""
    how: Trellis = row.kernel.numbers
    if direction == "encode" and how.dithered:
        row = row._replace(key=Rng(row.key).child_key(FORK))
    return run_whole(direction, row, _numbers(how), factors=(how.nu, how.shrink))


def _numbers(how: Trellis) -> tuple[int, int, int]:
    option = int(how.dithered) + 2 * (how.scale == LEAST_SQUARES) + _STATES[how.states]
    return option, how.bound - 1, 0
