"""How many values are exchanged together: measured in the second step, agreed on by all ranks.

Means do not depend on it. The first hops of the first two steps send payloads after their headers,
when all ranks wait for them, so these tell how fast the link is.
"""

from dataclasses import dataclass

from fewbits.collectives.comm import Comm, largest, ping
from fewbits.collectives.progress import RankProgress
from fewbits.theory import cost
from fewbits.theory.cost import PIECE

FEW = 262_144  # values of a step: as many float32 fit into DDP's first bucket, the only one then
_MEASURED = 2  # steps, of which the last one is measured: in the first one memory is new


@dataclass(slots=True)
class ExchangeSizes:
    """The largest number of values that is cut from a job, and to which small jobs are joined."""

    piece: int = PIECE
    join: int = 0
    _steps: int = 0
    _before: tuple[float, int] = (0.0, 0)

    def end_step(self, comm: Comm, progress: RankProgress, values: int, batches: int) -> bool:
        """Take a step of `batches` into account; whether the sizes have changed.

        All ranks come here together: they have ended the step.
        """
        spent = progress.spent
        codec, sent = spent.codec_cpu_seconds, spent.payload_bytes
        before, self._before = self._before, (codec, sent)
        self._steps += 1
        # A single batch can be neither cut nor joined otherwise: PIECE is the least.
        if self._steps != _MEASURED or batches < 2 or values <= FEW:
            return False
        latency = ping(lambda own: largest(comm, own))
        exchange = 2 * latency  # a header and a payload
        wire = progress.link.seconds_for(sent - before[1], latency)
        wished = (
            cost.piece_values(values, codec - before[0], wire, exchange),
            cost.joined_values(values, wire, exchange),
        )
        return self._take(*largest(comm, wished))

    def _take(self, piece: float, join: float) -> bool:
        """Take what ranks have agreed on; numbers that make no sense are the least."""
        known = self.piece, self.join
        self.piece = int(min(piece, 2.0**40)) if piece > PIECE else PIECE
        self.join = int(min(join, PIECE)) if join > 0 else 0
        return known != (self.piece, self.join)
