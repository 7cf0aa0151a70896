"""The kinds of section a frame may hold: a closed set, a new one is a new wire version.

Operators choose among them. A section turns one array into bytes and back. It knows its `count` and
its bounds, and `read` accepts exactly what `write` can make.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fewbits.coding import bitpack
from fewbits.errors import DecodeError
from fewbits.kernels.formats import Format

Buffer = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Section(ABC):
    """One array on the wire, `count` values long."""

    name: str
    count: int
    varies: ClassVar[bool] = False  # whether the length depends on the values

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes that the section takes at most."""

    @abstractmethod
    def write(self, values: npt.NDArray[Any], into: Buffer) -> None:
        """Fill `into`, which has `size` bytes."""

    @abstractmethod
    def read(self, data: Buffer) -> npt.NDArray[Any]:
        """The array in `data`; `DecodeError` for anything that `write` cannot have made."""

    def check(self, length: int) -> None:
        """Refuse a length that this section cannot have."""
        if length != self.size:
            raise DecodeError(
                f"section {self.name!r} has {length} bytes, {self.count} values need {self.size}"
            )


@dataclass(frozen=True, slots=True)
class Packed(Section):
    """Codes below `bound` at a fixed number of bits each."""

    width: int
    bound: int

    @property
    def size(self) -> int:
        return bitpack.packed_size(self.count, self.width)

    def write(self, values: npt.NDArray[np.uint16], into: Buffer) -> None:
        bitpack.pack(values, self.width, into)

    def read(self, data: Buffer) -> npt.NDArray[np.uint16]:
        self.check(data.size)
        return bitpack.unpack(data, self.width, self.bound, self.count)


@dataclass(frozen=True, slots=True)
class Floats(Section):
    """Numbers of one float format, as they are; the array holds their bits."""

    format: Format

    @property
    def size(self) -> int:
        return self.count * self.format.itemsize

    def write(self, values: npt.NDArray[np.unsignedinteger], into: Buffer) -> None:
        into[:] = values.view(np.uint8)

    def read(self, data: Buffer) -> npt.NDArray[np.unsignedinteger]:
        self.check(data.size)
        return np.frombuffer(data.tobytes(), self.format.bits)
