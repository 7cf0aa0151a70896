"""Kinds of rows that a backend runs, described by numbers alone."""

from enum import IntEnum
from typing import Any, Literal, NamedTuple

from fewbits.backend.buffers import Buffer
from fewbits.reference.formats import Format
from fewbits.reference.tally import Tally

RowDirection = Literal["encode", "decode", "accumulate"]
NO_KEY = bytes(16)
RANGED = 1  # option of TOP_K: places as wire version 1 has them, to be read
PACKED, CODED = 0, 2  # added to the option of NATURAL: one section, entropy coded


class Kind(IntEnum):
    """The kinds of rows. The first ones are those of the native tables."""

    NATURAL = 1
    CAST = 2
    CLEAR = 3  # steps of a sum, which `accumulate` alone knows
    DIVIDE = 4
    COMBINE = 5
    DITHERING = 16
    GRID = 17
    SPHERICAL = 18
    SIGN = 19
    TRELLIS = 20
    TOP_K = 32  # stages, which stand before another kernel
    RAND_K = 33
    HADAMARD = 34
    SCALE = 35
    PYTHON = 64  # code that an operator or a stage brings along; a device has none


class Kernel(NamedTuple):
    """A kind and its numbers.

    `option` is one small number, `numbers` are the parameters of kinds that have several. `before`
    are the kernels of stages, the first applied first.
    """

    kind: Kind
    option: int = 0
    numbers: Any = ()  # a tuple of whole numbers, floats and truths
    before: tuple["Kernel", ...] = ()


class Row(NamedTuple):
    """One vector to be encoded, decoded or added: what a table of one row holds.

    `values` are numbers of the format or, for `accumulate`, totals: float64 for float64, otherwise
    float32. Sections have their largest sizes when they are written.
    """

    kernel: Kernel
    format: Format
    values: Buffer
    sections: tuple[Buffer, ...]
    key: bytes = NO_KEY
    threads: int = 1

    @property
    def elements(self) -> int:
        return self.values.size // self.format.itemsize

    def itemsize(self, direction: RowDirection) -> int:
        """Bytes of a value, or of a total."""
        format = self.format
        return total_itemsize(format) if direction == "accumulate" else format.itemsize

    def count(self, direction: RowDirection) -> int:
        """How many values there are."""
        return self.values.size // self.itemsize(direction)


class Written(NamedTuple):
    """The tally of a row and the sizes of its sections."""

    tally: Tally
    sizes: tuple[int, ...]


def total_itemsize(format: Format) -> int:
    """Bytes of a total of values of a format."""
    return 8 if format.itemsize == 8 else 4
