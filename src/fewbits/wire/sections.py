"""The kinds of section a frame may hold: a closed set, a new one is a new wire version.

Operators choose among them. A section turns one array into bytes and back. It knows its `count` and
its bounds, and `read` accepts exactly what `write` can make.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fewbits.coding import bitpack, enumerative, rans, rice
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
    def write(self, values: npt.NDArray[Any], into: Buffer) -> int:
        """Fill the front of `into`, which has `size` bytes; returns how many were needed."""

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

    def write(self, values: npt.NDArray[np.uint16], into: Buffer) -> int:
        bitpack.pack(values, self.width, into)
        return self.size

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

    def write(self, values: npt.NDArray[np.unsignedinteger], into: Buffer) -> int:
        into[:] = values.view(np.uint8)
        return self.size

    def read(self, data: Buffer) -> npt.NDArray[np.unsignedinteger]:
        self.check(data.size)
        return np.frombuffer(data.tobytes(), self.format.bits)


@dataclass(frozen=True, slots=True)
class Coded(Section):
    """Codes below `bound`, entropy coded; with signs if `signed`, as integers below 0."""

    varies: ClassVar[bool] = True

    bound: int
    signed: bool

    @property
    def size(self) -> int:
        return rans.largest_size(self.count, self.bound, self.signed)

    def write(self, values: npt.NDArray[np.int32], into: Buffer) -> int:
        signs = (values < 0).astype(np.uint8) if self.signed else None
        data = rans.encode(np.abs(values).astype(np.uint16), self.bound, signs)
        into[: len(data)] = np.frombuffer(data, np.uint8)
        return len(data)

    def read(self, data: Buffer) -> npt.NDArray[np.int32]:
        self.check(data.size)
        codes, signs = rans.decode(data, self.bound, self.count, self.signed)
        values = codes.astype(np.int32)
        if signs is not None:
            values *= np.int8(1) - 2 * signs.view(np.int8)
        return values

    def check(self, length: int) -> None:
        least = rans.smallest_size(self.count, self.bound)
        if not least <= length <= self.size:
            raise DecodeError(
                f"section {self.name!r} has {length} bytes, "
                f"{self.count} values need {least} to {self.size}"
            )


@dataclass(frozen=True, slots=True)
class Enumerated(Section):
    """Blocks of a scale and signed codes below `bound`, as the bit string of sparse dithering.

    The array holds the bits of all scales, then all codes. `spread` and `slack` bound the sum of
    the magnitudes of a block, see `enumerative.most_bits`.
    """

    varies: ClassVar[bool] = True

    block: int
    format: Format
    bound: int
    spread: float
    slack: float

    @property
    def size(self) -> int:
        own = enumerative.block_counts(self.count, self.block)
        bits = (
            number * enumerative.most_bits(size, self.format, self.spread, self.slack)
            for size, number in own.items()
        )
        return (sum(bits) + 7) // 8

    def write(self, values: npt.NDArray[np.int64], into: Buffer) -> int:
        blocks = values.size - self.count
        stream = enumerative.Stream(
            values[:blocks].astype(np.uint64), values[blocks:].astype(np.int32)
        )
        data = np.packbits(enumerative.encode(stream, self.block, self.format), bitorder="little")
        into[: data.size] = data
        return data.size

    def read(self, data: Buffer) -> npt.NDArray[np.int64]:
        self.check(data.size)
        bits = np.unpackbits(data, bitorder="little")
        found = enumerative.decode(bits, self.count, self.block, self.format, self.bound)
        return np.concatenate([found.scales.astype(np.int64), found.codes.astype(np.int64)])

    def check(self, length: int) -> None:
        """Every length is possible: `read` finds where the bits must end."""


@dataclass(frozen=True, slots=True)
class Rice(Section):
    """At most `count` numbers below `bound`, with the Golomb-Rice code of `parameter` low bits.

    An operator that finds elsewhere how many there are reads with that `count`.
    """

    varies: ClassVar[bool] = True

    parameter: int
    bound: int

    @property
    def size(self) -> int:
        longest = self.parameter + (self.bound - 1 >> self.parameter) + 1
        return bitpack.packed_size(self.count, longest)

    def write(self, values: npt.NDArray[np.int64], into: Buffer) -> int:
        data = rice.encode(values, self.parameter)
        into[: data.size] = data
        return data.size

    def read(self, data: Buffer) -> npt.NDArray[np.int64]:
        return rice.decode(data, self.parameter, self.bound, self.count)

    def check(self, length: int) -> None:
        if length > self.size:
            raise DecodeError(
                f"section {self.name!r} has {length} bytes, "
                f"{self.count} values need at most {self.size}"
            )
