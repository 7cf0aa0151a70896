"""LocalSGD with compressed exchanges in one line."""

from typing import Unpack

from torch import nn

from fewbits.core.operator import Operator
from fewbits.localsgd.local import LocalSGD
from fewbits.localsgd.options import LocalOptions, RoundOptions
from fewbits.session import takes


@takes(RoundOptions, LocalOptions)
def attach(
    model: nn.Module,
    uplink: str | Operator,
    downlink: str | Operator | None = None,
    **options: Unpack[RoundOptions],
) -> LocalSGD:
    """Train `model` alone for `local_steps` steps at a time, then exchange the changes.

    Every rank must call this with the same arguments, with a model that is not wrapped in DDP, and
    then `step()` after each step of its optimizer. All ranks begin with rank 0's parameters and
    averaged buffers. When a round ends, each rank sends the change of its parameters since the
    common start. `uplink` and `downlink` are those of `fewbits.ddp.attach`.
    """
    local = LocalSGD(model, uplink, downlink, **options)
    local.start()
    local.share_start()
    return local
