"""The exchange of one factor of a batch's matrices: its numbers, and its mean over all ranks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from fewbits.collectives.gather import Gather
from fewbits.collectives.owned import Sharded
from fewbits.collectives.payload import Unit, units_of
from fewbits.collectives.reduction import ReductionTask
from fewbits.collectives.units import Summation, float_dtype
from fewbits.core.operator import Operator
from fewbits.feedback.rule import Array
from fewbits.low_rank import LowRank

FactorExchange = Callable[[ReductionTask], Gather | Sharded]


LEFT_FACTOR, RIGHT_FACTOR = "left", "right"
"""The factors of a matrix."""
THIN_UNIT = 8184
"""Values of a factor, or of what travels beside it, that are compressed together: few, so that the
shares of owners are alike. From 8,192 on the coder has more lanes, which cost bytes."""


@dataclass(frozen=True, slots=True)
class MatrixPlace:
    """A parameter as a matrix: its place in the vector of a job, and the owners of its factors.

    A factor is cut into units of `unit` values at most.
    """

    name: str
    job: int
    start: int
    rows: int
    columns: int
    left_owners: tuple[int, ...]
    right_owners: tuple[int, ...]
    unit: int = THIN_UNIT

    @property
    def count(self) -> int:
        return self.rows * self.columns

    @property
    def place(self) -> slice:
        return slice(self.start, self.start + self.count)

    @property
    def key(self) -> str:
        """The name of its memory."""
        return f"{self.name}/0"

    def of(self, jobs: Sequence[Array]) -> Array:
        """The matrix in the vectors of all jobs."""
        return jobs[self.job][self.place].reshape(self.rows, self.columns)

    def units(self, side: str, start: int, rank: int, operator: Operator) -> list[Unit]:
        """The units of a factor that lies at `start`."""
        is_left, name = side == LEFT_FACTOR, f"{self.name}/{side}"
        count = rank * (self.rows if is_left else self.columns)
        owners = self.left_owners if is_left else self.right_owners
        return units_of(name, start, count, operator, operator, owners, size=self.unit)


@dataclass(frozen=True, slots=True)
class VectorPlace:
    """A unit of a small parameter, which travels beside factors; its place is in a job's vector."""

    job: int
    unit: Unit

    def of(self, jobs: Sequence[Array]) -> Array:
        """Its values in the vectors of all jobs."""
        return jobs[self.job][self.unit.place]


class Factors:
    """One factor of each matrix, one after the other, and the reduction that averages them.

    Behind them are the values of `vectors`.
    """

    def __init__(
        self,
        task: ReductionTask,
        side: str,
        matrices: Sequence[MatrixPlace],
        low_rank: LowRank,
        exchange: FactorExchange,
        vectors: Sequence[VectorPlace] = (),
    ) -> None:
        rank = low_rank.rank
        rows = [each.rows if side == LEFT_FACTOR else each.columns for each in matrices]
        counts = [n * rank for n in rows] + [each.unit.count for each in vectors]
        ends = [0, *np.cumsum(counts).tolist()]
        self._places = [slice(*both) for both in pairwise(ends)]
        self._rows, self.rank, self._format = rows, rank, task.format
        starts, operator = ends[: len(matrices)], low_rank.operator
        units = [
            unit
            for matrix, start in zip(matrices, starts, strict=True)
            for unit in matrix.units(side, start, rank, operator)
        ]
        own = zip(vectors, self._places[len(matrices) :], strict=True)
        units += [replace(each.unit, start=place.start) for each, place in own]
        self.values = np.zeros(ends[-1], float_dtype(task.format))
        self.reduction = exchange(
            ReductionTask(units, task.format, task.comm, task.threads, told=task.told)
        )
        self._own = np.zeros_like(self.values)
        self._way_back = (
            WayBack(self.reduction, units) if isinstance(self.reduction, Sharded) else None
        )

    @property
    def bits(self) -> Array:
        """The values as a reduction takes them."""
        return self.values.view(self._format.bits)

    def of(self, number: int) -> Array:
        """The factor of a matrix; after the reduction, its mean."""
        return self._in(self.values, number)

    def vector(self, number: int) -> Array:
        """The values of a vector; after the reduction, their mean."""
        return self.values[self._places[len(self._rows) + number]]

    def decode_own(self) -> None:
        """Find what this rank has told the others, once the reduction has ended."""
        self.reduction.sender.decode(self._own.view(self._format.bits))
        if self._way_back is not None:
            self._way_back.take_from(self._own, self.values)

    def own(self, number: int) -> Array:
        """What this rank has told the others of a matrix, since `decode_own`."""
        return self._in(self._own, number)

    def own_vector(self, number: int) -> Array:
        """What this rank has told the others of a vector, since `decode_own`."""
        return self._own[self._places[len(self._rows) + number]]

    def _in(self, values: Array, number: int) -> Array:
        return values[self._places[number]].reshape(self._rows[number], self.rank)


class WayBack:
    """What is lost on the way back from the owners, who take it for their own loss.

    An owner averages what ranks have told and encodes it once more. All ranks use what they decode,
    so the loss must return. The owner counts it to its own memory, as often as there are ranks: the
    mean of all memories then holds it once.
    """

    def __init__(self, reduction: Sharded, units: Sequence[Unit]) -> None:
        rank, self._ranks = reduction.comm.rank, reduction.comm.size
        owned = {slot.name for slot in reduction.outgoing_2.slots}
        self._places = [unit.place for unit in units if unit.name in owned]
        terms = [reduction.incoming[each] for each in range(self._ranks)]
        self._sum = Summation(terms, reduction.format, divisor=self._ranks)
        assert reduction.incoming_2[rank] is reduction.outgoing_2

    def take_from(self, own: Array, mean: Array) -> None:
        """Take this owner's losses from what it has told."""
        exact = np.zeros_like(own)
        self._sum.run(exact)
        ranks = own.dtype.type(self._ranks)
        with np.errstate(all="ignore"):  # NaN and infinity are the caller's to judge
            for place in self._places:
                own[place] -= ranks * (exact[place] - mean[place])
