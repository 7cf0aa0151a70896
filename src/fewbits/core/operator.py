"""The lossy maps: one frozen value each, and everything the rest of fewbits needs to know of it."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.core.guarantee import Guarantee
from fewbits.core.named import Named
from fewbits.core.vector import Vector, wide
from fewbits.kernels.formats import FLOAT32, Format
from fewbits.kernels.units import Kernel, Tally
from fewbits.rng import Rng
from fewbits.wire import frame as wire
from fewbits.wire.sections import Section

Parts = tuple[npt.NDArray[np.uint8], ...]


class Written(NamedTuple):
    """What `encode` met, and how many bytes of each section it wrote."""

    tally: Tally
    sizes: tuple[int, ...]

    @classmethod
    def full(cls, tally: Tally, into: Parts) -> "Written":
        """Every section was filled."""
        return cls(tally, tuple(part.size for part in into))


@dataclass(frozen=True, slots=True)
class Operator(Named):
    """A lossy map of vectors to sections: the last stage of a spec, or all of it."""

    @abstractmethod
    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        """The sections of a vector of `d` values, each with its largest size."""

    @abstractmethod
    def encode(self, x: Vector, rng: Rng, into: Parts, *, threads: int = 1) -> Written:
        """Write every section of `x` to the beginning of its slice, which has the largest size."""

    @abstractmethod
    def decode(self, parts: Parts, out: Vector, *, threads: int = 1) -> Tally:
        """Read the sections into `out`; `DecodeError` for what `encode` cannot have written."""

    @abstractmethod
    def guarantee(self, d: int, format: Format = FLOAT32) -> Guarantee:
        """What holds for every vector of `d` values."""

    def accumulate(
        self, parts: Parts, format: Format, totals: npt.NDArray[Any], *, threads: int = 1
    ) -> Tally:
        """Add the decoded vector to `totals`, float64 for float64 and float32 for the others."""
        scratch = Vector(np.empty(totals.size, format.bits), format)
        tally = self.decode(parts, scratch, threads=threads)
        with np.errstate(all="ignore"):  # NaN and infinity are the caller's to judge
            totals += wide(scratch)
        return tally

    def kernel(self, d: int, format: Format) -> Kernel | None:
        """The native kernel that encodes units of `d` values in a table, if there is one."""
        own = self.native(format)
        return None if own is None else Kernel(*own)

    def native(self, format: Format) -> tuple[int, int] | None:
        """Kind and option of that kernel where they do not depend on the number of values."""
        return None

    @property
    def stages(self) -> tuple[wire.Stage, ...]:
        """The operator as the frame names it, the stage that is applied first at the front."""
        return (self.stage,)

    def most_bits(self, d: int, format: Format) -> int:
        """The bits of the largest frame of a one-dimensional vector of `d` values."""
        lengths = tuple(section.size for section in self.layout(d, format))
        header = wire.Header(format, (d,), self.stages, lengths).encode()
        return 8 * (len(header) + sum(lengths) + wire.CHECKSUM_SIZE)
