"""The steps of a model whose ranks survive each other, and the models that cannot have them."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.nn.parallel import DistributedDataParallel

from fewbits.attached import uncompiled
from fewbits.core.operator import Operator
from fewbits.ddp.carried import Carried
from fewbits.ddp.held import HeldStep
from fewbits.ddp.meeting import MeetingPlace
from fewbits.ddp.regrouping import Regrouping
from fewbits.errors import SpecError
from fewbits.presets import AUTO
from fewbits.session import ModelParameter, Options, Session, refuse_common
from fewbits.transport.membership import Membership
from fewbits.transport.store_comm import StoreComm

_WHERE = "on_failure='continue'"
_PATIENCE = 3.0  # seconds without a sign of life, after which a rank is lost
_ALONE = "dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)"


def refuse(model: DistributedDataParallel, uplink: str | Operator, options: Options) -> None:
    """Refuse what cannot go on without a rank, by name, before any other rank is asked."""
    if not isinstance(options.meeting, MeetingPlace):
        raise SpecError(f"meeting= is fewbits.ddp.MeetingPlace(store), got {options.meeting!r}")
    size = dist.get_world_size(model.process_group)
    if size > 1:
        raise SpecError(
            f"{_WHERE}: DDP's own group has {size} ranks, and torch's groups end with any of them: "
            f"give DDP this rank alone, {_ALONE}"
        )
    if model.broadcast_buffers:
        raise SpecError(
            f"{_WHERE}: DDP needs forward_sync_buffers=False (broadcast_buffers=False in torch "
            "before 2.13), because buffers are each rank's own"
        )
    if model.find_unused_parameters:
        raise SpecError(
            f"{_WHERE}: DDP has find_unused_parameters=True, and would look for them on this rank "
            "alone: use every parameter in every step"
        )
    if model.static_graph:
        raise SpecError(f"{_WHERE}: DDP has static_graph=True, which exchanges at other times")
    if uplink == AUTO:
        raise SpecError(f"{_WHERE}: 'auto' times every step: name an operator, such as 'natural'")
    if options.collective == "switch" or options.across is not None:
        raise SpecError(f"{_WHERE} goes with collective='sharded', 'star' or 'gather', no across=")
    for own in model.parameters():
        if own.device.type != "cpu" or options.device not in (None, "cpu") or options.staged:
            raise SpecError(f"{_WHERE} exchanges gradients of the CPU, these are on {own.device}")


class Surviving:
    """Holds each step's gradients until its exchange has ended among those who are left."""

    def __init__(
        self,
        model: DistributedDataParallel,
        session: Session,
        comm: StoreComm,
        named: Callable[[Tensor], ModelParameter],
    ) -> None:
        refuse_common(session.routing)
        meeting, timeout = session.options.meeting, session.options.timeout
        membership = Membership(meeting.store, timeout, meeting.at_least, _PATIENCE)
        carried = Carried(uncompiled(model.module), meeting.state)
        self.group = Regrouping(membership, comm, session, carried)
        self._model = model
        trained = [
            own
            for name, own in model.module.named_parameters()
            if own.requires_grad and name not in model.parameters_to_ignore
        ]
        self._held = HeldStep([(own, named(own)) for own in trained])
        self._futures: list[tuple[torch.futures.Future[Tensor], Tensor]] = []
        self._reached: set[Tensor] = set()
        self._pass = -1
        for own in trained:
            own.register_post_accumulate_grad_hook(self._reaches)

    def submit(self, bucket: GradBucket) -> "torch.futures.Future[Tensor]":
        """Take a bucket; its tensor has the means when the last bucket's call has returned."""
        future: torch.futures.Future[Tensor] = torch.futures.Future()
        if not self._futures:
            self._held.forget()
            self.group.admit()
        self._futures.append((future, bucket.buffer()))
        try:
            for job in self._held.add(bucket):
                self.group.submit(job)
                last = job
            if bucket.is_last():
                self.group.finish(last, self._held.again)
                self._held.end()
        except BaseException:
            self._futures.clear()
            raise
        if bucket.is_last():
            ready, self._futures = self._futures, []
            for own, tensor in ready:
                own.set_result(tensor)
        return future

    def _reaches(self, parameter: Tensor) -> None:
        """Note that the backward pass has reached a parameter."""
        if not self._model.require_backward_grad_sync:
            return
        current = torch._C._current_graph_task_id()
        if current != self._pass:
            self._pass = current
            self._reached.clear()
            torch.autograd.Variable._execution_engine.queue_callback(self._check)
        self._reached.add(parameter)

    def _check(self) -> None:
        """Refuse parameters without a gradient: nobody waits for this rank then."""
        missing = self._held.missing(self._reached)
        if missing:
            self._futures.clear()
            self.group.leave()
            raise SpecError(
                f"{', '.join(missing[:3])}: no gradient in this step, of {len(missing)} parameters "
                f"in all; with {_WHERE} every step must use every parameter, and activation "
                "checkpoints use_reentrant=False"
            )
