r"""One hop: every rank sends all its codes to all others, and everyone sums in rank order.

No second compression, so less noise; but each rank receives $(n-1)$ times the code bytes, which
loses above a few ranks. For comparison.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from fewbits.kernels.formats import Format
from fewbits.kernels.units import Tally
from fewbits.operators.identity import Identity
from fewbits.rng import Rng
from fewbits.schemes.comm import Comm
from fewbits.schemes.correction import Correction, Loop
from fewbits.schemes.header import Phase
from fewbits.schemes.payload import Payload, Unit
from fewbits.schemes.reduction import Hops, Progress, Reduction, guarded, naming
from fewbits.schemes.units import Batch, Summation


class Gather(Reduction):
    """Everyone decodes everything."""

    def __init__(
        self,
        units: Sequence[Unit],
        format: Format,
        comm: Comm,
        threads: int = 1,
        loop: Loop | None = None,
    ) -> None:
        super().__init__(units, format, comm, threads, loop)
        own = [replace(unit, master=Identity()) for unit in units]
        self._correction = Correction(loop, own, own, comm.size, format) if loop else None
        self.incoming = [Payload(units, "worker", format) for _ in range(comm.size)]
        self.outgoing = self.incoming[comm.rank]
        self._encode = Batch([self.outgoing], format, threads=threads)
        if self._correction is not None:
            self._correction.bind(self._encode)
        self._add = Summation(self.incoming, format, divisor=comm.size, threads=threads)

    def hops(self, values: npt.NDArray[Any], rng: Rng, progress: Progress) -> Hops:
        """One hop, then the mean in place."""
        batch = progress.next_batch()
        private = rng.fork("private", progress.step, self.comm.rank)
        yield from self.hop(
            batch,
            Phase.FIRST_HOP,
            lambda: self.send(self._encode, self._correction, values, private, progress),
            ([self.outgoing] * self.comm.size, self.incoming),
            lambda: progress.promises.next_step(batch, [self.outgoing] * self.comm.size),
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
