"""Collectives of one hop: every rank sums what it receives."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy.typing as npt

from fewbits.collectives.payload import Payload
from fewbits.collectives.progress import RankProgress
from fewbits.collectives.reduction import Hops, Reduction, guarded, naming
from fewbits.collectives.units import Summation
from fewbits.reference.tally import Tally
from fewbits.rng import Rng


class OneHop(Reduction):
    """Subclasses say who gets what, and have the `summation` of what comes in."""

    summation: Summation

    def promised(self, batch: int, progress: RankProgress) -> Sequence[int]:
        """How many bytes go to each rank with the batch's next header."""
        raise NotImplementedError

    @property
    def coming(self) -> Sequence[Payload]:
        """The payloads that may come with the batch's next header."""
        return self.incoming

    def hops(self, values: npt.NDArray[Any], rng: Rng, progress: RankProgress) -> Hops:
        batch = progress.next_batch()
        promised = partial(self.promised, batch, progress)
        yield from self.first_hop(batch, values, rng, progress, promised, self.coming)
        result = self.result(values)
        guarded(lambda: self._finish(result), progress, "decode")
        return result

    def _finish(self, result: npt.NDArray[Any]) -> Tally:
        tally = naming(lambda: self.summation.run(result), self.peers)
        if self.correction is not None:
            self.correction.mean.receive(result)
        return tally
