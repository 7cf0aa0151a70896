"""The kinds of section in a frame: a closed set; a new kind needs a new wire version.

Operators choose among them. A section says how many bytes an array takes at least and at most, and
this module alone checks lengths. Backends read and write the arrays.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fewbits.coding import bitpack, enumerative, places, rans
from fewbits.errors import DecodeError
from fewbits.reference.formats import Format
from fewbits.rng import KEY_BYTES
from fewbits.wire.frame import REVISED_VERSION, VERSION

_Bytes = npt.NDArray[np.uint8]


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

    @property
    def least(self) -> int:
        return self.size

    def check(self, length: int) -> None:
        if length != self.size:
            raise DecodeError(
                f"section {self.name!r} has {length} bytes, {self.count} values need {self.size}"
            )

    @property
    def oldest(self) -> int:
        """The oldest wire version that has the section."""
        return VERSION

    def version(self, data: _Bytes) -> int:
        """The oldest wire version that has what the section's bytes say."""
        return self.oldest


def needed_version(layout: Sequence[Section], parts: Iterable[_Bytes]) -> int:
    """The wire version of a frame of these sections."""
    return max(
        (own.version(part) for own, part in zip(layout, parts, strict=True)), default=VERSION
    )


def check_version(version: int, layout: Sequence[Section], parts: Iterable[_Bytes]) -> None:
    """There is one way to write a frame, so its version is the oldest that can say it."""
    needed = needed_version(layout, parts)
    if version < needed:
        raise DecodeError(rans.UNKNOWN_KIND)  # of a coded block: no other section says too much
    if version > needed:
        raise DecodeError(
            f"wire version {version} where {needed} suffices: not the canonical header"
        )


def check_lengths(layout: Sequence[Section], lengths: Sequence[int]) -> None:
    for section, length in zip(layout, lengths, strict=True):
        section.check(length)


@dataclass(frozen=True, slots=True)
class Packed(Section):
    """Codes below `bound` at a fixed number of bits each."""

    width: int
    bound: int

    @property
    def size(self) -> int:
        return bitpack.packed_size(self.count, self.width)


@dataclass(frozen=True, slots=True)
class PlaceSet(Section):
    """Which `count` of `within` places, in a length that these numbers determine."""

    within: int

    @property
    def size(self) -> int:
        return places.size(self.within, self.count)

    @property
    def oldest(self) -> int:
        return REVISED_VERSION if self.size else VERSION


def key_section() -> Packed:
    """The section of a stream's key, for decoders that repeat the draws."""
    return Packed("key", KEY_BYTES, width=8, bound=256)


@dataclass(frozen=True, slots=True)
class Floats(Section):
    """Numbers of one float format, uncompressed."""

    format: Format

    @property
    def size(self) -> int:
        return self.count * self.format.itemsize


@dataclass(frozen=True, slots=True)
class Coded(Section):
    """Codes below `bound`, entropy coded; with signs if `signed`."""

    varies: ClassVar[bool] = True

    bound: int
    signed: bool
    promised: int | None = None
    """Bytes that the operator's codes take at most, where it knows better than their bound."""

    @property
    def size(self) -> int:
        largest = rans.largest_size(self.count, self.bound, self.signed)
        return largest if self.promised is None else min(self.promised, largest)

    @property
    def least(self) -> int:
        return rans.smallest_size(self.count, self.bound)

    def version(self, data: _Bytes) -> int:
        return rans.needed_version(data)

    def check(self, length: int) -> None:
        largest = rans.largest_size(self.count, self.bound, self.signed)  # of any writer
        if not self.least <= length <= largest:
            raise DecodeError(
                f"section {self.name!r} has {length} bytes, "
                f"{self.count} values need {self.least} to {largest}"
            )


@dataclass(frozen=True, slots=True)
class Enumerated(Section):
    """Blocks of a scale and signed codes below `bound`, as the bit string of sparse dithering.

    `spread` and `slack` bound the sum of the magnitudes of a block, see `enumerative.most_bits`.
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

    @property
    def least(self) -> int:
        return 0

    def check(self, length: int) -> None:
        """Accept every length, because decoding finds where the bits must end."""


@dataclass(frozen=True, slots=True)
class Rice(Section):
    """At most `count` numbers below `bound`, with the Golomb-Rice code of `parameter` low bits.

    The operator knows their number from another section.
    """

    varies: ClassVar[bool] = True

    parameter: int
    bound: int

    @property
    def size(self) -> int:
        longest = self.parameter + (self.bound - 1 >> self.parameter) + 1
        return bitpack.packed_size(self.count, longest)

    @property
    def least(self) -> int:
        return 0

    def check(self, length: int) -> None:
        if length > self.size:
            raise DecodeError(
                f"section {self.name!r} has {length} bytes, "
                f"{self.count} values need at most {self.size}"
            )
