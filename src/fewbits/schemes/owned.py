r"""Two hops: every unit goes to its owner, who sums in rank order, compresses and sends to all.

**sharded**: unit number $i$ of the batch belongs to rank $i \bmod n$, and the owner divides before
it compresses. This is Algorithm 1 with the master spread over the ranks: each rank sends
$2(n-1)/n$ of the code bytes, at any $n$.

**star**: rank 0 owns everything. Algorithm 1 as written: the master sums and compresses the sum,
the workers divide by $n$.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits.kernels.formats import Format
from fewbits.kernels.units import Tally
from fewbits.rng import Rng
from fewbits.schemes.comm import Comm
from fewbits.schemes.header import Phase
from fewbits.schemes.reduction import Progress, Reduction, divide, float_dtype, guarded
from fewbits.schemes.units import Batch, Slot, Summation, Unit, slots


class Owned(Reduction):
    """The two hops; subclasses say who owns a unit and who divides."""

    divides_first: bool

    def owner(self, number: int) -> int:
        """The rank that owns unit `number` of the batch."""
        raise NotImplementedError

    def __init__(self, units: Sequence[Unit], format: Format, comm: Comm, threads: int = 1) -> None:
        super().__init__(units, format, comm, threads)
        rank, size = comm.rank, comm.size
        owned: list[list[Unit]] = [[] for _ in range(size)]
        for number, unit in enumerate(units):
            owned[self.owner(number)].append(unit)
        first = [slots(own, "worker", format) for own in owned]
        second = [slots(own, "master", self.totals_format) for own in owned]
        self.totals = np.zeros(sum(u.count for u in owned[rank]), float_dtype(self.totals_format))

        self.outgoing_1 = [np.zeros(length, np.uint8) for _, length in first]
        self.incoming_1 = [np.zeros(first[rank][1], np.uint8) for _ in range(size)]
        self.incoming_1[rank] = self.outgoing_1[rank]
        self.incoming_2 = [np.zeros(length, np.uint8) for _, length in second]
        self.outgoing_2 = self.incoming_2[rank]

        self._encode_1 = Batch(_entries(first, self.outgoing_1), format, threads=threads)
        self._add = Summation(
            _from_zero(first[rank][0]),
            self.incoming_1,
            format,
            divisor=size if self.divides_first else 1,
            threads=threads,
        )
        own_2 = _from_zero(second[rank][0])
        self._encode_2 = Batch(
            [(slot, self.outgoing_2) for slot in own_2], self.totals_format, threads=threads
        )
        self._decode = Batch(_entries(second, self.incoming_2), self.totals_format, threads=threads)
        self._decode_senders = [r for r, (own, _) in enumerate(second) for _ in own]

    def run(self, values: npt.NDArray[Any], rng: Rng, progress: Progress) -> npt.NDArray[Any]:
        """Both hops, then the mean in place."""
        private = rng.fork("private", progress.step, self.comm.rank)
        common = rng.fork("second hop", progress.step)
        self.hop(
            Phase.FIRST_HOP,
            lambda: self._encode_1.encode(values, private),
            (self.outgoing_1, self.incoming_1),
            [self.outgoing_2.size] * self.comm.size,
            progress,
        )
        self.hop(
            Phase.SECOND_HOP,
            lambda: self._sum(common),
            ([self.outgoing_2] * self.comm.size, self.incoming_2),
            progress.foresight.after_batch([buffer.size for buffer in self.outgoing_1]),
            progress,
        )
        result = self.result(values)
        guarded(lambda: self._finish(result), progress)
        progress.sequence += 1
        return result

    def _sum(self, rng: Rng) -> Tally:
        self.blaming(range(self.comm.size), lambda: self._add.run(self.totals))
        return self._encode_2.encode(self.totals.view(self.totals_format.bits), rng)

    def _finish(self, result: npt.NDArray[Any]) -> Tally:
        bits = result.view(self.totals_format.bits)
        tally = self.blaming(self._decode_senders, lambda: self._decode.decode(bits))
        if not self.divides_first:
            divide(result, self.comm.size)
        return tally


class Sharded(Owned):
    """Every rank is the master of one shard."""

    divides_first = True

    def owner(self, number: int) -> int:
        """The unit's number modulo the ranks."""
        return number % self.comm.size


class Star(Owned):
    """Rank 0 is the master of all."""

    divides_first = False

    def owner(self, number: int) -> int:
        """Always rank 0."""
        return 0


def _entries(
    placed: Sequence[tuple[list[Slot], int]], buffers: Sequence[Any]
) -> list[tuple[Slot, Any]]:
    return [
        (slot, buffer) for (own, _), buffer in zip(placed, buffers, strict=True) for slot in own
    ]


def _from_zero(own: Sequence[Slot]) -> list[Slot]:
    """The same slots with their values one after the other, as the owner's totals lie."""
    moved, start = [], 0
    for slot in own:
        moved.append(replace(slot, start=start))
        start += slot.count
    return moved
