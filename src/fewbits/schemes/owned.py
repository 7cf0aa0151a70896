r"""Two hops: every unit goes to its owner, who sums in rank order, compresses and sends to all.

**sharded**: a unit belongs to one of the $n$ ranks by its shard, and the owner divides before it
compresses. This is Algorithm 1 with the master spread over the ranks: each rank sends
$2(n-1)/n$ of the code bytes, at any $n$.

**star**: rank 0 owns everything. Algorithm 1 as written: the master sums and compresses the sum,
the workers divide by $n$. With feedback the master divides, so that its memory does not depend on
$n$.
"""

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from fewbits.kernels.formats import Format
from fewbits.kernels.units import Tally
from fewbits.rng import Rng
from fewbits.schemes.comm import Comm
from fewbits.schemes.correction import Correction, Loop
from fewbits.schemes.header import Phase
from fewbits.schemes.payload import Payload, Unit
from fewbits.schemes.reduction import Hops, Progress, Reduction, divide, guarded, naming
from fewbits.schemes.units import Batch, Summation


class ToOwners(Reduction):
    """The first hop; subclasses say who owns a unit."""

    def owner(self, number: int, unit: Unit) -> int:
        """The rank that owns a unit, which is `number` in the batch."""
        raise NotImplementedError

    def __init__(
        self,
        units: Sequence[Unit],
        format: Format,
        comm: Comm,
        threads: int = 1,
        loop: Loop | None = None,
    ) -> None:
        super().__init__(units, format, comm, threads, loop)
        rank, size = comm.rank, comm.size
        owned: list[list[Unit]] = [[] for _ in range(size)]
        for number, unit in enumerate(units):
            owned[self.owner(number, unit)].append(unit)
        self.owned, wide = owned, self.totals_format
        self.outgoing_1 = [Payload(own, "worker", format) for own in owned]
        self.incoming_1 = [Payload(owned[rank], "worker", format) for _ in range(size)]
        self.incoming_1[rank] = self.outgoing_1[rank]
        self._correction = Correction(loop, units, owned[rank], size, wide) if loop else None
        self._encode = Batch(self.outgoing_1, format, threads=threads)


class Owned(ToOwners):
    """The two hops; subclasses also say who divides."""

    divides_first: bool

    def __init__(
        self,
        units: Sequence[Unit],
        format: Format,
        comm: Comm,
        threads: int = 1,
        loop: Loop | None = None,
    ) -> None:
        super().__init__(units, format, comm, threads, loop)
        wide = self.totals_format
        self.incoming_2 = [Payload(own, "master", wide) for own in self.owned]
        self.outgoing_2 = self.incoming_2[comm.rank]
        self._add = Summation(
            self.incoming_1,
            format,
            divisor=comm.size if self.divides_first or loop else 1,
            onward=None if loop else self.outgoing_2,
            threads=threads,
        )
        self._return = Batch([self.outgoing_2], wide, threads=threads)
        self._decode = Batch(self.incoming_2, wide, threads=threads)
        if self._correction is not None:
            self._correction.bind(self._encode, self._return)

    def hops(self, values: npt.NDArray[Any], rng: Rng, progress: Progress) -> Hops:
        """Both hops, then the mean in place."""
        batch = progress.next_batch()
        private = rng.fork("private", progress.step, self.comm.rank)
        common = rng.fork("second hop", progress.step)
        result = self.result(values)
        yield from self.hop(
            batch,
            Phase.FIRST_HOP,
            lambda: self.send(self._encode, self._correction, values, private, progress),
            (self.outgoing_1, self.incoming_1),
            lambda: [self.outgoing_2.expected] * self.comm.size,
            progress,
        )
        yield from self.hop(
            batch,
            Phase.SECOND_HOP,
            lambda: naming(lambda: self._relay(result, common)),
            ([self.outgoing_2] * self.comm.size, self.incoming_2),
            lambda: progress.promises.next_step(batch, self.outgoing_1),
            progress,
        )
        guarded(lambda: self._finish(result), progress)
        return result

    def _relay(self, means: npt.NDArray[Any], rng: Rng) -> Tally:
        """Encode the means of this rank's units, or what `divides_first` says, for all ranks."""
        if self._correction is None:
            return self._add.relay(rng)
        self._add.run(means)
        return self._correction.send_back(self._return, means, rng)

    def _finish(self, result: npt.NDArray[Any]) -> Tally:
        bits = result.view(self.totals_format.bits)
        tally = naming(lambda: self._decode.decode(bits))
        if self._correction is not None:
            self._correction.known.receive(result)
        elif not self.divides_first:
            divide(result, self.comm.size)
        return tally


class Sharded(Owned):
    """Every rank is the master of one shard."""

    divides_first = True

    def owner(self, number: int, unit: Unit) -> int:
        """The unit's shard, or else its number, modulo the ranks."""
        return (number if unit.shard is None else unit.shard) % self.comm.size


class Star(Owned):
    """Rank 0 is the master of all."""

    divides_first = False

    def owner(self, number: int, unit: Unit) -> int:
        """Always rank 0."""
        return 0
