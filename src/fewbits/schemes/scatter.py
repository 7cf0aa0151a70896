"""One hop to the owners: every rank ends with the mean of its own shard and of nothing else.

This is the first half of the sharded scheme, for models whose ranks keep a shard each: nothing is
compressed twice, and each rank sends $(n-1)/n$ of the code bytes. No payload is promised to travel
with its header: what a rank does next may be something else than a reduction, and then it must not
be waited for.
"""

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from fewbits.kernels.formats import Format
from fewbits.kernels.units import Tally
from fewbits.rng import Rng
from fewbits.schemes.comm import Comm
from fewbits.schemes.correction import Loop
from fewbits.schemes.header import Phase
from fewbits.schemes.owned import ToOwners
from fewbits.schemes.payload import Unit
from fewbits.schemes.reduction import Hops, Progress, guarded, naming
from fewbits.schemes.units import Summation


class Scatter(ToOwners):
    """A unit's shard is the rank that owns it; only the places of owned units hold a mean.

    Without feedback a `divisor` of 1 makes sums of them. Memories are in the units of one gradient,
    so with feedback they are means.
    """

    def __init__(
        self,
        units: Sequence[Unit],
        format: Format,
        comm: Comm,
        threads: int = 1,
        loop: Loop | None = None,
        divisor: int | None = None,
    ) -> None:
        super().__init__(units, format, comm, threads, loop)
        if self._correction is not None:
            self._correction.bind(self._encode)
        by = comm.size if divisor is None or loop is not None else divisor
        self._add = Summation(self.incoming_1, format, divisor=by, threads=threads)

    def owner(self, number: int, unit: Unit) -> int:
        """The rank that keeps the unit's shard."""
        assert unit.shard is not None
        return unit.shard

    def hops(self, values: npt.NDArray[Any], rng: Rng, progress: Progress) -> Hops:
        """One hop, then the owned means in place."""
        batch = progress.next_batch()
        private = rng.fork("private", progress.step, self.comm.rank)
        yield from self.hop(
            batch,
            Phase.FIRST_HOP,
            lambda: self.send(self._encode, self._correction, values, private, progress),
            (self.outgoing_1, self.incoming_1),
            lambda: [0] * self.comm.size,
            progress,
        )
        result = self.result(values)
        guarded(lambda: self._finish(result), progress)
        return result

    def _finish(self, result: npt.NDArray[Any]) -> Tally:
        tally = naming(lambda: self._add.run(result))
        if self._correction is not None:
            self._correction.mean.receive(result)
        return tally
