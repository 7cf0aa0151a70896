"""Compression of a sharded model's gradients in one line."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
from fewbits.core.operator import Operator
from fewbits.errors import PeerError, SpecError
from fewbits.fsdp import shards
from fewbits.fsdp.comms import CheckedAllGather, CompressedReduceScatter
from fewbits.fsdp.shards import ShardGroup
from fewbits.operators.identity import Identity
from fewbits.session import (
    REDUCE_SCATTER,
    AdapterParts,
    ModelParameters,
    Options,
    Report,
    ScatterJob,
    ScatterOptions,
    Session,
    route,
    takes,
    times,
)
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
        first, sent, *rest = text.splitlines()
        return "\n".join([first, sent, gathered, *rest])


class ShardedCompression(AttachedToSteps):
    """Compresses gradients on their way to the ranks that keep them; see `attach`.

    A *step* is one backward pass in which FSDP reduces gradients.
    """

    @takes(ScatterOptions)
    def __init__(
        self, model: nn.Module, uplink: str | Operator, **options: Unpack[ScatterOptions]
    ) -> None:
        model = uncompiled(model)
        self.groups = shards.groups(model)
        collectives = [group.its._reduce_scatter_comm for group in self.groups]
        if any(isinstance(each, CompressedReduceScatter) for each in collectives):
            raise SpecError("the model has a compression already: close() it first")
        refuse_sparse(model)
        self._task = -1  # the backward pass at the end of which the step will end
        self._gathered_bytes = 0
        chosen = replace(Options.of(options), collective=REDUCE_SCATTER)
        given = (described(name, own) for name, own in model.named_parameters())
        routing = replace(route(uplink, None, chosen, ModelParameters(given)), downlink=Identity())
        self._comm = TorchComm(self.groups[0].process_group, chosen.timeout)
        device, formats = placed(model.parameters())
        parts = replace(_parts(self.groups), device=device, formats=formats, ranges=ranges)
        self.session = Session(self._comm, routing, chosen, parts)

    def install(self) -> None:
        """Make FSDP call our collectives."""
        for group in self.groups:
            its, module = group.its, group.module
            scatter = CompressedReduceScatter(self, group, its._reduce_scatter_comm)
            module.set_custom_reduce_scatter(scatter)
            module.set_custom_all_gather(CheckedAllGather(self, group, its._all_gather_comm))

    def close(self) -> None:
        """Give FSDP its own collectives back, and the process group; every rank must call this."""
        for group in self.groups:
            its, module = group.its, group.module
            if isinstance(its._reduce_scatter_comm, CompressedReduceScatter):
                module.set_custom_reduce_scatter(its._reduce_scatter_comm.plain)
            if isinstance(its._all_gather_comm, CheckedAllGather):
                module.set_custom_all_gather(its._all_gather_comm.plain)
        self.session.close()

    def reduce_scatter(
        self, group: ShardGroup, output: torch.Tensor, input: torch.Tensor, op: Any
    ) -> None:
        """Fill `output` with this rank's row of the mean of all inputs, or of what `op` says."""
        self.start()
        staged = self.session.options.staged
        values, result = TensorValues(input, staged=staged), TensorValues(output, staged=staged)
        job = ScatterJob(group.index, values, (), outcome=group, result=result, layout=group.layout)
        if op != dist.ReduceOp.AVG:
            job.sums = True
            if op == dist.ReduceOp.PREMUL_SUM:
                job.factor = 1 / group.its.gradient_divide_factor
            elif op != dist.ReduceOp.SUM:
                raise SpecError(f"FSDP asks for {op}, which is neither a mean nor a sum")
        task = torch._C._current_graph_task_id()
        if task != self._task:  # also after a backward pass that an error of the user's has ended
            self._task = task
            torch.autograd.Variable._execution_engine.queue_callback(self._end_step)
        with self._comm.joined():
            self.session.submit(job)

    def _end_step(self) -> None:
        with self._comm.joined():
            self.session.end_step()

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


@takes(ScatterOptions)
def attach(
    model: nn.Module, uplink: str | Operator, **options: Unpack[ScatterOptions]
) -> ShardedCompression:
    """Compress the gradients of a model to which `fully_shard` was applied, on every rank alike.

    `uplink` compresses each rank's gradient on its way to the ranks that keep the shards; these
    decode and average in float32, in rank order. `uplink="tiny"` is a preset, an operator and its
    feedback in one word; `"two-bit"` and `"one-bit"` are presets without bias. A memory is as
    large as the rank's whole gradient.
    """
    compression = ShardedCompression(model, uplink, **options)
    compression.start()
    compression.install()
    return compression


def _parts(groups: Sequence[ShardGroup]) -> AdapterParts:
    """The parts of FSDP's sessions: no thread, and shards that belong to their ranks."""
    replicas = getattr(groups[0].its.mesh_info, "replicate_process_group", None)
    replica = 0 if replicas is None else dist.get_rank(replicas)
    return AdapterParts(
        # Replicas of HSDP, who keep the same shard, must not round alike.
        stream=("replica", replica) if replica else (),
        has_thread=False,
        # Replicas of a shard each have memories and a file of their own.
        place=lambda _: (dist.get_rank(), dist.get_world_size()),
        no_reshard="memories belong to the shards of the run that saved them: resume with as many "
        "ranks, or without the memories",
        units=lambda routing, ranks: [
            unit for group in groups for unit in group.shards(ranks).units(routing)
        ],
    )
