"""Two hops between replicas: the ranks that keep the same shard average it, compressed both ways.

This is `sharded` among these ranks only. Ranks that keep other shards do the same beside them, and
headers go to all ranks. So a fault is known everywhere in the same exchange.
"""

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from fewbits.collectives.owned import Sharded
from fewbits.collectives.payload import Unit
from fewbits.collectives.progress import RankProgress
from fewbits.collectives.reduction import Hops, ReductionTask, plan_digest, plan_label
from fewbits.rng import Rng


class BetweenReplicas(Sharded):
    """A unit's shard is the rank that owns it, one of the task's peers.

    All ranks compare `everyone`, the units of all shards. No payload is promised to travel with its
    header, because the next operation of a rank may not be a reduction.
    """

    name = "BetweenReplicas"

    def __init__(self, task: ReductionTask, everyone: Sequence[Unit]) -> None:
        super().__init__(task)
        self.signature = plan_digest(everyone, task.format, self.name)
        self.label = plan_label(everyone, task.format)

    def hops(self, values: npt.NDArray[Any], rng: Rng, progress: RankProgress) -> Hops:
        batch = progress.next_batch()

        def nothing() -> Sequence[int]:
            return [0] * self.comm.size

        yield from self.both_hops(batch, values, rng, progress, nothing, ())
        return self.result(values)
