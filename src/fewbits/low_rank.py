"""The stage `low-rank`: matrices travel as the product of two thin factors.

It stands before an operator as other stages do, `low-rank:rank=8|sparse-dithering`, and the
operator then encodes factors. But it is no `Stage`: the second factor depends on the mean of what
all ranks have sent of the first, so one rank alone cannot encode. `collectives.factored` has the
exchange.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from fewbits.core import parameters
from fewbits.core.operator import Operator
from fewbits.core.spelled import Spelled
from fewbits.errors import SpecError
from fewbits.policy import Default
from fewbits.presets import LOW_RANK, is_low_rank
from fewbits.registry import operator

MOST_RANK = 128
SAVING = 4  # times fewer numbers in the factors than in the matrix, at least
_JUDGED = 65_536  # values, as in a unit


@dataclass(frozen=True, slots=True)
class LowRankStage(Spelled):
    """The stage and its parameter, the number of columns of a factor."""

    name: ClassVar[str] = LOW_RANK
    rank: int = 8

    def __post_init__(self) -> None:
        if not 1 <= parameters.whole_number("rank", self.rank) <= MOST_RANK:
            raise SpecError(f"rank must be from 1 to {MOST_RANK}, got {self.rank}")


@dataclass(frozen=True, slots=True)
class LowRank:
    """The stage with the operator of its factors."""

    stage: LowRankStage
    operator: Operator

    def __post_init__(self) -> None:
        error = self.operator.guarantee(_JUDGED).error
        if error >= 1:
            raise SpecError(
                f"{self.operator} may lose {error:.3g} times the square of a factor: after "
                f"{LOW_RANK} take an operator that loses less than all, such as sparse-dithering"
            )

    @property
    def spec(self) -> str:
        """The canonical text form."""
        return f"{self.stage.spec}|{self.operator.spec}"

    def __str__(self) -> str:
        return self.spec

    @property
    def rank(self) -> int:
        return self.stage.rank

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether factors are much smaller than a tensor of this shape."""
        return self.rank <= most_rank(shape)


@dataclass(frozen=True, slots=True)
class FittingOrSmall:
    """The default policy beside `low-rank`: leaves to it what fits, and large tensors to others.

    Vectors and small tensors, which go exactly beside other operators, would be most of the bytes
    here. They travel by the operator of the factors, in the same messages.
    """

    low_rank: LowRank

    def __call__(self, name: str, shape: tuple[int, ...]) -> Operator | None:
        if self.low_rank.fits(shape) or Default()(name, shape) is None:
            return None
        return self.low_rank.operator


def matrix_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a tensor as a matrix: what follows the first dimension is one."""
    return shape[0], math.prod(shape[1:])


def most_rank(shape: tuple[int, ...]) -> int:
    """The largest rank of factors that are much smaller than a tensor of this shape; 0 if none."""
    if len(shape) < 2 or 0 in shape:
        return 0
    rows, columns = matrix_shape(shape)
    return min((rows * columns - 1) // (SAVING * (rows + columns)), MOST_RANK)


def low_rank(spec: object) -> LowRank | None:
    """The stage and operator that a spec names, or None if it names another stage or operator.

    >>> from fewbits.low_rank import low_rank
    >>> print(low_rank("low-rank:rank=4|sparse-dithering"))
    low-rank:rank=4|sparse-dithering
    """
    if not isinstance(spec, str) or not is_low_rank(spec):
        return None
    first, bar, rest = spec.partition("|")
    if not bar:
        raise SpecError(
            f"{LOW_RANK} is a stage and needs an operator after it, for instance "
            f"'{first.strip()}|sparse-dithering'"
        )
    if any(map(is_low_rank, rest.split("|"))):
        raise SpecError(f"{LOW_RANK} stands once in a spec: leave one out of {spec!r}")
    fields = parameters.from_text(LowRankStage, first.partition(":")[2].strip())
    return LowRank(LowRankStage(**fields), operator(rest))
