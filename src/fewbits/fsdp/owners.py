"""Which of the replicas of a shard averages a unit of it."""

from collections.abc import Callable, Sequence

from fewbits.collectives.payload import Unit
from fewbits.fsdp.shards import ShardGroup
from fewbits.session import Routing


class ReplicaOwners:
    """Gives each unit to the replica that owns least of its shard so far, in the model's order.

    So owners do not depend on the order in which FSDP reduces its groups.
    """

    def __init__(self, groups: Sequence[ShardGroup]) -> None:
        self._groups = [group for group in groups if group.mesh.has_replicas]
        self._known: dict[int, dict[str, int]] = {}

    def of(self, routing: Routing) -> Callable[[Unit], int]:
        """A unit's owner, as the number of a replica."""
        if routing.unit not in self._known:
            self._known[routing.unit] = self._shared(routing)
        known = self._known[routing.unit]
        return lambda unit: known[unit.name]

    def _shared(self, routing: Routing) -> dict[str, int]:
        owners: dict[str, int] = {}
        loads: dict[tuple[int, int | None], list[int]] = {}
        for group in self._groups:
            ranks, replicas = len(group.mesh.inside), len(group.mesh.across)
            for unit in group.shards(ranks).units(routing):
                load = loads.setdefault((replicas, unit.shard), [0] * replicas)
                owners[unit.name] = least = min(range(replicas), key=load.__getitem__)
                load[least] += unit.count
        return owners
