"""Routing: cuts parameters into units, and gives each an operator and an owner."""

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fewbits.collectives.factors import (
    LEFT_FACTOR,
    RIGHT_FACTOR,
    THIN_UNIT,
    MatrixPlace,
    VectorPlace,
)
from fewbits.collectives.nodes import RankNodes
from fewbits.collectives.payload import UNIT, Unit, units_of
from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.feedback import Feedback
from fewbits.low_rank import LowRank, matrix_shape
from fewbits.operators.identity import Identity
from fewbits.policy import Choice, Exact, Policy, choose
from fewbits.theory.cost import PIECE

_SIDES = LEFT_FACTOR, RIGHT_FACTOR
VALUES_OF_A_RANK = 4096  # values of a piece for each rank, beside which its header is small


class ModelParameter(NamedTuple):
    """A parameter's name and shape, and whether its gradient will be reduced."""

    name: str
    shape: tuple[int, ...]
    is_trained: bool = True

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class ModelParameters:
    """The known parameters: those that were `given`, then others in the order of jobs."""

    def __init__(self, given: Iterable[ModelParameter] = ()) -> None:
        self.given = tuple(given)
        self.known = {parameter.name: parameter for parameter in self.given}

    def trained(self) -> list[ModelParameter]:
        """The given parameters that will be reduced."""
        return [parameter for parameter in self.given if parameter.is_trained]


@dataclass(slots=True)
class Owners:
    """Gives each unit to the rank that owns least so far, in the order of the model's parameters.

    So an owner and its memory do not depend on the buckets, and neighbours in the model, which
    travel together, belong to different ranks.
    """

    ranks: int = 1
    unit: int = UNIT
    owners: dict[str, list[int]] = field(default_factory=dict)
    _loads: list[tuple[int, int]] = field(default_factory=list)  # a heap of loads and ranks

    def __call__(self, parameter: ModelParameter) -> list[int]:
        """The owner of each of the parameter's units."""
        if parameter.name not in self.owners:
            count = parameter.size
            sizes = [min(self.unit, count - at) for at in range(0, count, self.unit)]
            self.owners[parameter.name] = [self._next(size) for size in sizes]
        return self.owners[parameter.name]

    def _next(self, size: int) -> int:
        if not self._loads:
            self._loads = [(0, rank) for rank in range(self.ranks)]
        load, owner = self._loads[0]
        heapq.heapreplace(self._loads, (load + size, owner))
        return owner


@dataclass(slots=True)
class Routing:
    """Decides once for each parameter how it travels, and remembers why.

    With `feedback`, memories correct a bias, so the policy's operator is used in both directions
    even if it is biased. `unit` is the largest number of values that are compressed together.
    `nodes` says where the ranks are, if there are links between nodes to save; known from a
    session's start on. Among several routings only those that go `between` nodes get them. With
    `low_rank`, what would get the operators and fits goes as factors.
    """

    uplink: Operator
    downlink: Operator
    policy: Policy
    model: ModelParameters = field(default_factory=ModelParameters)
    feedback: Feedback | None = None
    unit: int = UNIT
    choices: dict[str, Choice | LowRank] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    owners: Owners = field(default_factory=Owners)
    thin: dict[str, Owners] = field(default_factory=dict)
    nodes: RankNodes | None = None
    low_rank: LowRank | None = None
    between: bool = False

    @property
    def specs(self) -> tuple[str, str]:
        """The names of both directions."""
        if self.low_rank is not None:
            return self.low_rank.spec, self.low_rank.spec
        return self.uplink.spec, self.downlink.spec

    def share(self, ranks: int) -> None:
        """Give every known parameter's units to `ranks` owners."""
        self.owners = Owners(ranks, self.unit)
        self.thin = {side: Owners(ranks, THIN_UNIT) for side in (LEFT_FACTOR, RIGHT_FACTOR)}
        for parameter in self.model.known.values():
            self._owned(parameter)

    def exact_names(self) -> set[str]:
        """The model's parameters that will travel exactly."""
        return {each.name for each in self.model.trained() if self.is_exact(each)}

    def is_exact(self, parameter: ModelParameter) -> bool:
        return not self.is_factored(parameter) and self.operators(parameter)[0] == Identity()

    def is_factored(self, parameter: ModelParameter) -> bool:
        """Whether a parameter travels as factors, and has no operators of its own."""
        return isinstance(self._choice(parameter), LowRank)

    def is_beside(self, parameter: ModelParameter) -> bool:
        """Whether a parameter travels by the operator of factors, in the same messages."""
        return self._goes_beside(self._choice(parameter))

    def _goes_beside(self, choice: Choice | LowRank) -> bool:
        if self.low_rank is None or self.low_rank.operator == Identity():
            return False
        return choice == self.low_rank.operator

    def told(self, parameter: ModelParameter) -> tuple[str, ...]:
        """What a parameter travels by, in both directions."""
        if self.is_factored(parameter):
            return self.specs
        return tuple(own.spec for own in self.operators(parameter))

    def units(self, parameters: Sequence[ModelParameter], count: int) -> list[Unit]:
        """The units of a batch of `count` values, which are `parameters` one after the other.

        Those that travel as factors, or beside them, have none.
        """
        if sum(each.size for each in parameters) != count:
            sizes = ", ".join(f"{each.name} {each.shape}" for each in parameters[:3])
            raise SpecError(
                f"{count} values came for {len(parameters)} parameters, {sizes} …, which have "
                f"{sum(each.size for each in parameters)}: attach when the model has its final "
                "parameters"
            )
        units: list[Unit] = []
        start = 0
        for parameter in parameters:
            self.model.known.setdefault(parameter.name, parameter)
            size, owners = parameter.size, self._owned(parameter)
            if not self.is_factored(parameter) and not self.is_beside(parameter):
                both = self.operators(parameter)
                units += units_of(parameter.name, start, size, *both, owners, size=self.unit)
            start += size
        return units

    def matrices(self, parameters: Sequence[ModelParameter], job: int = 0) -> list[MatrixPlace]:
        """Those of a job's parameters that travel as factors."""
        found, start = [], 0
        for each in parameters:
            if self.is_factored(each):
                self._owned(each)
                left, right = (tuple(self.thin[own](self._factor(each, own))) for own in _SIDES)
                shape = matrix_shape(each.shape)
                found.append(MatrixPlace(each.name, job, start, *shape, left, right))
            start += each.size
        return found

    def vectors(self, parameters: Sequence[ModelParameter], job: int = 0) -> list[VectorPlace]:
        """The units of a job's parameters that travel beside factors."""
        found, start = [], 0
        for each in parameters:
            if self.is_beside(each):
                self._owned(each)
                own, size = self.operators(each)[0], THIN_UNIT
                owners = self.thin[LEFT_FACTOR](each)
                units = units_of(each.name, start, each.size, own, own, owners, size=size)
                found += [VectorPlace(job, unit) for unit in units]
            start += each.size
        return found

    def _owned(self, parameter: ModelParameter) -> list[int]:
        """The owners of a parameter's units; those of its factors are found with them.

        A frozen parameter has some too, but it does not travel, so nothing counts its choice.
        """
        choice = self.choices.get(parameter.name) or self._decided(parameter)
        if isinstance(choice, LowRank):
            for side in _SIDES:
                self.thin.setdefault(side, Owners(unit=THIN_UNIT))(self._factor(parameter, side))
        elif self._goes_beside(choice):
            self.thin.setdefault(LEFT_FACTOR, Owners(unit=THIN_UNIT))(parameter)
        return self.owners(parameter)

    def _factor(self, parameter: ModelParameter, side: str) -> ModelParameter:
        assert self.low_rank is not None
        rows = matrix_shape(parameter.shape)[_SIDES.index(side)]
        return ModelParameter(f"{parameter.name}/{side}", (rows, self.low_rank.rank))

    def operators(self, parameter: ModelParameter) -> tuple[Operator, Operator]:
        """The operators of both directions for a parameter that does not travel as factors."""
        name, choice = parameter.name, self._choice(parameter)
        assert not isinstance(choice, LowRank)
        if choice == Identity() and (choice != self.uplink or self.downlink == Identity()):
            choice = self.choices[name] = Exact("identity")
        if isinstance(choice, Exact):
            return Identity(), Identity()
        if choice == self.uplink:
            return self.uplink, self.downlink
        unbiased = choice.guarantee(min(self.sizes[name], self.unit)).unbiased
        return choice, choice if self.feedback or unbiased else self.downlink

    def _choice(self, parameter: ModelParameter) -> Choice | LowRank:
        name = parameter.name
        if name not in self.choices:
            self.choices[name] = self._decided(parameter)
            self.sizes[name] = parameter.size
        return self.choices[name]

    def _decided(self, parameter: ModelParameter) -> Choice | LowRank:
        shape, low_rank = parameter.shape, self.low_rank
        usual = low_rank if low_rank is not None and low_rank.fits(shape) else self.uplink
        return choose(self.policy, parameter.name, shape, usual)

    def exact(self) -> dict[str, int]:
        """The number of elements that travel exactly, by reason."""
        counts: Counter[str] = Counter()
        for name, choice in self.choices.items():
            if isinstance(choice, Exact):
                counts[choice.reason] += self.sizes[name]
        return dict(counts)

    def factored(self) -> int | None:
        """The number of elements that travel as factors; None without `low_rank`."""
        if self.low_rank is None:
            return None
        return sum(
            self.sizes[name] for name, own in self.choices.items() if isinstance(own, LowRank)
        )

    def elements(self) -> int:
        return sum(self.sizes.values())


def cut(
    units: Sequence[Unit], ranks: int, unit: int = UNIT, piece: int = PIECE
) -> list[tuple[slice, list[Unit]]]:
    """Pieces of a batch, with their places and units; all ranks own some units of each piece.

    While one piece travels, the next one is encoded and the one before it decoded. On hundreds of
    ranks pieces are larger, because each costs a header to every rank.
    """
    pieces: list[tuple[slice, list[Unit]]] = []
    size = max(piece, ranks * unit, ranks * VALUES_OF_A_RANK)
    for each in units:
        if not pieces or each.start - pieces[-1][0].start >= size:
            pieces.append((slice(each.start, each.start), []))
        place, own = pieces[-1]
        own.append(replace(each, start=each.start - place.start))
        pieces[-1] = slice(place.start, each.start + each.count), own
    return pieces
