r"""One hop: every rank sends all its codes to all others, and every rank sums in rank order.

Without a second compression there is less noise. But each rank receives $(n-1)$ times the code
bytes, which loses above a few ranks. It is meant for comparison.
"""

from collections.abc import Sequence
from dataclasses import replace

from fewbits.collectives.correction import Correction
from fewbits.collectives.one_hop import OneHop
from fewbits.collectives.payload import Payload
from fewbits.collectives.progress import RankProgress
from fewbits.collectives.reduction import ReductionTask
from fewbits.collectives.units import Batch, Summation
from fewbits.operators.identity import Identity


class Gather(OneHop):
    """Every rank decodes everything."""

    name = "Gather"

    def __init__(self, task: ReductionTask) -> None:
        super().__init__(task)
        size, format, threads = task.comm.size, task.format, task.threads
        self.incoming = [Payload(task.units, "uplink", format) for _ in range(size)]
        own = self.incoming[task.comm.rank]
        self.outgoing = [own] * size
        self.sender = Batch([own], format, threads=threads)
        if task.feedback is not None:
            units = [replace(unit, downlink=Identity()) for unit in task.units]
            self.correction = Correction(task.feedback, units, units, size, format)
            self.correction.bind(self.sender)
        self.summation = Summation(self.incoming, format, divisor=size, threads=threads)

    def promised(self, batch: int, progress: RankProgress) -> Sequence[int]:
        return progress.promises.next_step(batch, self.outgoing)
