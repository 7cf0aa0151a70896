"""The ranks of one island: each exchanges a part of its model with its peers in other islands.

Under FSDP2 the parts are the ranks' shards. Under DDP, where all ranks have the whole model, they
are about equal, and the ranks then tell each other what their parts have become.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard
from torch.nn.parallel import DistributedDataParallel

from fewbits.backend.buffers import Buffer
from fewbits.collectives.comm import exchange, largest
from fewbits.errors import PeerError, SpecError
from fewbits.localsgd.standing import Standing
from fewbits.transport.torch_comm import TorchComm

_WELL, _SICK, _FAILED = 0.0, 1.0, 2.0
_PEERS = "pass process_group=, this rank's peers in other islands, such as mesh['island']"


class Inside:
    """An island of `width` ranks, of which this one has a `place`."""

    def __init__(self, group: Any, peers: Any, timeout: float, *, is_sharded: bool) -> None:
        own, others = dist.get_process_group_ranks(group), dist.get_process_group_ranks(peers)
        if set(own) & set(others) != {dist.get_rank()}:
            raise SpecError(
                f"ranks {own} are an island and {others} the peers of this rank, which alone may "
                f"be in both: {_PEERS}"
            )
        self.place, self.width = own.index(dist.get_rank()), len(own)
        self.is_sharded = is_sharded
        self._comm = TorchComm(group, timeout)

    @property
    def parts(self) -> int:
        """Into how many parts the values of this rank are cut, of which it exchanges one."""
        return 1 if self.is_sharded else self.width

    @property
    def part(self) -> int:
        """Which of them that is."""
        return 0 if self.is_sharded else self.place

    def open(self) -> None:
        """Connect to the island; every rank of it must call this."""
        if self.width > 1:
            self._comm.open()

    def close(self) -> None:
        self._comm.close()

    def agree(self, wait: Callable[[], None], standing: Standing) -> None:
        """Do what may fail or find sick values, and let all of the island know."""
        failure: Exception | None = None
        try:
            wait()
        except Exception as error:
            failure = error
        told = _FAILED if failure is not None else _SICK if standing.sick else _WELL
        try:
            worst = largest(self._comm, [told])[0] if self.width > 1 else told
        except PeerError:
            if failure is None:
                raise
            raise failure from None
        if failure is not None:
            raise failure
        if worst == _FAILED:
            raise PeerError("another rank of this island has lost a peer, or has failed")
        standing.sick = worst == _SICK

    def gather(self, parts: Sequence[Sequence[Tensor]]) -> None:
        """Fill the parts of all ranks; this rank has its own."""
        if self.is_sharded or self.width == 1:
            return
        comm = self._comm
        sizes = [sum(each.nbytes for each in part) for part in parts]
        buffers = [np.empty(size, np.uint8) for size in sizes]
        own = [each.cpu().numpy().view(np.uint8) for each in parts[self.place]]
        np.concatenate([*own, np.empty(0, np.uint8)], out=buffers[self.place])
        content = [Buffer.of(each) for each in buffers]
        exchange(comm, ([content[self.place]] * self.width, content))
        for part, told in zip(parts, buffers, strict=True):
            at = 0
            for each in part:
                host = each.cpu()
                host.numpy().view(np.uint8)[:] = told[at : at + each.nbytes]
                each.copy_(host)
                at += each.nbytes


def peers_of(given: Any) -> Any:
    """A process group, also of a mesh of one dimension."""
    if isinstance(given, DeviceMesh):
        if given.ndim != 1:
            raise SpecError(f"process_group= is a mesh of {given.ndim} dimensions: {_PEERS}")
        return given.get_group()
    return given


def island_of(model: nn.Module, peers: Any, timeout: float) -> Inside | None:
    """The island of a model that is shared by several ranks; None if a rank has it alone."""
    if isinstance(model, DistributedDataParallel):
        if peers is None:
            raise SpecError(
                "attach takes a model that is not wrapped in DistributedDataParallel, which "
                f"exchanges gradients in every step, or an island: {_PEERS}"
            )
        return Inside(model.process_group, peers, timeout, is_sharded=False)
    trained = {name: own for name, own in model.named_parameters() if own.requires_grad}
    sharded = {name: own for name, own in trained.items() if isinstance(own, DTensor)}
    if not sharded:
        return None
    for name, own in trained.items():
        is_shard = isinstance(own, DTensor) and own.device_mesh.ndim == 1
        if not (is_shard and isinstance(own.placements[0], Shard)):  # type: ignore[attr-defined]
            raise SpecError(f"{name} is not sharded over a mesh of one dimension, as others are")
    meshes = {own.device_mesh for own in sharded.values()}
    if len(meshes) > 1:
        raise SpecError("all of the model must be sharded over the same mesh")
    if peers is None:
        raise SpecError(f"the model is sharded, so it is an island: {_PEERS}")
    return Inside(meshes.pop().get_group(), peers, timeout, is_sharded=True)
