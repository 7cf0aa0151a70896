"""The exchange of one factor of a batch's matrices: its numbers, and its mean over all ranks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fewbits.collectives.gather import Gather
from fewbits.collectives.owned import Sharded
from fewbits.collectives.payload import UNIT, Unit, units_of
from fewbits.collectives.reduction import ReductionTask
from fewbits.collectives.units import Summation, float_dtype
from fewbits.core.operator import Operator
from fewbits.feedback.rule import Array

FactorExchange = Callable[[ReductionTask], Gather | Sharded]


@dataclass(frozen=True, slots=True)
class MatrixPlace:
    """A parameter as a matrix: its place in the batch's vector, and the owners of its units.

    A factor is cut into units of `unit` values at most.
    """

    name: str
    start: int
    rows: int
    columns: int
    owners: tuple[int, ...]
    unit: int = UNIT

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

    def of(self, values: Array) -> Array:
        """The matrix in a vector of the batch's values."""
        return values[self.place].reshape(self.rows, self.columns)


class Factors:
    """One factor of each matrix, one after the other, and the reduction that averages them."""

    def __init__(
        self,
        task: ReductionTask,
        side: str,
        sizes: Sequence[tuple[MatrixPlace, int]],
        rank: int,
        operator: Operator,
        exchange: FactorExchange,
    ) -> None:
        ends = np.cumsum([rows * rank for _, rows in sizes]).tolist()
        self._shapes = [
            (slice(end - n * rank, end), n) for end, (_, n) in zip(ends, sizes, strict=True)
        ]
        self.rank, self._format = rank, task.format
        units = [
            unit
            for (place, _), (matrix, rows) in zip(self._shapes, sizes, strict=True)
            for unit in _units(matrix, side, place.start, rows * rank, operator)
        ]
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

    def decode_own(self) -> None:
        """Find what this rank has told the others, once the reduction has ended."""
        self.reduction.sender.decode(self._own.view(self._format.bits))
        if self._way_back is not None:
            self._way_back.take_from(self._own, self.values)

    def own(self, number: int) -> Array:
        """What this rank has told the others of a matrix, since `decode_own`."""
        return self._in(self._own, number)

    def _in(self, values: Array, number: int) -> Array:
        place, rows = self._shapes[number]
        return values[place].reshape(rows, self.rank)


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


def _units(
    matrix: MatrixPlace, side: str, start: int, count: int, operator: Operator
) -> list[Unit]:
    """The units of a factor, which belong to ranks as those of the whole matrix do."""
    name = f"{matrix.name}/{side}"
    return units_of(name, start, count, operator, operator, matrix.owners, size=matrix.unit)
