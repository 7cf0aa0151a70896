"""Ranks as threads over `LocalComm`, and the batches that the tests of collectives reduce."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import fewbits
from fewbits import Operator, Rng
from fewbits.collectives.comm import LocalComm, Mail, Pending
from fewbits.collectives.gather import Gather
from fewbits.collectives.owned import Sharded, Star
from fewbits.collectives.payload import Unit
from fewbits.collectives.progress import RankProgress
from fewbits.collectives.reduction import Reduction, ReductionTask, commit
from fewbits.collectives.units import total_format
from fewbits.reference import casts
from fewbits.reference.formats import FLOAT32, FLOAT64, Bits, Format

COLLECTIVES: dict[str, type[Reduction]] = {"sharded": Sharded, "star": Star, "gather": Gather}
WORLDS = (1, 2, 3, 5)
SIZES = (1, 7, 64, 1001, 3)


def units(
    sizes: Sequence[int] = SIZES, uplink: str | Operator = "natural", downlink: Any = None
) -> list[Unit]:
    """Named units one after the other."""
    there = fewbits.operator(uplink)
    back = there if downlink is None else fewbits.operator(downlink)
    starts = np.cumsum([0, *sizes])
    return [
        Unit(f"p{i}/0", int(start), size, there, back)
        for i, (start, size) in enumerate(zip(starts, sizes, strict=False))
    ]


def gradient(rank: int, count: int, format: Format = FLOAT32, step: int = 0) -> Bits:
    """A rank's vector, as bits of a format."""
    values = np.random.default_rng([rank, step, 31]).standard_normal(count)
    bits, _, _ = casts.cast(values.view(np.uint64), FLOAT64, format)
    return bits


def floats(bits: Bits, format: Format) -> np.ndarray:
    """The numbers of a vector in the format of the totals."""
    return casts.to_float64(bits, format).astype(total_format(format).name)


@dataclass
class Rank:
    """One thread's view: what it was given, what it got and what it raised."""

    comm: Any
    progress: RankProgress = field(default_factory=RankProgress)
    result: Any = None
    error: Exception | None = None
    done: int = 0


def together(
    world: int, work: Callable[[Rank], Any], *, timeout: float = 20.0, nonfinite: Any = "propagate"
) -> list[Rank]:
    """Run `work` on every rank at the same time; errors are kept."""
    ranks = [Rank(comm, RankProgress(nonfinite)) for comm in LocalComm.group(world, timeout)]

    def live(rank: Rank) -> None:
        try:
            rank.result = work(rank)
        except Exception as error:
            rank.error = error

    threads = [threading.Thread(target=live, args=(rank,)) for rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ranks


def reduced(
    collective: str,
    world: int,
    batch: Sequence[Unit],
    *,
    format: Format = FLOAT32,
    vectors: Callable[[int], Bits] | None = None,
    rng: Rng | None = None,
    threads: int = 1,
    step: int = 0,
) -> list[np.ndarray]:
    """The mean that every rank ends up with."""
    count = sum(unit.count for unit in batch)
    source = rng or Rng.from_seed(11)

    def work(rank: Rank) -> np.ndarray:
        number = rank.comm.rank
        values = vectors(number) if vectors else gradient(number, count, format)
        reduction = COLLECTIVES[collective](ReductionTask(batch, format, rank.comm, threads))
        rank.progress.step = step
        result = reduction.run(values.copy(), source, rank.progress).copy()
        commit(rank.comm, rank.progress)
        return result

    ranks = together(world, work)
    for rank in ranks:
        assert rank.error is None, rank.error
    return [rank.result for rank in ranks]


def same_everywhere(results: Sequence[np.ndarray]) -> np.ndarray:
    """The one result that all ranks have, bit for bit."""
    for result in results:
        assert result.tobytes() == results[0].tobytes()
    return results[0]


class Tampered(LocalComm):
    """A rank's end of the network that changes what it sends or receives."""

    def __init__(self, comm: LocalComm, change: "Callable[[int, list, list], None]") -> None:
        super().__init__(comm.rank, comm._mailboxes, comm.timeout)
        self._change, self._count = change, 0

    def start(self, *mail: Mail, lane: int = 0, expected: object = None) -> Pending:
        pending, number = super().start(*mail, lane=lane, expected=expected), self._count
        self._count += len(mail)
        return Late(pending, lambda: self._tamper(number, mail))

    def _tamper(self, number: int, mail: Sequence[Mail]) -> None:
        for at, (outgoing, incoming) in enumerate(mail):
            self._change(number + at, list(outgoing), list(incoming))


@dataclass
class Late:
    """Mail to which something is done when it has arrived."""

    pending: Pending
    deed: Callable[[], None]

    def wait(self) -> None:
        self.pending.wait()
        self.deed()
