"""Compression of a DDP model's gradients in one line."""

from collections.abc import Mapping, Sequence

import torch
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.nn.parallel import DistributedDataParallel

from fewbits.core.operator import Operator
from fewbits.ddp.compression import Compression
from fewbits.errors import SpecError
from fewbits.exchange.switching import Aggregators
from fewbits.feedback import Feedback
from fewbits.policy import Policy
from fewbits.schemes.reduction import NonFinite


def hook(state: Compression, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The communication hook for `register_comm_hook`; its state is a `Compression`."""
    return state.submit(bucket)


def attach(
    model: DistributedDataParallel,
    worker: str | Operator,
    master: str | Operator | None = None,
    *,
    feedback: str | Feedback | None = None,
    scheme: str = "sharded",
    aggregators: Sequence[str] | Aggregators = (),
    policy: Policy | Mapping[str, str | Operator] | None = None,
    nonfinite: NonFinite = "propagate",
    seed: int = 0,
    timeout: float = 60.0,
    threads: int = 1,
    allow_bias: bool = False,
) -> Compression:
    """Compress a DDP model's gradients; every rank must call this with the same arguments.

    `worker` compresses each rank's gradient, `master` the mean that is sent back: by default the
    same operator if it is unbiased, a cast, or there is feedback, else `natural`, entropy coded if
    that operator is; `"identity"` for one direction only. `feedback` gives both directions a
    memory, without which biased operators do not converge: `ef14` adds what was lost to the next
    gradient, `ef21`, `diana` and `ef-bv` send changes of the gradient. `worker="tiny"` is a preset,
    an operator and its feedback in one word; `"auto"` measures in the first steps whether plain
    all-reduce, bfloat16, `natural` or `natural:coder=rans` is fastest on this link, with
    `allow_bias` also `tiny`, and goes on with that. `scheme` is `sharded` (every rank averages a
    share), `star` (rank 0 does), `gather` (everyone does) or `switch` (`aggregators` do, programs
    `fewbits switch` at these addresses, which add integers only). `policy` says which tensors are
    compressed: patterns of names, `{"head.*": "exact"}`, or a function of name and shape; by
    default one-dimensional and small tensors go exact. `nonfinite`: `propagate` NaN and infinity,
    `skip` the step on all ranks (gradients are zeroed and `skipped` is True), or `raise` on all
    ranks; memories never take them up. After `timeout` seconds without an answer from a rank, all
    others raise `PeerError`.
    """
    if not isinstance(model, DistributedDataParallel):
        raise SpecError(f"attach takes a DistributedDataParallel model, got {type(model).__name__}")
    compression = Compression(
        worker,
        master,
        feedback=feedback,
        scheme=scheme,
        aggregators=aggregators,
        policy=policy,
        nonfinite=nonfinite,
        seed=seed,
        timeout=timeout,
        threads=threads,
        allow_bias=allow_bias,
        names=model.module.named_parameters(),
        process_group=model.process_group,
    )
    compression.start()
    try:
        model.register_comm_hook(compression, hook)
    except Exception:  # the model has a hook already, on this rank and on all others
        compression.close()
        raise
    return compression
