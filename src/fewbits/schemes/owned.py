r"""Two hops: every unit goes to its owner, who sums in rank order, compresses and sends to all.

**sharded**: unit number $i$ of the batch belongs to rank $i \bmod n$, and the owner divides before
it compresses. This is Algorithm 1 with the master spread over the ranks: each rank sends
$2(n-1)/n$ of the code bytes, at any $n$.

**star**: rank 0 owns everything. Algorithm 1 as written: the master sums and compresses the sum,
the workers divide by $n$.
"""

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from fewbits.kernels.formats import Format
from fewbits.kernels.units import Tally
from fewbits.rng import Rng
from fewbits.schemes.comm import Comm
from fewbits.schemes.header import Phase
from fewbits.schemes.payload import Payload, Unit
from fewbits.schemes.reduction import Progress, Reduction, divide, guarded, naming
from fewbits.schemes.units import Batch, Summation


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
        wide = self.totals_format
        self.outgoing_1 = [Payload(own, "worker", format) for own in owned]
        self.incoming_1 = [Payload(owned[rank], "worker", format) for _ in range(size)]
        self.incoming_1[rank] = self.outgoing_1[rank]
        self.incoming_2 = [Payload(own, "master", wide) for own in owned]
        self.outgoing_2 = self.incoming_2[rank]
        self._encode = Batch(self.outgoing_1, format, threads=threads)
        self._add = Summation(
            self.incoming_1,
            format,
            divisor=size if self.divides_first else 1,
            onward=self.outgoing_2,
            threads=threads,
        )
        self._decode = Batch(self.incoming_2, wide, threads=threads)

    def run(self, values: npt.NDArray[Any], rng: Rng, progress: Progress) -> npt.NDArray[Any]:
        """Both hops, then the mean in place."""
        private = rng.fork("private", progress.step, self.comm.rank)
        common = rng.fork("second hop", progress.step)
        self.hop(
            Phase.FIRST_HOP,
            lambda: self._encode.encode(values, private),
            (self.outgoing_1, self.incoming_1),
            lambda: [self.outgoing_2.expected] * self.comm.size,
            progress,
        )
        self.hop(
            Phase.SECOND_HOP,
            lambda: naming(lambda: self._add.relay(common)),
            ([self.outgoing_2] * self.comm.size, self.incoming_2),
            lambda: progress.foresight.after_batch(self.outgoing_1),
            progress,
        )
        result = self.result(values)
        guarded(lambda: self._finish(result), progress)
        progress.sequence += 1
        return result

    def _finish(self, result: npt.NDArray[Any]) -> Tally:
        bits = result.view(self.totals_format.bits)
        tally = naming(lambda: self._decode.decode(bits))
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
