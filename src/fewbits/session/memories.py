"""The memories that a rank has once it has reduced a whole model, known before it does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fewbits.collectives.correction import RulesOfSides
from fewbits.collectives.payload import Unit
from fewbits.feedback.store import BASIS, MASTER, MEAN, WORKER
from fewbits.operators.identity import Identity
from fewbits.session.routing import ModelParameter, Routing

ShapesByKey = dict[str, tuple[int, int]]
"""Rows and values by `side/parameter/unit`."""


@dataclass(frozen=True, slots=True)
class MemoryShapes:
    """The memories of a model; `units` are an adapter's own, if not the routing's.

    They are unknown as long as the parameters are, whose names came with no model.
    """

    routing: Routing
    collective: str
    units: Callable[[Routing, int], Sequence[Unit]] | None = None

    def needed(self, rank: int, ranks: int) -> ShapesByKey:
        """All that one rank among so many has."""
        method = self.routing.feedback
        if method is None:
            return {}
        units = self._units(ranks)
        owned, senders = [unit for unit in units if unit.shard == rank], ranks
        if (nodes := self.routing.nodes) is not None:  # ranks of other places never see a unit
            across, senders = nodes.across(rank), nodes.count
            units = [unit for unit in units if unit.shard in across]
            if senders == 1:
                return {}
        if self.collective == "star":
            owned = list(units) if rank == 0 else []
        elif self.collective == "gather":
            units = owned = [replace(unit, downlink=Identity()) for unit in units]
        sides = RulesOfSides.of(method, units, owned, senders).stored()
        return self._of_matrices() | {
            f"{side}/{unit.name}": (rule.rows, unit.count)
            for side, rules in sides.items()
            for unit, rule in rules
        }

    def possible(self, ranks: int) -> ShapesByKey:
        """All that any of so many ranks may have, whatever collective reduces the model."""
        method = self.routing.feedback
        if method is None:
            return {}
        rows = {WORKER: 1 + method.has_momentum, MEAN: 1, MASTER: 1}
        return self._of_matrices() | {
            f"{side}/{unit.name}": (rows[side], unit.count)
            for side in rows
            for unit in self._units(ranks)
        }

    def _of_matrices(self) -> ShapesByKey:
        """The memories of what travels as factors and beside them: every rank has them all."""
        low_rank, found = self.routing.low_rank, ShapesByKey()
        if low_rank is not None:
            parameters = self._parameters(self.routing)
            for vector in self.routing.vectors(parameters):
                found[f"{WORKER}/{vector.unit.name}"] = 1, vector.unit.count
            for each in self.routing.matrices(parameters):
                found[f"{WORKER}/{each.key}"] = 1, each.count
                found[f"{BASIS}/{each.key}"] = 1, each.columns * low_rank.rank
        return found

    def _units(self, ranks: int) -> Sequence[Unit]:
        routing = replace(self.routing)
        routing.share(ranks)
        if self.units is not None:
            return self.units(routing, ranks)
        parameters = self._parameters(routing)
        return routing.units(parameters, sum(each.size for each in parameters))

    def _parameters(self, routing: Routing) -> Sequence[ModelParameter]:
        model = routing.model
        return model.trained() if model.given else list(model.known.values())
