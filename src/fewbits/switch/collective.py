r"""In-network aggregation: Algorithm 1 with a master that can only add integers.

Every rank's codes go to aggregators, which sum them as integers, round the sums to powers of two at
random and send those to all: $d$ bytes up and $d$ down at any number of ranks. Exact units and all
headers go from rank to rank as in `sharded`. So if a rank fails, or sees an aggregator fail, all
ranks raise in the same exchange.

If a value of a unit is not finite, the whole unit becomes NaN on every rank. Its packets carry a
flag, because a byte has no code for NaN.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits import backend
from fewbits.backend import switch as native_switch
from fewbits.backend.buffers import Buffer
from fewbits.backend.kernel import Kernel, Kind, Row
from fewbits.collectives.owned import Sharded
from fewbits.collectives.payload import Unit
from fewbits.collectives.progress import RankProgress
from fewbits.collectives.reduction import ReductionTask
from fewbits.core.operator import Operator
from fewbits.core.vector import Vector
from fewbits.errors import SpecError
from fewbits.operators.identity import Identity
from fewbits.operators.natural import Natural
from fewbits.operators.natural_dithering import NaturalDithering
from fewbits.reference import switching
from fewbits.reference.formats import FLOAT32, FLOAT64
from fewbits.reference.switching import CodeTally, ExponentSpan
from fewbits.reference.tally import Tally
from fewbits.rng import Rng, token
from fewbits.switch.protocol import Packets
from fewbits.switch.worker import SwitchWorker

_NONFINITE = 1  # a packet's flag


def check(operator: Operator) -> None:
    """Refuse an operator whose values are not powers of two."""
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

    name = "Switched"

    def __init__(self, task: ReductionTask, *, wire: SwitchWorker, span: ExponentSpan) -> None:
        if task.format == FLOAT64:
            raise SpecError("a switch takes float32, float16 and bfloat16 gradients, not float64")
        for unit in task.units:
            check(unit.uplink)
        super().__init__(task)
        self._wire, self._span = wire, span
        self._own = [unit for unit in task.units if unit.uplink != Identity()]
        self._table = switching.values_table(span)
        self._tokens = [token(unit.name) for unit in self._own]
        self._starts = np.cumsum([0, *(unit.count for unit in self._own)])
        self._codes = np.zeros(self._starts[-1], np.uint8)
        self._sums = np.zeros_like(self._codes)
        most = max((unit.count for unit in self._own), default=0)
        self._values = np.zeros(most, np.uint32)
        self._packets, self._rows = self._cut()

    def between_ranks(self, units: Sequence[Unit]) -> Sequence[Unit]:
        return [unit for unit in units if unit.uplink == Identity()]

    def encode(self, values: npt.NDArray[Any], rng: Rng, progress: RankProgress) -> Tally:
        exact = super().encode(values, rng, progress)
        total = CodeTally()
        for number, unit in enumerate(self._own):
            bits = self._float32(unit, values[unit.place], Rng(rng.child_key(self._tokens[number])))
            codes = self._codes[self._starts[number] : self._starts[number + 1]]
            own = Rng(rng.child_key(self._tokens[number]))
            met = native_switch.encode(bits, self._span, own, codes)
            flag = _NONFINITE if met.nonfinite else 0
            self._packets["flags"][self._rows[number] : self._rows[number + 1]] = flag
            total += met
        progress.spent.below_span += total.below
        saturated, nonfinite = exact.saturated + total.saturated, exact.nonfinite + total.nonfinite
        return Tally(saturated, nonfinite)

    def _float32(self, unit: Unit, bits: npt.NDArray[Any], rng: Rng) -> npt.NDArray[np.uint32]:
        """The values to round to codes, after dithering if the operator has it."""
        wide = bits.view(np.uint32) if self.format == FLOAT32 else self._values[: unit.count]
        if self.format != FLOAT32:
            source, target = Buffer.of(bits), Buffer.of(wide)
            row = Row(Kernel(Kind.CAST, FLOAT32.code), self.format, source, (target,))
            backend.of(source).run_row("encode", row)
        if unit.uplink == Natural():
            return wide
        # Powers of two already: rounding them again changes only those outside of the span.
        sections = unit.uplink.layout(unit.count, FLOAT32)
        parts = tuple(np.empty(section.size, np.uint8) for section in sections)
        written = unit.uplink.encode(Vector(wide, FLOAT32), rng.fork("dithering"), parts)
        parts = tuple(part[:size] for part, size in zip(parts, written.sizes, strict=True))
        out = self._values[: unit.count]
        unit.uplink.decode(parts, Vector(out, FLOAT32))
        return out

    def between_hops(self, rng: Rng, progress: RankProgress) -> Iterator[None]:
        """Exchange codes with the aggregators, even after a fault, because others wait for them."""
        if not self._own:
            return
        keys = np.frombuffer(b"".join(map(rng.child_key, self._tokens)), "V16")
        self._packets["key"] = np.repeat(keys, np.diff(self._rows))
        exchanged = self._wire.start(self._packets, self._codes, self._sums)
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
        lost = self._packets["answer"] & _NONFINITE != 0
        for number, unit in enumerate(self._own):
            place, first = bits[unit.place], int(self._starts[number])
            native_switch.decode(self._sums[first : first + unit.count], self._table, place)
            if lost[self._rows[number] : self._rows[number + 1]].any():
                place[:] = FLOAT32.quiet_nan
        return tally

    def _cut(self) -> tuple[Packets, npt.NDArray[np.int64]]:
        """A row for each packet, and where each unit's rows begin."""
        size = self._wire.chunk
        rows = [
            (int(start) + at, at, min(size, unit.count - at))
            for unit, start in zip(self._own, self._starts, strict=False)
            for at in range(0, unit.count, size)
        ]
        packets = np.zeros(len(rows), native_switch.PACKET_ROW)
        if rows:
            packets["offset"], packets["first"], packets["count"] = np.array(rows).T
        counts = [-(-unit.count // size) for unit in self._own]
        return packets, np.cumsum([0, *counts])
