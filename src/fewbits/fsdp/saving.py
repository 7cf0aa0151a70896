"""A compression's state as tensors that torch.distributed.checkpoint saves and reshards.

A memory of a parameter is a tensor of the shape (senders, rows, *shape of the parameter), cut like
the parameter. Senders are the ranks whose gradients are averaged: without replicas all ranks, each
with a memory of the whole parameter, and with them the replicas of a shard.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.tensor import DTensor, Replicate, Shard

from fewbits.errors import DisagreementError, SpecError
from fewbits.feedback.store import MASTER, MEAN, WORKER
from fewbits.fsdp.shards import ShardedParameter, ShardGroup

if TYPE_CHECKING:
    from fewbits.fsdp.compression import ShardedCompression

_ABOUT = "fewbits"
_ROWS_AND_SENDERS = 2  # dimensions before those of the parameter
_Arrays = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Arrangement:
    """So many replicas of so many shards."""

    replicas: int
    shards: int

    @property
    def key(self) -> str:
        return f"{_ABOUT}/{self.replicas}x{self.shards}"

    @classmethod
    def of_key(cls, key: str) -> "Arrangement | None":
        """What the key of a saved state says, if it is one."""
        text = key.rpartition(f"{_ABOUT}/")[2] if f"{_ABOUT}/" in key else ""
        replicas, times, shards = text.partition("x")
        if not (times and replicas.isdigit() and shards.isdigit()):
            return None
        return cls(int(replicas), int(shards))

    @property
    def senders(self) -> int:
        return self.replicas if self.replicas > 1 else self.shards


class DistributedState:
    """A `Stateful` of torch.distributed.checkpoint; every rank saves and loads it with the others.

    `saved_in` is the folder from which it will be loaded, which is needed if that run had other
    replicas or shards: errors that were kept then keep their sum over all senders.
    """

    def __init__(
        self, compression: "ShardedCompression", saved_in: str | Path | None = None
    ) -> None:
        self._compression = compression
        mesh = compression.mesh
        self.here = Arrangement(len(mesh.across), len(mesh.inside))
        self.there = self.here if saved_in is None else _saved(saved_in)
        if (self.there.replicas > 1) != (self.here.replicas > 1) and compression.feedback:
            raise SpecError(
                f"the state is of {self.there.replicas} x {self.there.shards} replicas and shards, "
                f"this run has {self.here.replicas} x {self.here.shards}: with feedback replicas "
                "cannot come or go, because memories of the downlink belong to them"
            )

    def state_dict(self) -> _Arrays:
        """The tensors, filled with this rank's part if replicas and shards are those here."""
        compression = self._compression
        state = compression.state_dict()
        origin = compression.session.checkpoint.origin()
        about = {"step": compression.step, "feedback": origin.feedback, "model": origin.model}
        found: _Arrays = {self.there.key: json.dumps(about)}
        for side, each in self._memories():
            found[f"{side}/{each.name}"] = each.filled(side, self, state)
        return found

    def load_state_dict(self, found: Mapping[str, Any]) -> None:
        """Go on from tensors that were loaded; raises on all ranks or on none."""
        self._compression.session.checkpoint.take(lambda: self._taken(found))

    def _taken(self, found: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        compression = self._compression
        origin, about = compression.session.checkpoint.origin(), json.loads(found[self.there.key])
        for what in ("feedback", "model"):
            if about[what] != getattr(origin, what):
                raise DisagreementError(
                    f"the state is of another {what}: {about[what]!r}, here "
                    f"{getattr(origin, what)!r}"
                )
        memories: dict[str, Any] = {}
        for side, each in self._memories():
            memories |= each.cut(side, self, found[f"{side}/{each.name}"].to_local().numpy())
        needed = compression.session.checkpoint.needed()
        return about["step"], {key: memories[key] for key in needed}

    def shared_out(self, side: str, senders: Sequence[_Arrays]) -> _Arrays:
        """The memories of this rank from those of the senders that were read."""
        feedback = self._compression.feedback
        assert feedback is not None
        if len(senders) == 1:
            return senders[0]
        if side == WORKER:
            if self.there.senders == self.here.senders:
                return senders[self.number]
            return feedback.shared_out(senders, self.here.senders)
        if side == MASTER and feedback.shifts:  # the same on all of them
            return senders[0]
        return {key: np.sum([own[key] for own in senders], axis=0) for key in senders[0]}

    @property
    def number(self) -> int:
        """Which of the senders this rank is."""
        mesh = self._compression.mesh
        own = mesh.ranks[self._compression.session.comm.rank]
        return mesh.across.index(own) if self.here.replicas > 1 else mesh.inside.index(own)

    @property
    def is_moved(self) -> bool:
        return self.here != self.there

    def _memories(self) -> "Iterator[tuple[str, _ParameterMemory]]":
        """All memories that any rank may have."""
        compression = self._compression
        feedback, routing = compression.feedback, compression.session.routing
        if feedback is None:
            return
        rows = {WORKER: 1 + feedback.has_momentum}
        if feedback.shifts:
            rows[MEAN] = 1
        if self.here.replicas > 1:
            rows[MASTER] = 1
        exact = set() if feedback.has_momentum else routing.exact_names()
        for group in compression.groups:
            for each, its in zip(group.shards(1).parameters, group.trained, strict=True):
                if each.name not in exact:
                    wide = its.sharded_param.dtype in (torch.float64, torch.complex128)
                    for side, count in rows.items():
                        yield side, _ParameterMemory(each, group, count, wide, routing.unit)


@dataclass(frozen=True, slots=True)
class _ParameterMemory:
    """A memory of one parameter, on one side."""

    parameter: ShardedParameter
    group: ShardGroup
    rows: int
    wide: bool
    unit: int

    @property
    def name(self) -> str:
        return self.parameter.name

    @property
    def shape(self) -> tuple[int, ...]:
        """The parameter's, of real numbers."""
        own = self.parameter
        return (*own.shape, own.parts) if own.parts > 1 else own.shape

    def filled(self, side: str, state: DistributedState, arrays: Mapping[str, Any]) -> DTensor:
        """The tensor, with this rank's memories if they lie as in the checkpoint."""
        whole = side == WORKER and state.here.replicas == 1
        senders = state.there.senders if state.here.replicas > 1 or whole else 1
        info = self.group.its.mesh_info
        placements: list[Any] = [Replicate()] * info.mesh.ndim
        cut = Shard(_ROWS_AND_SENDERS + self.parameter.dim)
        placements[info.shard_mesh_dim] = cut if not whole else Replicate()
        if not state.is_moved and senders > 1:
            at = info.shard_mesh_dim if whole else info.replicate_mesh_dim
            placements[at] = Shard(0)
        here = 1 if not state.is_moved else senders
        dtype = np.float64 if self.wide else np.float32
        parts = range(state.here.shards) if whole else [self.group.mesh.place]
        local = [self._joined(side, part, arrays, dtype) for part in parts]
        joined = np.concatenate(local, axis=1 + self.parameter.dim)
        filled = np.zeros((here, *joined.shape), dtype)
        if not state.is_moved:
            filled[0] = joined
        shape = torch.Size((senders, self.rows, *self.shape))
        return DTensor.from_local(
            torch.from_numpy(filled), info.mesh, placements, run_check=False, shape=shape,
            stride=torch.empty(shape, device="meta").stride(),
        )  # fmt: skip

    def cut(self, side: str, state: DistributedState, local: Any) -> _Arrays:
        """The memories of units, from a tensor that was loaded."""
        whole = side == WORKER and state.here.replicas == 1
        parts = range(state.here.shards) if whole else [self.group.mesh.place]
        dim = _ROWS_AND_SENDERS + self.parameter.dim
        ends = np.cumsum([self._length(part) for part in parts])[:-1]
        found: _Arrays = {}
        for part, own in zip(parts, np.split(local, ends, axis=dim), strict=True):
            senders = [self._units(side, part, each) for each in own]
            found |= state.shared_out(side, senders)
        return found

    def _length(self, part: int) -> int:
        """How long a shard is along the dimension in which the parameter is cut."""
        own = self.parameter
        counts = own.counts(len(self.group.mesh.inside))
        each = math.prod(self.shape) // max(own.shape[own.dim], 1)
        return counts[part] // max(each, 1)

    def _shape(self, part: int) -> tuple[int, ...]:
        shape, dim = list(self.shape), self.parameter.dim
        shape[dim] = self._length(part)
        return (self.rows, *shape)

    def _joined(self, side: str, part: int, arrays: Mapping[str, Any], dtype: Any) -> Any:
        """The memory of a shard; zeros for units that this rank has none of."""
        shape = self._shape(part)
        flat = np.zeros((self.rows, math.prod(shape[1:])), dtype)
        for number, start in enumerate(range(0, flat.shape[1], self.unit)):
            known = arrays.get(f"{side}/{self.name}/{part}.{number}")
            if known is not None:
                flat[: len(known), start : start + self.unit] = known
        return flat.reshape(shape)

    def _units(self, side: str, part: int, own: Any) -> _Arrays:
        flat = own.reshape(self.rows, -1)
        return {
            f"{side}/{self.name}/{part}.{number}": flat[:, start : start + self.unit]
            for number, start in enumerate(range(0, flat.shape[1], self.unit))
        }


def _saved(folder: str | Path) -> Arrangement:
    """The arrangement of the run that saved a checkpoint."""
    known = FileSystemReader(folder).read_metadata().state_dict_metadata
    found = {each for each in map(Arrangement.of_key, known) if each is not None}
    if len(found) != 1:
        raise DisagreementError(f"{folder} holds {len(found)} states of compression, not 1")
    return found.pop()
