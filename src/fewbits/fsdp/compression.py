"""The state of compression in one model under FSDP."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from fewbits.core.operator import Operator
from fewbits.errors import PeerError, SpecError
from fewbits.exchange import jobs, state
from fewbits.exchange.exchange import Loaded
from fewbits.exchange.factory import Factory
from fewbits.exchange.jobs import Job
from fewbits.exchange.options import Options
from fewbits.exchange.pipeline import Inline, Pipeline
from fewbits.exchange.reducer import Reducer
from fewbits.exchange.state import State
from fewbits.exchange.stepwise import Stepwise
from fewbits.feedback import Feedback
from fewbits.fsdp import shards
from fewbits.fsdp.comms import CheckedAllGather, CompressedReduceScatter
from fewbits.fsdp.reducer import Scattering, Shards
from fewbits.fsdp.report import ShardReport
from fewbits.fsdp.shards import Group
from fewbits.links.torch_comm import reason
from fewbits.operators.identity import Identity
from fewbits.policy import Policy
from fewbits.rng import Rng
from fewbits.schemes.header import Header, Phase
from fewbits.schemes.reduction import NonFinite, agree, commit

SCHEME = "reduce-scatter"


class Compression(Stepwise):
    """Compresses gradients on their way to the ranks that keep them; see `attach`.

    A *step* is one backward pass in which FSDP reduces gradients.
    """

    def __init__(
        self,
        model: nn.Module,
        worker: str | Operator,
        *,
        feedback: str | Feedback | None = None,
        policy: Policy | Mapping[str, str | Operator] | None = None,
        nonfinite: NonFinite = "propagate",
        seed: int = 0,
        timeout: float = 60.0,
        threads: int = 1,
    ) -> None:
        self.groups = shards.groups(model)
        if any(
            isinstance(g.its._reduce_scatter_comm, CompressedReduceScatter) for g in self.groups
        ):
            raise SpecError("the model has a compression already: close() it first")
        self._line = Inline(self._reduce)
        self._reduced: dict[int, Group] = {}  # those of this step
        self._task = -1  # the backward pass at the end of which the step will end
        self._nonfinite_means = self._gathered_bytes = 0
        super().__init__(
            worker,
            None,
            feedback,
            Options("sharded", policy, nonfinite, seed, timeout, threads),
            names=model.named_parameters(),
            process_group=self.groups[0].process_group,
        )
        self.scheme = SCHEME

    def _first_reducer(
        self,
        factory: Factory,
        worker: str | Operator,
        master: str | Operator | None,
        feedback: str | Feedback | None,
    ) -> Reducer:
        made = super()._first_reducer(factory, worker, master, feedback)
        planner = replace(made.planner, master=Identity())
        rng = Rng.from_seed(self.seed)
        replica = _replica(self.groups[0])
        if replica:  # those who keep the same shard must not round alike
            rng = rng.fork("replica", replica)
        return Scattering(planner, made.loop, self.progress, factory.scheme, self.threads, rng)

    def _new_pipeline(self) -> Pipeline:
        self._line = Inline(self._reduce)
        return self._line

    def install(self) -> None:
        """Let FSDP call us."""
        for group in self.groups:
            its, module = group.its, group.module
            module.set_custom_reduce_scatter(
                CompressedReduceScatter(self, group, its._reduce_scatter_comm)
            )
            module.set_custom_all_gather(CheckedAllGather(self, group, its._all_gather_comm))

    def close(self) -> None:
        """Give FSDP its own collectives back, and the process group; every rank must call this."""
        for group in self.groups:
            its, module = group.its, group.module
            if isinstance(its._reduce_scatter_comm, CompressedReduceScatter):
                module.set_custom_reduce_scatter(its._reduce_scatter_comm.plain)
            if isinstance(its._all_gather_comm, CheckedAllGather):
                module.set_custom_all_gather(its._all_gather_comm.plain)
        super().close()
        self._reduced.clear()
        self._nonfinite_means = 0

    def reduce_scatter(
        self, group: Group, output: torch.Tensor, input: torch.Tensor, op: Any
    ) -> None:
        """Fill `output` with this rank's row of the mean, or what `op` says, of all inputs."""
        self.start()
        job = Shards(group.index, input, (), False, output=output, find=group.layout)
        if op != dist.ReduceOp.AVG:
            job.sums = True
            if op == dist.ReduceOp.PREMUL_SUM:
                job.factor = 1 / group.its.gradient_divide_factor
            elif op != dist.ReduceOp.SUM:
                raise SpecError(f"FSDP asks for {op}, which is neither a mean nor a sum")
        task = torch._C._current_graph_task_id()
        if task != self._task:  # also after a backward pass that an error of the user's has ended
            self._task = task
            torch.autograd.Variable._execution_engine.queue_callback(self._end_backward)
        self._reduced[group.index] = group
        self._line.submit(job)

    def all_gather(
        self, group: Group, bytes_: int, gather: Callable[[], dist.Work | None]
    ) -> dist.Work | None:
        """Do what FSDP's own `gather` does, sending `bytes_`, once all ranks are about to."""
        self.start()
        return self._line.call(lambda: self._gather(group, bytes_, gather))

    def report(self) -> ShardReport:
        """What was sent and what it cost, on this rank, since the start."""
        return ShardReport(**self._figures(), gathered_bytes=self._gathered_bytes)

    def _gather(
        self, group: Group, bytes_: int, gather: Callable[[], dist.Work | None]
    ) -> dist.Work | None:
        comm, progress = self._comm, self.progress
        assert comm is not None
        text = f"the all-gather of {group.names[0]} and others, {bytes_} bytes"
        plan = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
        own = Header(Phase.GATHER, progress.step, progress.sequence, plan, text=text)
        with progress.spent.wire():
            agree(comm, own, progress)
        self._gathered_bytes += bytes_
        try:
            return gather()
        except RuntimeError as error:  # of gloo
            raise PeerError(f"lost some rank in {text}: {reason(error, self.timeout)}") from error

    def _reduce(self, job: Job) -> None:
        """One group, at once: FSDP divides, casts and adds up what it gets."""
        comm = self._comm
        assert isinstance(job, Shards)
        assert comm is not None
        self._reducer.start(job, comm)
        self._plain_bytes += (comm.size - 1) * job.output.nbytes
        if self.loop is not None or self.progress.nonfinite != "propagate":
            self._nonfinite_means += not jobs.is_finite(job.output)

    def _end_backward(self) -> None:
        """The step ends when the backward pass does."""
        self._line.call(self._end_step)

    def _end_step(self) -> None:
        assert self._comm is not None
        commit(self._comm, self.progress, self._nonfinite_means)
        super()._end_step()
        if self.skipped:
            for group in self._reduced.values():
                for parameter in group.trained:
                    if parameter.sharded_param.grad is not None:
                        parameter.sharded_param.grad.zero_()
        self._reduced.clear()
        self._nonfinite_means = 0

    def _judge_means(self) -> None:
        """Every rank has judged its own, and told the others when the step ended."""

    def _place(self) -> state.Place:
        """Replicas of a shard each have memories and a file of their own."""
        ranks = dist.get_world_size()
        return replace(super()._place(), rank=dist.get_rank(), ranks=ranks)

    def _loaded(self, saved: State | Sequence[State], reshard: bool) -> Loaded:
        if reshard:
            raise SpecError(
                "memories belong to the shards of the run that saved them: resume with as many "
                "ranks, or without the memories"
            )
        return super()._loaded(saved, reshard)


def _replica(group: Group) -> int:
    """Which of the replicas of HSDP this is; 0 without them."""
    replicas = getattr(group.its.mesh_info, "replicate_process_group", None)
    return 0 if replicas is None else dist.get_rank(replicas)
