r"""Two networks: plain sums inside a node, compression between nodes only.

1. Inside a node every rank sends each other rank the values of its units, uncompressed. A rank adds
   up its units in the order of places, in the format of totals, and divides: the node's mean.
2. The ranks of all nodes with one place reduce these units among each other as `Sharded` does. So
   each unit crosses the link of a node once in each direction, not once for each of its ranks.
3. Inside a node every rank sends each other rank the means of its units, uncompressed.

With $N$ nodes of $w$ ranks, and $b$ code bytes of the model, the ranks of a node together send
$2 (N-1)/N \cdot b$ bytes to other nodes; flat `Sharded` sends about $w$ times as much. The mean is,
bit for bit, that of a flat reduction of $N$ ranks which have the nodes' means for gradients. So its
guarantee is the flat one with $n = N$: no value is encoded once more than there.

Headers go to all ranks in every hop. So a fault is known to all ranks in the same exchange.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from fewbits.collectives.header import Phase
from fewbits.collectives.owned import Sharded, to_all, to_owners
from fewbits.collectives.payload import Payload, Unit
from fewbits.collectives.progress import RankProgress
from fewbits.collectives.reduction import Hops, Reduction, ReductionTask, guarded, naming
from fewbits.collectives.units import Batch, Summation
from fewbits.operators.identity import Identity
from fewbits.reference.formats import FLOAT32
from fewbits.reference.tally import Tally
from fewbits.rng import Rng

_EXACT = Identity()
_NOTHING = Payload([], "downlink", FLOAT32)


class Hierarchical(Reduction):
    """A unit's shard is the rank that owns it; in other nodes the rank with its place sends it.

    With a single node nothing is compressed.
    """

    name = "Hierarchical"

    def __init__(self, task: ReductionTask) -> None:
        super().__init__(task)
        assert task.nodes is not None
        rank, threads, wide = task.comm.rank, task.threads, self.totals_format
        self._inside = inside = task.nodes.inside(rank)
        handled = by_place(task, inside)
        exact = [[replace(own, uplink=_EXACT, downlink=_EXACT) for own in each] for each in handled]
        self.outgoing, self.incoming = to_owners(exact, rank, task.format, inside)
        self.sender = Batch(self.outgoing, task.format, threads=threads)
        terms = [self.incoming[peer] for peer in inside]
        self._add = Summation(terms, task.format, divisor=len(inside), threads=threads)
        self._means = [Payload(own, "downlink", wide) for own in exact]
        self._own_means = to_all(self._means[rank], inside, task.comm.size)
        self._return = Batch([self._means[rank]], wide, threads=threads)
        self._decode = Batch(
            [own if peer != rank else _NOTHING for peer, own in enumerate(self._means)],
            wide,
            threads=threads,
        )
        across = task.nodes.across(rank)
        self._between = None
        if len(across) > 1:
            own = replace(task, units=handled[rank], format=wide, peers=across)
            self._between = _BetweenNodes(own, self)

    def hops(self, values: npt.NDArray[Any], rng: Rng, progress: RankProgress) -> Hops:
        batch, result = progress.next_batch(), self.result(values)
        between = self._between
        onward, coming = (self._own_means, self._means)
        if between is not None:
            onward, coming = list(between.outgoing), list(between.incoming)
        yield from self.hop(
            batch,
            Phase.INSIDE_SUM,
            lambda: self.sender.encode(values, rng),
            (self.outgoing, self.incoming),
            lambda: [payload.expected for payload in onward],
            coming,
            progress,
        )
        if between is not None:
            yield from between.both_hops(
                batch,
                result.view(self.totals_format.bits),
                rng,
                progress,
                lambda: [payload.expected for payload in self._own_means],
                self._means,
            )
        yield from self.hop(
            batch,
            Phase.INSIDE_MEAN,
            lambda: self._send_means(result, rng),
            (self._own_means, self._means),
            lambda: progress.promises.next_step(batch, self.outgoing),
            self.incoming,
            progress,
        )
        bits = result.view(self.totals_format.bits)
        guarded(lambda: naming(lambda: self._decode.decode(bits)), progress, "decode")
        return result

    def add(self, result: npt.NDArray[Any]) -> Tally:
        """Write the node's means of this rank's units."""
        return naming(lambda: self._add.run(result), self._inside)

    def _send_means(self, result: npt.NDArray[Any], rng: Rng) -> Tally:
        """Write the means for the other ranks of the node; the session judges them on all ranks."""
        if self._between is None:
            self.add(result)
        self._return.encode(result.view(self.totals_format.bits), rng)
        return Tally()


class _BetweenNodes(Sharded):
    """The reduction of the units of one place, whose values are the nodes' means."""

    def __init__(self, task: ReductionTask, whole: Hierarchical) -> None:
        super().__init__(task)
        self._whole = whole
        self.signature, self.label = whole.signature, whole.label  # all ranks compare them

    def encode(self, values: npt.NDArray[Any], rng: Rng, progress: RankProgress) -> Tally:
        """Add up what came from this node and encode it.

        The node's mean may have values that this rank had not, so its memory is always used.
        """
        result = self.result(values)
        self._whole.add(result)
        if self.correction is None:
            return self.sender.encode(values, rng)
        return self.correction.send_worker(
            self.sender, result, rng, without_inputs=False, unused=()
        )


def by_place(task: ReductionTask, inside: Sequence[int]) -> list[list[Unit]]:
    """The units that each rank of a node adds up, those whose owners have its place."""
    nodes, ranks = task.nodes, task.comm.size
    assert nodes is not None
    places = [nodes.place(rank) for rank in range(ranks)]
    handled: list[list[Unit]] = [[] for _ in range(ranks)]
    for number, unit in enumerate(task.units):
        owner = (number if unit.shard is None else unit.shard) % ranks
        handled[inside[places[owner]]].append(replace(unit, shard=owner))
    return handled
