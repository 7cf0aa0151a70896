r"""One hop: every rank sends all its codes to all others, and everyone sums in rank order.

No second compression, so less noise; but each rank receives $(n-1)$ times the code bytes, which
loses above a few ranks. For comparison.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits.kernels.formats import Format
from fewbits.kernels.units import Tally
from fewbits.rng import Rng
from fewbits.schemes.comm import Comm
from fewbits.schemes.header import Phase
from fewbits.schemes.reduction import Progress, Reduction, guarded
from fewbits.schemes.units import Batch, Summation, Unit, slots


class Gather(Reduction):
    """Everyone decodes everything."""

    def __init__(self, units: Sequence[Unit], format: Format, comm: Comm, threads: int = 1) -> None:
        super().__init__(units, format, comm, threads)
        placed, length = slots(units, "worker", format)
        self.incoming = [np.zeros(length, np.uint8) for _ in range(comm.size)]
        self.outgoing = self.incoming[comm.rank]
        self._encode = Batch([(slot, self.outgoing) for slot in placed], format, threads=threads)
        self._add = Summation(placed, self.incoming, format, divisor=comm.size, threads=threads)

    def run(self, values: npt.NDArray[Any], rng: Rng, progress: Progress) -> npt.NDArray[Any]:
        """One hop, then the mean in place."""
        private = rng.fork("private", progress.step, self.comm.rank)
        self.hop(
            Phase.FIRST_HOP,
            lambda: self._encode.encode(values, private),
            ([self.outgoing] * self.comm.size, self.incoming),
            progress.foresight.after_batch([self.outgoing.size] * self.comm.size),
            progress,
        )
        result = self.result(values)
        guarded(lambda: self._sum(result), progress)
        progress.sequence += 1
        return result

    def _sum(self, result: npt.NDArray[Any]) -> Tally:
        return self.blaming(range(self.comm.size), lambda: self._add.run(result))
