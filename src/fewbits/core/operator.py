"""The lossy maps: one frozen value each, and everything the rest of fewbits needs to know of it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.core import parameters
from fewbits.core.guarantee import Guarantee
from fewbits.core.vector import Vector
from fewbits.kernels.formats import FLOAT32, Format
from fewbits.kernels.reference import to_float64
from fewbits.kernels.units import Tally
from fewbits.rng import Rng
from fewbits.wire.frame import CHECKSUM_SIZE, Header, Stage
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
class Operator(ABC):
    """A lossy map of vectors to sections.

    Its fields are its parameters and all that reaches the wire. A subclass is one file in
    `fewbits/operators`: equal fields, equal operators, equal bytes. `code` is its number on the
    wire, never reused; fields are numbered by position, so new ones go last, with a default.
    `aliases` are other names in specs, each with the parameters that it stands for.
    """

    name: ClassVar[str]
    code: ClassVar[int]
    aliases: ClassVar[dict[str, str]] = {}

    def __post_init__(self) -> None:
        parameters.check_choices(self)

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
        totals += to_float64(scratch.bits, format).astype(totals.dtype)
        return tally

    def native(self, format: Format) -> tuple[int, int] | None:
        """Kind and option of the native kernel that encodes a table of units, if there is one."""
        return None

    @property
    def spec(self) -> str:
        """The canonical text form: defaults omitted, fields in order, shortest numbers."""
        fields = parameters.to_text(self)
        return f"{self.name}:{fields}" if fields else self.name

    @property
    def stage(self) -> Stage:
        """The operator as the frame names it."""
        return Stage(self.code, parameters.to_wire(self))

    def most_bits(self, d: int, format: Format) -> int:
        """The bits of the largest frame of a one-dimensional vector of `d` values."""
        lengths = tuple(section.size for section in self.layout(d, format))
        header = Header(format, (d,), (self.stage,), lengths).encode()
        return 8 * (len(header) + sum(lengths) + CHECKSUM_SIZE)

    def __str__(self) -> str:
        return self.spec
