r"""In-network aggregation: Algorithm 1 with a master that can only add integers.

Every rank's codes go to aggregators, which sum them as integers, round the sums to powers of two at
random and send those to all: $d$ bytes there and $d$ back at any number of ranks. Units that travel
exactly go from rank to rank as in `sharded`, and so do all headers: a fault of a rank, or of an
aggregator as a rank sees it, is an error on all of them in the same exchange.

A unit with a value that is not finite comes back as NaN, all of it, on every rank: its packets
carry a flag, because a byte has no room for NaN.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from fewbits._native_switch import CHUNK
from fewbits.core.operator import Operator
from fewbits.core.vector import Vector
from fewbits.errors import SpecError
from fewbits.kernels import native, switching
from fewbits.kernels.formats import FLOAT32, FLOAT64, Format
from fewbits.kernels.switching import Span
from fewbits.kernels.units import Tally
from fewbits.operators.identity import Identity
from fewbits.operators.natural import Natural
from fewbits.operators.natural_dithering import NaturalDithering
from fewbits.rng import Rng, token
from fewbits.schemes.comm import Comm
from fewbits.schemes.correction import Loop
from fewbits.schemes.owned import Sharded
from fewbits.schemes.payload import Unit
from fewbits.schemes.reduction import Progress

Bytes = npt.NDArray[np.uint8]
Chunks = npt.NDArray[Any]
"""Rows of `CHUNK`: the codes that travel in one packet."""

_NONFINITE = 1  # a packet's flag


class Exchanged(NamedTuple):
    """What an exchange with the aggregators took."""

    sent: int  # bytes
    received: int
    resent: int  # packets


class Wire(Protocol):
    """The way to the aggregators."""

    @property
    def chunk(self) -> int:
        """The most codes in a packet."""

    def start(self, chunks: Chunks, codes: Bytes, sums: Bytes) -> "Future[Exchanged]":
        """Begin to send codes and to receive their sums; exchanges keep their order."""


def check(operator: Operator) -> None:
    """Refuse an operator whose values are no powers of two."""
    if operator in (Natural(), Identity()):
        return
    if isinstance(operator, NaturalDithering) and operator.scale == "natural":
        return
    raise SpecError(
        f"a switch adds powers of two: it takes natural or natural-dithering:scale=natural, "
        f"not {operator}"
    )


class Switched(Sharded):
    """Sums by aggregators; exact units are sharded."""

    def __init__(
        self,
        units: Sequence[Unit],
        format: Format,
        comm: Comm,
        threads: int = 1,
        loop: Loop | None = None,
        *,
        wire: Wire,
        span: Span,
    ) -> None:
        if format == FLOAT64:
            raise SpecError("a switch takes float32, float16 and bfloat16 gradients, not float64")
        for unit in units:
            check(unit.worker)
        super().__init__(units, format, comm, threads, loop)
        self._wire, self._span = wire, span
        self._own = [unit for unit in units if unit.worker != Identity()]
        self._table = switching.values_table(span)
        self._tokens = [token(unit.name) for unit in self._own]
        self._starts = np.cumsum([0, *(unit.count for unit in self._own)])
        self._codes = np.zeros(self._starts[-1], np.uint8)
        self._sums = np.zeros_like(self._codes)
        most = max((unit.count for unit in self._own), default=0)
        self._values = np.zeros(most, np.uint32)
        self._chunks, self._rows = self._cut()

    def between_ranks(self, units: Sequence[Unit]) -> Sequence[Unit]:
        """The exact ones."""
        return [unit for unit in units if unit.worker == Identity()]

    def encode(self, values: npt.NDArray[Any], rng: Rng, progress: Progress) -> Tally:
        """Encode exact units for their owners and all others for the aggregators."""
        exact = super().encode(values, rng, progress)
        total = switching.Tally()
        for number, unit in enumerate(self._own):
            bits = self._float32(unit, values[unit.place], Rng(rng.child_key(self._tokens[number])))
            codes = self._codes[self._starts[number] : self._starts[number + 1]]
            own = Rng(rng.child_key(self._tokens[number]))
            met = switching.encode(bits, self._span, own, codes)
            flag = _NONFINITE if met.nonfinite else 0
            self._chunks["flags"][self._rows[number] : self._rows[number + 1]] = flag
            total += met
        progress.spent.below_span += total.below
        saturated, nonfinite = exact.saturated + total.saturated, exact.nonfinite + total.nonfinite
        return Tally(saturated, nonfinite)

    def _float32(self, unit: Unit, bits: npt.NDArray[Any], rng: Rng) -> npt.NDArray[np.uint32]:
        """What is rounded to codes: the values, or what dithering makes of them."""
        wide = bits.view(np.uint32) if self.format == FLOAT32 else self._values[: unit.count]
        if self.format != FLOAT32:
            native.cast(bits, self.format, FLOAT32, wide)
        if unit.worker == Natural():
            return wide
        # Powers of two already: rounding them again changes only those outside of the span.
        sections = unit.worker.layout(unit.count, FLOAT32)
        parts = tuple(np.empty(section.size, np.uint8) for section in sections)
        written = unit.worker.encode(Vector(wide, FLOAT32), rng.fork("dithering"), parts)
        parts = tuple(part[:size] for part, size in zip(parts, written.sizes, strict=True))
        out = self._values[: unit.count]
        unit.worker.decode(parts, Vector(out, FLOAT32))
        return out

    def between_hops(self, rng: Rng, progress: Progress) -> Iterator[None]:
        """Exchange the codes with the aggregators, also after a fault: the others wait for them."""
        if not self._own:
            return
        keys = np.frombuffer(b"".join(map(rng.child_key, self._tokens)), "V16")
        self._chunks["key"] = np.repeat(keys, np.diff(self._rows))
        exchanged = self._wire.start(self._chunks, self._codes, self._sums)
        yield
        with progress.spent.wire():
            try:
                done = exchanged.result()
            except Exception as error:  # told in the next header
                progress.fault = progress.fault or error
                return
        progress.spent.payload_bytes += done.sent
        progress.spent.resent += done.resent

    def _finish(self, result: npt.NDArray[Any]) -> Tally:
        tally = super()._finish(result)
        bits = result.view(np.uint32)
        lost = self._chunks["answer"] & _NONFINITE != 0
        for number, unit in enumerate(self._own):
            place, first = bits[unit.place], int(self._starts[number])
            switching.decode(self._sums[first : first + unit.count], self._table, place)
            if lost[self._rows[number] : self._rows[number + 1]].any():
                place[:] = FLOAT32.quiet_nan
        return tally

    def _cut(self) -> tuple[Chunks, npt.NDArray[np.int64]]:
        """A row for each packet, and where each unit's rows begin."""
        size = self._wire.chunk
        rows = [
            (int(start) + at, at, min(size, unit.count - at))
            for unit, start in zip(self._own, self._starts, strict=False)
            for at in range(0, unit.count, size)
        ]
        chunks = np.zeros(len(rows), CHUNK)
        if rows:
            chunks["offset"], chunks["first"], chunks["count"] = np.array(rows).T
        counts = [-(-unit.count // size) for unit in self._own]
        return chunks, np.cumsum([0, *counts])
