"""From batches of parameters to units of compression: names, operators, chunks."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fewbits.core.operator import Operator
from fewbits.operators.identity import Identity
from fewbits.policy import Choice, Exact, Policy, choose
from fewbits.schemes.payload import CHUNK, Unit, chunks

PIECE = 16 * CHUNK  # elements of a batch that are reduced together


@dataclass(slots=True)
class Names:
    """Parameter names: the model's, or else the order in which DDP first showed them.

    That order is the same on every rank and for every bucket size, so it is as stable as a name;
    but not with `find_unused_parameters`, with which DDP's first buckets are not one.
    """

    known: dict[Any, str] = field(default_factory=dict)
    given: tuple[Any, ...] = ()  # parameters whose names are the model's

    @classmethod
    def of(cls, named: Iterable[tuple[str, Any]]) -> "Names":
        """The names of a model's parameters."""
        known = {parameter: name for name, parameter in named}
        return cls(known, tuple(known))

    def __call__(self, parameter: Any) -> str:
        """The parameter's name, for ever."""
        return self.known.setdefault(parameter, f"#{len(self.known)}")


@dataclass(slots=True)
class Shards:
    """Who owns which chunk: whoever owns least so far, in the order of the model's parameters.

    So an owner, and what it remembers, does not depend on the buckets; and neighbours in the model,
    which travel together, belong to different ranks.
    """

    ranks: int = 1
    owners: dict[str, list[int]] = field(default_factory=dict)
    _loads: Counter[int] = field(default_factory=Counter)

    def __call__(self, name: str, count: int) -> list[int]:
        """The owner of each of the parameter's chunks."""
        if name not in self.owners:
            sizes = [min(CHUNK, count - at) for at in range(0, count, CHUNK)]
            self.owners[name] = [self._next(size) for size in sizes]
        return self.owners[name]

    def _next(self, size: int) -> int:
        owner = min(range(self.ranks), key=lambda rank: self._loads[rank])
        self._loads[owner] += size
        return owner


@dataclass(slots=True)
class Planner:
    """Decides once for each parameter how it travels, and remembers why.

    With `corrected`, when memories make up for a bias, an operator of the policy's choice is used
    in both directions even if it is biased.
    """

    worker: Operator
    master: Operator
    policy: Policy
    names: Names
    corrected: bool = False
    choices: dict[str, Choice] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    shards: Shards = field(default_factory=Shards)

    def share(self, ranks: int) -> None:
        """Give every known parameter's chunks to `ranks` owners."""
        self.shards = Shards(ranks)
        for parameter, name in self.names.known.items():
            self.shards(name, parameter.numel())

    def model(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the parameters that will be reduced; empty if their names were not given."""
        trained = [parameter for parameter in self.names.given if parameter.requires_grad]
        return {self.names(parameter): tuple(parameter.shape) for parameter in trained}

    def exact_names(self) -> set[str]:
        """Those of the model's parameters that will travel as they are."""
        model = self.model()
        return {name for name in model if self.operators(name, model[name])[0] == Identity()}

    def units(self, parameters: Sequence[Any]) -> list[Unit]:
        """The units of a batch that holds `parameters` one after the other."""
        units: list[Unit] = []
        start = 0
        for parameter in parameters:
            name, count = self.names(parameter), parameter.numel()
            worker, master = self.operators(name, tuple(parameter.shape))
            units += chunks(name, start, count, worker, master, self.shards(name, count))
            start += count
        return units

    def operators(self, name: str, shape: tuple[int, ...]) -> tuple[Operator, Operator]:
        """Worker's and master's operator for a parameter."""
        if name not in self.choices:
            self.choices[name] = choose(self.policy, name, shape, self.worker)
            size = 1
            for extent in shape:
                size *= extent
            self.sizes[name] = size
        choice = self.choices[name]
        if choice == Identity() and (choice != self.worker or self.master == Identity()):
            choice = self.choices[name] = Exact("identity")
        if isinstance(choice, Exact):
            return Identity(), Identity()
        if choice == self.worker:
            return self.worker, self.master
        both = self.corrected or choice.guarantee(min(self.sizes[name], CHUNK)).unbiased
        return choice, choice if both else self.master

    def exact(self) -> dict[str, int]:
        """Elements that travel as they are, by reason."""
        counts: Counter[str] = Counter()
        for name, choice in self.choices.items():
            if isinstance(choice, Exact):
                counts[choice.reason] += self.sizes[name]
        return dict(counts)

    def elements(self) -> int:
        """All elements seen so far."""
        return sum(self.sizes.values())


def cut(units: Sequence[Unit], ranks: int) -> list[tuple[slice, list[Unit]]]:
    """Pieces of a batch, large enough for all ranks to own some of each: where it lies, its units.

    While one piece travels, the next one is encoded and the one before it decoded.
    """
    pieces: list[tuple[slice, list[Unit]]] = []
    size = max(PIECE, ranks * CHUNK)
    for unit in units:
        if not pieces or unit.start - pieces[-1][0].start >= size:
            pieces.append((slice(unit.start, unit.start), []))
        place, own = pieces[-1]
        own.append(replace(unit, start=unit.start - place.start))
        pieces[-1] = slice(place.start, unit.start + unit.count), own
    return pieces
