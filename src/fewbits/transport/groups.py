"""The ranks of a process group, or of one dimension of a mesh, as numbers in another group."""

from collections.abc import Sequence
from typing import Any

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from fewbits.errors import SpecError

_FIX = (
    "pass this rank's group of one rank of every node, one dimension of a mesh, mesh['name'], or a "
    "list of ranks"
)


def members(across: Any, group: Any = None) -> list[int]:
    """The ranks of `across`, numbered as in `group`; `SpecError` says why not."""
    own = dist.get_process_group_ranks(group or dist.group.WORLD)
    found = _ranks(across)
    others = [rank for rank in found if rank not in own]
    if others:
        raise SpecError(
            f"ranks {others} of across= are not in the model's process group {own}: {_FIX}"
        )
    return [own.index(rank) for rank in found]


def _ranks(across: Any) -> Sequence[int]:
    """The numbers that torch gives to the ranks of a group."""
    if isinstance(across, DeviceMesh):
        if across.ndim != 1:
            names = ", ".join(across.mesh_dim_names or ()) or "no names"
            raise SpecError(f"across= is a mesh of {across.ndim} dimensions ({names}): {_FIX}")
        across = across.get_group()
    if across is dist.GroupMember.NON_GROUP_MEMBER:
        raise SpecError(f"across= is a group that this rank is not in: {_FIX}")
    if isinstance(across, dist.ProcessGroup):
        return dist.get_process_group_ranks(across)
    if isinstance(across, list | tuple | range) and all(isinstance(own, int) for own in across):
        return list(across)
    raise SpecError(f"across= is {across!r}: {_FIX}")
