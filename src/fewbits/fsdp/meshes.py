"""The meshes over which FSDP shards parameters, and keeps replicas of the shards.

```
            replica 0   replica 1
shard 0         0           2        ── replicas of a shard, across the slow links
shard 1         1           3
                └─ the ranks that keep a shard each, inside a node
```
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

from fewbits.collectives.nodes import listed
from fewbits.errors import SpecError


@dataclass(frozen=True, slots=True)
class ShardMesh:
    """Ranks by torch's numbers: those of this rank's shards and replicas, and all of the mesh."""

    inside: tuple[int, ...]
    across: tuple[int, ...]
    ranks: tuple[int, ...]
    grid: tuple[tuple[int, ...], ...] = ()  # with replicas: those of each shard

    @classmethod
    def of(cls, info: Any) -> "ShardMesh":
        """The mesh of some parameters, from what FSDP knows of it."""
        inside = tuple(dist.get_process_group_ranks(info.shard_process_group))
        replicas = getattr(info, "replicate_process_group", None)
        across: tuple[int, ...] = (dist.get_rank(),)
        if replicas is not None:
            across = tuple(dist.get_process_group_ranks(replicas))
        if len(across) == 1:
            return cls(inside, across, inside)
        if info.mesh.ndim != 2:
            raise SpecError(
                f"replicas on a mesh of {info.mesh.ndim} dimensions are not compressed: pass "
                "fully_shard a mesh of two, (replicate, shard)"
            )
        table = info.mesh.mesh.movedim(info.shard_mesh_dim, 0)
        grid = tuple(sorted(tuple(sorted(row)) for row in table.tolist()))
        found = cls(inside, across, tuple(sorted(table.flatten().tolist())), grid)
        if grid[found.place] != tuple(sorted(across)):
            raise SpecError(f"replicas of shard {found.place} are not in the order of the mesh")
        return found

    @property
    def has_replicas(self) -> bool:
        return len(self.across) > 1

    @property
    def place(self) -> int:
        """Which shards this rank keeps."""
        return self.inside.index(dist.get_rank())


def widest(meshes: Sequence[ShardMesh]) -> ShardMesh:
    """The mesh with all ranks of the others; `SpecError` if there is none.

    If several have as many ranks, it is the one with replicas.
    """
    found = max(meshes, key=lambda mesh: (len(mesh.ranks), mesh.has_replicas))
    for mesh in meshes:
        if not set(mesh.ranks) <= set(found.ranks):
            raise SpecError(
                f"some parameters are on ranks {listed([mesh.ranks])}, others on "
                f"{listed([found.ranks])}: attach needs one mesh that has the ranks of all others"
            )
    return found


def group_of(mesh: ShardMesh, shard_group: Any) -> Any:
    """A process group of all ranks of a mesh; every one of them must call this."""
    if not mesh.has_replicas:
        return shard_group
    if len(mesh.ranks) == dist.get_world_size():
        return dist.group.WORLD
    return dist.new_group(list(mesh.ranks), backend="gloo", use_local_synchronization=True)


class AloneInPlaceOf:
    """Gives FSDP a group of one rank for its all-reduce over replicas, and takes it back.

    torch has no place for an all-reduce of one's own. A hook runs right after its own, which among
    one rank changes nothing.
    """

    def __init__(self, infos: Sequence[Any]) -> None:
        self._infos = {id(info): info for info in infos}
        self._replaced: list[tuple[Any, Any]] = []

    def install(self) -> None:
        """Replace the groups; every rank must call this."""
        for info in self._infos.values():
            group = info.replicate_process_group
            self._replaced.append((info, group))
            info.replicate_process_group = dist.new_group(
                [dist.get_rank()],
                backend=dist.get_backend(group),
                use_local_synchronization=True,
            )

    def close(self) -> None:
        for info, group in self._replaced:
            dist.destroy_process_group(info.replicate_process_group)
            info.replicate_process_group = group
        self._replaced.clear()
