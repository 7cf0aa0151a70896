"""Stages: maps of a vector to a shorter or rotated one, which stand before an operator."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.backend.kernel import Kernel
from fewbits.backend.kinds import python
from fewbits.core.component import Component
from fewbits.core.guarantee import Guarantee
from fewbits.core.vector import Vector
from fewbits.reference.formats import FLOAT32, Bits, Format
from fewbits.reference.tally import Tally
from fewbits.rng import Rng
from fewbits.wire.sections import Section

_Parts = tuple[npt.NDArray[np.uint8], ...]


class Split(NamedTuple):
    """The vector for the next stage, and the tally of the split.

    The side sections are fixed by the number of values, so `split` always fills them.
    """

    vector: Vector
    tally: Tally


@dataclass(frozen=True, slots=True)
class Stage(Component):
    """All but the last of `a|b|c`. A stage keeps side sections and hands a vector on.

    A vector that is not finite must stay so: if some value of the input is NaN or infinite, then
    some value that is handed on is, and with it some value of the result. Finite vectors stay
    finite in both directions. A subclass says which `kernel` it is, or overrides `split` and
    `join`.
    """

    @abstractmethod
    def reduced(self, d: int) -> int:
        """The number of values that are handed on, of `d`."""

    @abstractmethod
    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        """The side sections, none of which varies in length."""

    @abstractmethod
    def guarantee(self, d: int, format: Format, inner: Guarantee) -> Guarantee:
        """The guarantee for `d` values if `inner` holds for those handed on; its bits are kept."""

    def kernel(self, d: int) -> Kernel:
        """The kind and the numbers of the stage on `d` values."""
        return python.kernel_of(self, len(self.layout(d, FLOAT32)))

    def split(self, x: Vector, rng: Rng, into: _Parts) -> Split:
        """Fill the side sections and make the vector that the next stage gets."""
        raise NotImplementedError

    def join(self, parts: _Parts, reduced: Vector, out: Vector) -> Tally:
        """The reverse of `split`; `DecodeError` for side sections that it cannot have written."""
        raise NotImplementedError

    def split_bits(self, bits: Bits, format: Format, rng: Rng, into: _Parts) -> tuple[Bits, Tally]:
        """`split`, as backends call it."""
        handed, tally = self.split(Vector(bits, format), rng, into)
        return handed.bits, tally

    def join_bits(self, parts: _Parts, handed: Bits, format: Format, out: Bits) -> Tally:
        """`join`, as backends call it."""
        return self.join(parts, Vector(handed, format), Vector(out, format))
