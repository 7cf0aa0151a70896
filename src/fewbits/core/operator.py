"""Operators: lossy maps of vectors, each a frozen value."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits import backend
from fewbits.backend.buffers import Buffer
from fewbits.backend.kernel import Kernel, Row, RowDirection, Written
from fewbits.backend.kinds import python
from fewbits.core import parameters
from fewbits.core.component import Component
from fewbits.core.guarantee import Guarantee
from fewbits.core.vector import Vector
from fewbits.reference.formats import FLOAT32, Format
from fewbits.reference.tally import Tally
from fewbits.rng import Rng
from fewbits.wire import frame as wire
from fewbits.wire.sections import Section, check_lengths

Parts = tuple[npt.NDArray[np.uint8], ...]


@dataclass(frozen=True, slots=True)
class Operator(Component):
    """A lossy map of vectors to sections: the last stage of a spec, or all of it.

    A subclass says which `kernel` its rows are. Or it overrides `encode` and `decode`: then it runs
    on the host, and in tables too.
    """

    @abstractmethod
    def layout(self, d: int, format: Format) -> tuple[Section, ...]:
        """The sections of a vector of `d` values, each with its largest size."""

    @abstractmethod
    def guarantee(self, d: int, format: Format = FLOAT32) -> Guarantee:
        """The guarantee for every vector of `d` values."""

    def kernel(self, d: int, format: Format) -> Kernel:
        """The kind and the numbers of a row of `d` values."""
        return python.kernel_of(self)

    def encode(self, x: Vector, rng: Rng, into: Parts, *, threads: int = 1) -> Written:
        """Write every section of `x` to the beginning of its slice, which has the largest size."""
        return self._run("encode", x.format, x.bits, into, x.count, rng.key, threads)

    def decode(self, parts: Parts, out: Vector, *, threads: int = 1) -> Tally:
        """Read the sections into `out`; `DecodeError` for what `encode` cannot have written."""
        self._check(parts, out.count, out.format)
        return self.decode_checked(parts, out, threads=threads)

    def decode_checked(self, parts: Parts, out: Vector, *, threads: int = 1) -> Tally:
        """`decode` of sections whose lengths have been checked."""
        return self._run("decode", out.format, out.bits, parts, out.count, threads=threads).tally

    def accumulate(
        self, parts: Parts, format: Format, totals: npt.NDArray[Any], *, threads: int = 1
    ) -> Tally:
        """Add the decoded vector to `totals`, float64 for float64 and float32 for the others."""
        expected = np.float64 if format.itemsize == 8 else np.float32
        if totals.dtype != expected:
            raise RuntimeError(
                f"{format.name} is summed in {expected.__name__}, got {totals.dtype}"
            )
        self._check(parts, totals.size, format)
        return self._run("accumulate", format, totals, parts, totals.size, threads=threads).tally

    def _check(self, parts: Parts, count: int, format: Format) -> None:
        check_lengths(self.layout(count, format), [part.size for part in parts])

    def _run(
        self,
        direction: RowDirection,
        format: Format,
        values: npt.NDArray[Any],
        parts: Parts,
        count: int,
        key: bytes = bytes(16),
        threads: int = 1,
    ) -> Written:
        place = Buffer.of(values)
        sections = tuple(map(Buffer.of, parts))
        row = Row(self.kernel(count, format), format, place, sections, key, threads)
        return backend.of(place).run_row(direction, row)

    def encode_row(self, row: Row) -> Written:
        """Encode a row of a table by `encode`, which is overridden if this is called."""
        x = Vector(row.values.array(row.format.bits), row.format)
        return self.encode(x, Rng(row.key), _arrays(row), threads=row.threads)

    def decode_row(self, row: Row) -> Tally:
        """Decode a row of a table by `decode`, which is overridden if this is called."""
        out = Vector(row.values.array(row.format.bits), row.format)
        return self.decode(_arrays(row), out, threads=row.threads)

    def joined(self, last: "Operator") -> str | None:
        """The spec of the one operator that is this one and then `last`; None if there is none."""
        return None

    @property
    def stages(self) -> tuple[wire.StageRecord, ...]:
        """The operator as the frame names it, the stage that is applied first at the front."""
        return (self.stage,)

    def max_frame_bits(self, d: int, format: Format) -> int:
        """The bits of the largest frame of a one-dimensional vector of `d` values."""
        parameters.check_count(d)
        lengths = tuple(section.size for section in self.layout(d, format))
        header = wire.Header(format, (d,), self.stages, lengths).encode()
        return 8 * (len(header) + sum(lengths) + wire.CHECKSUM_SIZE)


def _arrays(row: Row) -> Parts:
    return tuple(section.array() for section in row.sections)
