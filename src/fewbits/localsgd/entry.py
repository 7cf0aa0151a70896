"""LocalSGD with compressed exchanges in one line."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from fewbits.core.operator import Operator
from fewbits.feedback import Feedback
from fewbits.localsgd.local import STATISTICS, LocalSGD
from fewbits.outer import Outer
from fewbits.policy import Policy
from fewbits.schemes.reduction import NonFinite


def attach(
    model: nn.Module,
    worker: str | Operator,
    master: str | Operator | None = None,
    *,
    local_steps: int,
    outer: str | Outer = "sgd",
    overlap: bool = False,
    average_buffers: Sequence[str] = STATISTICS,
    feedback: str | Feedback | None = None,
    scheme: str = "sharded",
    policy: Policy | Mapping[str, str | Operator] | None = None,
    nonfinite: NonFinite = "propagate",
    seed: int = 0,
    timeout: float = 60.0,
    threads: int = 1,
    process_group: Any = None,
) -> LocalSGD:
    """Train `model` alone for `local_steps` steps at a time, then exchange what has changed.

    Every rank must call this with the same arguments, with a model that is not wrapped in DDP, and
    then `step()` after each step of its optimizer. All ranks begin with rank 0's parameters and
    averaged buffers. When a round ends, each rank sends what its local steps took away from the
    parameters that all ranks began with; `outer` says what becomes of the mean: `sgd` (at its lr of
    1 the ranks' parameters are averaged) or `nesterov` (DiLoCo), with fields as in
    `nesterov:lr=0.5,momentum=0.9`. `overlap` exchanges while the next round is computed; its outer
    step comes one round later. Buffers whose names match `average_buffers` are averaged exactly.
    All other arguments are those of `fewbits.ddp.attach`.
    """
    local = LocalSGD(
        model,
        worker,
        master,
        local_steps=local_steps,
        outer=outer,
        overlap=overlap,
        average_buffers=average_buffers,
        feedback=feedback,
        scheme=scheme,
        policy=policy,
        nonfinite=nonfinite,
        seed=seed,
        timeout=timeout,
        threads=threads,
        process_group=process_group,
    )
    local.start()
    local.share_start()
    return local
