"""Compression of a sharded model's gradients in one line."""

from collections.abc import Mapping

from torch import nn

from fewbits.core.operator import Operator
from fewbits.feedback import Feedback
from fewbits.fsdp.compression import Compression
from fewbits.policy import Policy
from fewbits.schemes.reduction import NonFinite


def attach(
    model: nn.Module,
    worker: str | Operator,
    *,
    feedback: str | Feedback | None = None,
    policy: Policy | Mapping[str, str | Operator] | None = None,
    nonfinite: NonFinite = "propagate",
    seed: int = 0,
    timeout: float = 60.0,
    threads: int = 1,
) -> Compression:
    """Compress the gradients of a model to which `fully_shard` was applied, on every rank alike.

    `worker` compresses each rank's gradient on its way to the ranks that keep the shards; these
    decode and average in float32, in rank order. `feedback` gives the worker a memory, as large as
    its whole gradient, without which biased operators do not converge: `ef14` adds what was lost to
    the next gradient, `ef21`, `diana` and `ef-bv` send changes of the gradient. `worker="tiny"` is
    a preset, an operator and its feedback in one word. `policy` says which tensors are compressed:
    patterns of names, `{"head.*": "exact"}`, or a function of name and shape; by default
    one-dimensional and small tensors go exact. `nonfinite`: `propagate` NaN and infinity, `skip`
    the step on all ranks (gradients are zeroed and `skipped` is True), or `raise` on all ranks.
    After `timeout` seconds without an answer from a rank, all others raise `PeerError`.
    """
    compression = Compression(
        model,
        worker,
        feedback=feedback,
        policy=policy,
        nonfinite=nonfinite,
        seed=seed,
        timeout=timeout,
        threads=threads,
    )
    compression.start()
    compression.install()
    return compression
