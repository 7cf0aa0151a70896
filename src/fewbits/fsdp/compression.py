"""Compression of a sharded model's gradients in one line."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack

import torch
import torch.distributed as dist
from torch import nn

from fewbits.attached import (
    AttachedToSteps,
    described,
    placed,
    ranges,
    refuse_sparse,
    uncompiled,
)
from fewbits.collectives.payload import Unit
from fewbits.core.operator import Operator
from fewbits.errors import PeerError, SpecError
from fewbits.fsdp import meshes, shards
from fewbits.fsdp.comms import CheckedAllGather, CompressedReduceScatter, ReplicaHook
from fewbits.fsdp.meshes import AloneInPlaceOf
from fewbits.fsdp.owners import ReplicaOwners
from fewbits.fsdp.shards import ShardGroup
from fewbits.operators.identity import Identity
from fewbits.policy import is_biased
from fewbits.registry import operator
from fewbits.session import (
    REDUCE_SCATTER,
    AdapterParts,
    ModelParameters,
    Options,
    ReplicaJob,
    Report,
    Routing,
    ScatterJob,
    Session,
    ShardOptions,
    route,
    takes,
    times,
)
from fewbits.transport import groups as process_groups
from fewbits.transport.losses import reason
from fewbits.transport.tensors import TensorValues
from fewbits.transport.torch_comm import TorchComm, break_up


@dataclass(frozen=True, slots=True)
class ShardReport(Report):
    """Figures of one rank; `plain_bytes` is what FSDP's own reduce-scatter would have sent.

    `gathered_bytes` is what FSDP's all-gathers of parameters have sent, by the formula for a ring.
    They are not compressed.
    """

    gathered_bytes: int = 0

    @property
    def whole_ratio(self) -> float:
        """How many times fewer bytes than plain FSDP, parameters included."""
        sent = self.payload_bytes + self.header_bytes + self.gathered_bytes
        return (self.plain_bytes + self.gathered_bytes) / sent if sent else 1.0

    def as_dict(self) -> dict[str, object]:
        return Report.as_dict(self) | {"whole_ratio": self.whole_ratio}

    def __str__(self) -> str:
        if self.ranks == 1:
            return Report.__str__(self)
        parameters = f"{self.gathered_bytes / 1e6:,.2f} MB of parameters by FSDP, not compressed"
        gathered = f"gathered    {parameters}: in all {times(self.whole_ratio)} without"
        text = Report.__str__(self).replace("plain all-reduce", "plain reduce-scatter")
        for word in ("nodes", "node") if self.nodes else ():
            text = text.replace(word, "replicas" if word == "nodes" else "replica")
        first, sent, *rest = text.splitlines()
        return "\n".join([first, sent, gathered, *rest])


class ShardedCompression(AttachedToSteps):
    """Compresses gradients on their way to the ranks that keep them; see `attach`.

    A *step* is one backward pass in which FSDP reduces gradients.
    """

    @takes(ShardOptions)
    def __init__(
        self, model: nn.Module, uplink: str | Operator, **options: Unpack[ShardOptions]
    ) -> None:
        model = uncompiled(model)
        self.groups = shards.groups(model)
        _refuse_attached(self.groups)
        refuse_sparse(model)
        self._task = -1  # the backward pass at the end of which the step will end
        self._gathered_bytes = 0
        self.mesh = meshes.widest([group.mesh for group in self.groups])
        (first, *_) = [group for group in self.groups if group.mesh == self.mesh]
        self._replicated = [group for group in self.groups if group.mesh.has_replicas]
        across = first.its.mesh_info.replicate_process_group if self.mesh.has_replicas else None
        chosen = replace(Options.of(options), collective=REDUCE_SCATTER, across=across)
        given = (described(name, own) for name, own in model.named_parameters())
        routing = route(uplink, None, chosen, ModelParameters(given))
        _refuse_options(self.groups, chosen, routing)
        if not self._replicated:
            routing = replace(routing, downlink=Identity())
        group = meshes.group_of(self.mesh, first.process_group)
        self._numbers = process_groups.members(list(self.mesh.ranks), group)
        self._owners = ReplicaOwners(self.groups)
        self._alone = AloneInPlaceOf([each.its.mesh_info for each in self._replicated])
        self._comm = TorchComm(group, chosen.timeout)
        device, formats = placed(model.parameters())
        parts = _parts(self.groups, self._owners, self.ranks_of, group)
        parts = replace(parts, device=device, formats=formats, ranges=ranges)
        self.session = Session(self._comm, routing, chosen, parts)

    def ranks_of(self, members: Sequence[int]) -> tuple[int, ...]:
        """The numbers in the session of ranks that torch numbers otherwise."""
        return tuple(self._numbers[self.mesh.ranks.index(rank)] for rank in members)

    def install(self) -> None:
        """Make FSDP call our collectives."""
        for group in self.groups:
            its = group.its
            its._reduce_scatter_comm = CompressedReduceScatter(
                self, group, its._reduce_scatter_comm
            )
            its._all_gather_comm = CheckedAllGather(self, group, its._all_gather_comm)
        for group in self._replicated:
            group.its._all_reduce_hook = ReplicaHook(self, group)
        self._alone.install()

    def close(self) -> None:
        """Give FSDP its own collectives back, and the process group; every rank must call this."""
        for its in (group.its for group in self.groups):
            if isinstance(its._reduce_scatter_comm, CompressedReduceScatter):
                its._reduce_scatter_comm = its._reduce_scatter_comm.plain
            if isinstance(its._all_gather_comm, CheckedAllGather):
                its._all_gather_comm = its._all_gather_comm.plain
            if isinstance(its._all_reduce_hook, ReplicaHook):
                its._all_reduce_hook = None
        self._alone.close()
        self.session.close()

    def reduce_scatter(
        self, group: ShardGroup, output: torch.Tensor, input: torch.Tensor, op: Any
    ) -> None:
        """Fill `output` with this rank's row of the mean of all inputs, or of what `op` says."""
        self.start()
        staged = self.session.options.staged
        values, result = TensorValues(input, staged=staged), TensorValues(output, staged=staged)
        job = ScatterJob(
            group.index,
            values,
            (),
            outcome=group,
            result=result,
            layout=group.layout,
            peers=self.ranks_of(group.mesh.inside),
            stream=_stream(group.mesh.inside, self.mesh),
            goes_on=group.mesh.has_replicas,
        )
        if op != dist.ReduceOp.AVG:
            job.sums = True
            if op == dist.ReduceOp.PREMUL_SUM:
                job.factor = 1 / group.its.gradient_divide_factor
            elif op != dist.ReduceOp.SUM:
                raise SpecError(f"FSDP asks for {op}, which is neither a mean nor a sum")
        self._do(job)

    def average(self, group: ShardGroup, shard: torch.Tensor) -> None:
        """Replace a shard by its mean over replicas, or by the sum if the user has a divisor."""
        self.start()
        ranks = len(group.mesh.inside)
        layout = group.layout(shard.numel() * ranks, ranks)
        self._do(
            ReplicaJob(
                group.index,
                TensorValues(shard, staged=self.session.options.staged),
                (),
                outcome=group,
                layout=layout,
                place=group.mesh.place,
                peers=self.ranks_of(group.mesh.across),
                owner=self._owners.of(self.session.routing),
                sums=group.its.gradient_divide_factor is not None,
            )
        )

    def _do(self, job: ScatterJob | ReplicaJob) -> None:
        """Reduce now, and end the step with this backward pass."""
        task = torch._C._current_graph_task_id()
        if task != self._task:  # also after a backward pass that an error of the user's has ended
            self._task = task
            torch.autograd.Variable._execution_engine.queue_callback(self._end_step)
        with self._comm.joined():
            self.session.submit(job)

    def _end_step(self) -> None:
        with self._comm.joined():
            self.session.end_step()

    def narrowed(self, parameters: torch.Tensor) -> torch.Tensor | None:
        """Parameters rounded for the all-gather, or None if they go as they are."""
        if self.session.options.gather is None or parameters.dtype != torch.float32:
            return None
        return parameters.to(torch.bfloat16)

    def all_gather(
        self, group: ShardGroup, bytes_: int, gather: Callable[[float], dist.Work | None]
    ) -> dist.Work | None:
        """Call FSDP's own `gather`, which sends `bytes_`, once all ranks are about to.

        It gets the seconds that it may take.
        """
        timeout = self.session.options.timeout
        text = f"the all-gather of {group.names[0]} and others, {bytes_} bytes"

        def gathered() -> dist.Work | None:
            self._gathered_bytes += bytes_
            try:
                return gather(timeout)
            except RuntimeError as error:  # of gloo, which does not say whom it has lost
                lost = " and ".join(f"rank {rank}" for rank in self._comm.losses().ranks)
                break_up(group.process_group)  # or else it waits on, and the program's end with it
                why = reason(error, timeout)
                raise PeerError(f"lost {lost or 'some rank'} in {text}: {why}") from error

        if self.session.stream is not None:  # the host waits for no rank before it queues work
            return gathered()
        return self.session.together(text, gathered)

    def report(self) -> ShardReport:
        """Bytes, seconds and counts of this rank since the start."""
        return ShardReport(**self.session.figures(), gathered_bytes=self._gathered_bytes)


@takes(ShardOptions)
def attach(
    model: nn.Module, uplink: str | Operator, **options: Unpack[ShardOptions]
) -> ShardedCompression:
    """Compress the gradients of a model to which `fully_shard` was applied, on every rank alike.

    `uplink` compresses each rank's gradient on its way to the ranks that keep the shards; these
    decode and average in float32, in rank order. On a mesh with replicas (HSDP) it compresses what
    these exchange, in both directions, and gradients go to the shards uncompressed or by `inside`.
    `uplink="tiny"` is a preset, an operator and its
    feedback in one word; `"two-bit"` and `"one-bit"` are presets without bias. A memory is as
    large as the rank's whole gradient.
    """
    compression = ShardedCompression(model, uplink, **options)
    compression.start()
    compression.install()
    return compression


def _parts(
    groups: Sequence[ShardGroup],
    owners: ReplicaOwners,
    ranks_of: Callable[[Sequence[int]], tuple[int, ...]],
    group: Any,
) -> AdapterParts:
    """The parts of FSDP's sessions: no thread, and shards that belong to their ranks."""

    def units(routing: Routing, _: int) -> list[Unit]:
        """All units; with replicas their shard is the rank that owns them."""
        found = []
        for each in groups:
            own = each.shards(len(each.mesh.inside)).units(routing)
            if each.mesh.has_replicas:
                owner, grid = owners.of(routing), each.mesh.grid
                own = [
                    replace(unit, shard=ranks_of(grid[unit.shard or 0])[owner(unit)])
                    for unit in own
                ]
            found += own
        return found

    return AdapterParts(
        has_thread=False,
        place=lambda _: (dist.get_rank(), dist.get_world_size()),
        no_reshard="memories belong to the shards of the run that saved them: resume with as many "
        "ranks, or without the memories",
        units=units,
        members=partial(process_groups.members, group=group),
    )


def _stream(inside: Sequence[int], mesh: meshes.ShardMesh) -> tuple[int | str, ...]:
    """The random stream of ranks that do not begin with the first: they must not round alike."""
    first = mesh.ranks.index(inside[0])
    return ("replica", first) if first else ()


def _refuse_attached(groups: Sequence[ShardGroup]) -> None:
    """Raise `SpecError` for a model that has a compression, or a hook in our place."""
    for group in groups:
        if isinstance(group.its._reduce_scatter_comm, CompressedReduceScatter):
            raise SpecError("the model has a compression already: close() it first")
        if group.mesh.has_replicas and group.its._all_reduce_hook is not None:
            raise SpecError(
                "the model has a hook of set_all_reduce_hook, which is where replicas are "
                "averaged: leave it out"
            )


def _refuse_options(groups: Sequence[ShardGroup], options: Options, routing: Routing) -> None:
    """Raise `SpecError` for options that these meshes cannot have."""
    if options.inside is not None:
        if not any(group.mesh.has_replicas for group in groups):
            raise SpecError("inside= is for replicas of shards (HSDP), and this model has none")
        if is_biased(operator(options.inside)):
            raise SpecError(f"inside={options.inside!s} is biased and has no memory: use 'natural'")
    if routing.feedback is not None and len({group.mesh for group in groups}) > 1:
        raise SpecError(
            f"{routing.feedback} has memories, which need all parameters on one mesh: use an "
            "unbiased operator without feedback"
        )
