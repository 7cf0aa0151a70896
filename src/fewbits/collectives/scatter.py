"""One hop to the owners: every rank ends with the mean of its own shard.

This is the first half of `sharded`, for models whose ranks keep a shard each. Nothing is compressed
twice, and each rank sends $(n-1)/n$ of the code bytes. No payload is promised to travel with its
header, because the next operation of a rank may not be a reduction.
"""

from collections.abc import Sequence

from fewbits.collectives.correction import Correction
from fewbits.collectives.one_hop import OneHop
from fewbits.collectives.owned import by_owner, to_owners
from fewbits.collectives.payload import Payload, Unit
from fewbits.collectives.progress import RankProgress
from fewbits.collectives.reduction import ReductionTask
from fewbits.collectives.units import Batch, Summation


class Scatter(OneHop):
    """A unit's shard is the place of its owner among `peers`; only owned units' places hold a mean.

    Without feedback a `divisor` of 1 gives sums. Memories are in the units of one gradient, so with
    feedback results are means.
    """

    name = "Scatter"

    def __init__(self, task: ReductionTask, divisor: int | None = None) -> None:
        super().__init__(task)
        size, format, threads = len(self.peers), task.format, task.threads
        owned = by_owner(task.units, lambda _, unit: self.peers[_shard(unit)], task.comm.size)
        self.outgoing, self.incoming = to_owners(owned, task.comm.rank, format, self.peers)
        self.sender = Batch(self.outgoing, format, threads=threads)
        if task.feedback is not None:
            mine = owned[task.comm.rank]
            self.correction = Correction(task.feedback, task.units, mine, size, self.totals_format)
            self.correction.bind(self.sender)
        by = size if divisor is None or task.feedback is not None else divisor
        terms = [self.incoming[peer] for peer in self.peers]
        self.summation = Summation(terms, format, divisor=by, threads=threads)

    def promised(self, batch: int, progress: RankProgress) -> Sequence[int]:
        return [0] * self.comm.size

    @property
    def coming(self) -> Sequence[Payload]:
        """None."""
        return ()


def _shard(unit: Unit) -> int:
    assert unit.shard is not None
    return unit.shard
