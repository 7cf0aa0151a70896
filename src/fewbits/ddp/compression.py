"""Compression of a DDP model's gradients in one line, and the hook that DDP calls."""

from collections.abc import Iterable
from functools import partial
from typing import Any, Unpack

import torch
from torch import nn
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.nn.parallel import DistributedDataParallel

from fewbits.attached import (
    AttachedToSteps,
    placed,
    ranges,
    refuse_sparse,
    uncompiled,
    uncompiled_name,
)
from fewbits.core.operator import Operator
from fewbits.ddp import buckets, surviving
from fewbits.errors import SpecError
from fewbits.session import (
    AdapterParts,
    GradientOptions,
    ModelParameters,
    Options,
    Report,
    Session,
    SessionComm,
    routes,
    takes,
)
from fewbits.transport import groups
from fewbits.transport.store_comm import StoreComm
from fewbits.transport.torch_comm import TorchComm

_AGAIN = "wrap its module in a new DistributedDataParallel to attach another"
_HOOKED = f"the model has a communication hook of torch already: {_AGAIN}"
_TWICE = f"the model has a compression already, of an earlier attach: {_AGAIN}"


class Compression(AttachedToSteps):
    """Compresses every bucket's gradients in both directions; see `attach` for the arguments.

    For frameworks that register the hook themselves: `register_comm_hook(Compression("natural"),
    hook)`, or Lightning's `DDPStrategy(ddp_comm_state=Compression("natural"), ddp_comm_hook=hook)`.
    `comm` takes the place of torch's process group.
    """

    @takes(GradientOptions)
    def __init__(
        self,
        uplink: str | Operator,
        downlink: str | Operator | None = None,
        *,
        names: Iterable[tuple[str, Any]] = (),
        process_group: Any = None,
        comm: SessionComm | None = None,
        **options: Unpack[GradientOptions],
    ) -> None:
        named = list(names)
        chosen, self._names = Options.of(options), buckets.BucketNames(named)
        if chosen.on_failure == "continue" and not isinstance(comm, StoreComm):
            raise SpecError("on_failure='continue' must see the model: use fewbits.ddp.attach")
        self._surviving: surviving.Surviving | None = None
        device, formats = placed(parameter for _, parameter in named)
        routing = routes(uplink, downlink, chosen, ModelParameters(self._names.given))
        self.session = Session(
            comm or TorchComm(process_group, chosen.timeout),
            routing,
            chosen,
            AdapterParts(
                device=device,
                formats=formats,
                ranges=ranges,
                members=partial(groups.members, group=process_group),
            ),
        )

    def submit(self, bucket: GradBucket) -> "torch.futures.Future[torch.Tensor]":
        """Take a bucket; the future holds the mean over all ranks, in the bucket's own tensor."""
        if self._surviving is not None:
            return self._surviving.submit(bucket)
        session = self.session
        staged = session.options.staged
        job, future = buckets.job(bucket, self._names, session.comm, staged=staged)
        self.session.submit(job)
        if job.is_last:
            # DDP waits for every bucket right after this one. Waiting here costs no overlap and
            # lets an error leave backward() with its own type: a future would make it RuntimeError.
            with ranges("fewbits.wait"):
                self.session.wait(job)
        return future

    @property
    def rank(self) -> int:
        """The number of this rank among those that train now."""
        return self.session.comm.rank

    @property
    def size(self) -> int:
        """How many ranks train now."""
        return self.session.comm.size

    @property
    def members(self) -> tuple[int, ...]:
        """With `on_failure="continue"` the ranks by the numbers that they got when they came."""
        return () if self._surviving is None else self._surviving.group.members

    def survive(self, model: DistributedDataParallel) -> None:
        """Meet the other ranks of a model that goes on without lost ones; `attach` calls this."""
        comm = self.session.comm
        assert isinstance(comm, StoreComm)
        self._surviving = surviving.Surviving(model, self.session, comm, self._names)
        self._surviving.group.begin()

    def report(self) -> Report:
        """Bytes, seconds and counts of this rank since the start."""
        return Report(**self.session.figures())

    def close(self) -> None:
        """End the background thread and give the process group back; every rank must call this."""
        if self._surviving is not None:
            self._surviving.group.end()
        self.session.close()


def hook(state: Compression, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The communication hook for `register_comm_hook`; its state is a `Compression`."""
    return state.submit(bucket)


@takes(GradientOptions)
def attach(
    model: nn.Module,
    uplink: str | Operator,
    downlink: str | Operator | None = None,
    **options: Unpack[GradientOptions],
) -> Compression:
    """Compress a DDP model's gradients; every rank must call this with the same arguments.

    The model may have gone through torch.compile, before or after it was wrapped in DDP.
    `uplink` compresses each rank's gradient, `downlink` the mean that is sent back: by default the
    same operator if it is unbiased, a cast, or there is feedback, else `natural`, entropy coded if
    that operator is; `"identity"` for one direction only. `uplink="tiny"` is a preset, an operator
    and its feedback in one word; `"two-bit"` and `"one-bit"` are presets without bias, and
    `"low-rank"` sends thin factors of matrices, or `"low-rank:rank=4|sparse-dithering"`. `"auto"`
    measures in the first steps whether plain all-reduce, bfloat16, `natural`, `natural:coder=rans`
    or `two-bit` is fastest on this link, with `allow_bias` also `tiny` or `low-rank`, and keeps the
    fastest.
    With `across`, ranks of a node sum among each other, and only what goes to other nodes is
    compressed. With `on_failure="continue"` a lost rank costs the others a repeated exchange, and
    comes again when it is started again.
    """
    model = uncompiled(model)
    if not isinstance(model, DistributedDataParallel):
        raise SpecError(
            f"attach takes a DistributedDataParallel model, got {type(model).__name__}: "
            "wrap it first"
        )
    for registered, _ in getattr(model, "_comm_hooks", ()):  # torch takes one for good
        raise SpecError(_TWICE if registered is hook else _HOOKED)
    refuse_sparse(model.module, model.parameters_to_ignore)
    chosen, comm = Options.of(options), None
    if chosen.on_failure == "continue":
        surviving.refuse(model, uplink, chosen)
        comm = StoreComm(chosen.meeting.store, chosen.timeout)
    compression = Compression(
        uplink,
        downlink,
        names=((uncompiled_name(name), own) for name, own in model.module.named_parameters()),
        process_group=model.process_group,
        comm=comm,
        **options,
    )
    if comm is None:
        compression.start()
    else:
        compression.survive(model)
    try:
        model.register_comm_hook(compression, hook)
    except RuntimeError as error:  # one of torch's own, on this rank and on all others
        compression.close()
        raise SpecError(_HOOKED) from error
    return compression
