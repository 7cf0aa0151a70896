r"""Two hops: every unit goes to its owner, who sums in rank order, compresses and sends to all.

**sharded**: a unit belongs to one of the $n$ ranks by its shard, and the owner divides before it
compresses. This is Algorithm 1 with the master spread over the ranks: each rank sends
$2(n-1)/n$ of the code bytes, at any $n$.

**star**: rank 0 owns everything. This is Algorithm 1 as written: the master sums and compresses the
sum, the workers divide by $n$. With feedback the master divides, so that its memory does not depend
on $n$.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy.typing as npt

from fewbits.collectives.correction import Correction
from fewbits.collectives.header import Phase
from fewbits.collectives.payload import Payload, Unit
from fewbits.collectives.progress import RankProgress
from fewbits.collectives.reduction import Hops, Reduction, ReductionTask, divide, guarded, naming
from fewbits.collectives.units import Batch, Summation
from fewbits.reference.formats import FLOAT32, Format
from fewbits.reference.tally import Tally
from fewbits.rng import Rng


class Owned(Reduction):
    """A reduction of two hops; subclasses say who owns a unit and who divides."""

    divides_first: bool

    def owner(self, number: int, unit: Unit) -> int:
        """The rank that owns a unit, which is `number` in the batch."""
        raise NotImplementedError

    def between_ranks(self, units: Sequence[Unit]) -> Sequence[Unit]:
        return units

    def __init__(self, task: ReductionTask) -> None:
        super().__init__(task)
        rank, size, threads, wide = (
            task.comm.rank,
            len(self.peers),
            task.threads,
            self.totals_format,
        )
        owned = by_owner(self.between_ranks(task.units), self.owner, task.comm.size)
        self.outgoing, self.incoming = to_owners(owned, rank, task.format, self.peers)
        self.sender = Batch(self.outgoing, task.format, threads=threads)
        self.incoming_2 = [Payload(own, "downlink", wide) for own in owned]
        self.outgoing_2 = self.incoming_2[rank]
        self._outgoing_2 = to_all(self.outgoing_2, self.peers, task.comm.size)
        self._add = Summation(
            [self.incoming[peer] for peer in self.peers],
            task.format,
            divisor=size if self.divides_first or task.feedback else 1,
            onward=None if task.feedback else self.outgoing_2,
            threads=threads,
        )
        self._return = Batch([self.outgoing_2], wide, threads=threads)
        self._decode = Batch(self.incoming_2, wide, threads=threads)
        if task.feedback is not None:
            self.correction = Correction(task.feedback, task.units, owned[rank], size, wide)
            self.correction.bind(self.sender, self._return)

    def between_hops(self, rng: Rng, progress: RankProgress) -> Iterator[None]:
        """Do what a subclass needs after the first hop's headers; may pause."""
        yield from ()

    def hops(self, values: npt.NDArray[Any], rng: Rng, progress: RankProgress) -> Hops:
        batch = progress.next_batch()

        def following() -> Sequence[int]:
            return progress.promises.next_step(batch, self.outgoing)

        yield from self.both_hops(batch, values, rng, progress, following, self.incoming)
        return self.result(values)

    def both_hops(
        self,
        batch: int,
        values: npt.NDArray[Any],
        rng: Rng,
        progress: RankProgress,
        following: Callable[[], Sequence[int]],
        coming: Sequence[Payload],
    ) -> Iterator[None]:
        """The hops of a batch that has begun; `following` and `coming` as in `hop`."""
        common = rng.fork("second hop", progress.step)
        result = self.result(values)
        yield from self.first_hop(
            batch,
            values,
            rng,
            progress,
            lambda: [payload.expected for payload in self._outgoing_2],
            self.incoming_2,
        )
        yield from self.between_hops(common, progress)
        yield from self.hop(
            batch,
            Phase.SECOND_HOP,
            lambda: naming(lambda: self._relay(result, common), self.peers),
            (self._outgoing_2, self.incoming_2),
            following,
            coming,
            progress,
        )
        guarded(lambda: self._finish(result), progress, "decode")

    def _relay(self, means: npt.NDArray[Any], rng: Rng) -> Tally:
        """Encode this rank's means, or sums if `divides_first` is false, for all ranks."""
        if self.correction is None:
            return self._add.relay(rng)
        self._add.run(means)
        return self.correction.send_back(self._return, means, rng)

    def _finish(self, result: npt.NDArray[Any]) -> Tally:
        bits = result.view(self.totals_format.bits)
        tally = naming(lambda: self._decode.decode(bits))
        if self.correction is not None:
            self.correction.known.receive(result)
        elif not self.divides_first:
            divide(result, len(self.peers))
        return tally


class Sharded(Owned):
    """Every rank is the master of one shard."""

    name = "Sharded"
    divides_first = True

    def owner(self, number: int, unit: Unit) -> int:
        """The unit's shard, or else its number, modulo the ranks."""
        return (number if unit.shard is None else unit.shard) % self.comm.size


class Star(Owned):
    """Rank 0 is the master of all."""

    name = "Star"
    divides_first = False

    def owner(self, number: int, unit: Unit) -> int:
        return 0


def by_owner(
    units: Sequence[Unit], owner: Callable[[int, Unit], int], ranks: int
) -> list[list[Unit]]:
    owned: list[list[Unit]] = [[] for _ in range(ranks)]
    for number, unit in enumerate(units):
        owned[owner(number, unit)].append(unit)
    return owned


def to_owners(
    owned: Sequence[Sequence[Unit]], rank: int, format: Format, peers: Sequence[int]
) -> tuple[list[Payload], list[Payload]]:
    """Payloads of `rank` to each owner, and of each of its peers to it; its own is the same one."""
    outgoing = [Payload(own, "uplink", format) for own in owned]
    sends = [owned[rank] if each in peers else [] for each in range(len(owned))]
    incoming = [Payload(own, "uplink", format) for own in sends]
    incoming[rank] = outgoing[rank]
    return outgoing, incoming


def to_all(payload: Payload, peers: Sequence[int], ranks: int) -> list[Payload]:
    """The same payload to each of `peers`, and an empty one to other ranks."""
    nothing = Payload([], "downlink", FLOAT32)
    return [payload if rank in peers else nothing for rank in range(ranks)]
