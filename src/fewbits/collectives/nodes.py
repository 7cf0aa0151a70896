"""Ranks in nodes: fast links inside a node, slow ones between nodes.

```
            node 0   node 1   node 2
place 0       0        2        4      ── a group across nodes
place 1       1        3        5      ── another one
              └─ a node of two ranks
```

A rank has a *place* in its node. The ranks of all nodes that have the same place are a group across
nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fewbits.errors import SpecError

_FIX = "pass each rank its own group across nodes, one rank of every node, all of the same size"


@dataclass(frozen=True, slots=True)
class RankNodes:
    """An arrangement of ranks; `groups[place][node]` is a rank."""

    groups: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, told: Sequence[Sequence[int]]) -> "RankNodes":
        """The arrangement in which rank r is in the group `told[r]`, which holds ranks.

        Ranks of a node stand in the order of their groups' first ranks. `SpecError` unless the
        groups are of one size and every rank is in one of them.
        """
        groups = [tuple(sorted(members)) for members in told]
        for rank, members in enumerate(groups):
            if rank not in members:
                raise SpecError(f"rank {rank} is not in its own across= group {members}: {_FIX}")
            if len(set(members)) < len(members) or not 0 <= members[0] <= members[-1] < len(told):
                raise SpecError(f"rank {rank} has across= ranks {members} of {len(told)}: {_FIX}")
        for rank, members in enumerate(groups):
            for other in members:
                if groups[other] != members:
                    raise SpecError(
                        f"rank {rank} has the across= group {members}, rank {other} has "
                        f"{groups[other]}: {_FIX}"
                    )
        found = sorted(set(groups))
        if len({len(members) for members in found}) > 1:
            raise SpecError(f"across= groups have different sizes, {listed(found)}: {_FIX}")
        return cls(tuple(found))

    @property
    def count(self) -> int:
        """The number of nodes."""
        return len(self.groups[0])

    @property
    def width(self) -> int:
        """The number of ranks in a node."""
        return len(self.groups)

    def place(self, rank: int) -> int:
        return next(at for at, members in enumerate(self.groups) if rank in members)

    def across(self, rank: int) -> tuple[int, ...]:
        """The ranks with the same place as `rank`, one for each node in order."""
        return self.groups[self.place(rank)]

    def inside(self, rank: int) -> tuple[int, ...]:
        """The ranks in the node of `rank`, in the order of their places."""
        node = self.across(rank).index(rank)
        return tuple(members[node] for members in self.groups)

    def __str__(self) -> str:
        return f"{self.count} of {self.width} ranks, {listed(self.groups)}"


def listed(groups: Sequence[Sequence[int]]) -> str:
    """The first groups, as text of one word."""
    told = ["+".join(map(str, members)) for members in groups[:4]]
    return "/".join([*told, "…"] if len(groups) > len(told) else told)
