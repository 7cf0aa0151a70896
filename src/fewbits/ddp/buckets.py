"""DDP's buckets as jobs of a session."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.distributed import GradBucket  # type: ignore[attr-defined]

from fewbits.attached import described, sparse
from fewbits.session import Job, ModelParameter, SessionComm
from fewbits.transport.side_stream import pending_on
from fewbits.transport.tensors import TensorValues, add_witness, parameter_digest


class BucketNames:
    """Parameter names: the model's, or the order in which DDP first showed the parameters.

    That order is the same on every rank and for every bucket size, so it is as stable as a name.
    With `find_unused_parameters` it is not, because DDP's first buckets are then several.
    """

    def __init__(self, named: Iterable[tuple[str, Any]]) -> None:
        self._known = {parameter: described(name, parameter) for name, parameter in named}
        self.given = tuple(self._known.values())

    def __call__(self, parameter: Any) -> ModelParameter:
        known = self._known.get(parameter)
        if known is None:
            known = self._known[parameter] = described(f"#{len(self._known)}", parameter)
        return known


def job(
    bucket: GradBucket, names: BucketNames, comm: SessionComm, *, staged: bool
) -> "tuple[Job, torch.futures.Future[torch.Tensor]]":
    """The job of a bucket, and the future that will hold its tensor."""
    tensor, parameters = bucket.buffer(), bucket.parameters()
    own = [names(parameter) for parameter in parameters]
    if tensor.layout != torch.strided:  # nobody has looked at the layers, as `attach` does
        raise sparse(own[0].name)
    on_host = tensor.device.type == "cpu"
    future, ready = (torch.futures.Future(), None) if on_host else pending_on(tensor)
    made = Job(
        bucket.index(),
        TensorValues(tensor, ready, staged=staged),
        own,
        is_last=bucket.is_last(),
        # In DDP's `join` a rank without inputs sends zeros outside of any backward pass.
        # A device is not asked whether they are: the host would wait for it.
        without_inputs=torch._C._current_graph_task_id() == -1
        and not (on_host and bool(tensor.any())),
        # If no rank has reached them, DDP drops their mean: what is remembered must not be in it.
        unused=[names(each).name for each in parameters if each.grad is None],
        digest=partial(parameter_digest, tensor, parameters),
        witness=partial(add_witness, tensor, parameters),
        ended=partial(_end, future, tensor, comm),
    )
    return made, future


def _end(
    future: "torch.futures.Future[torch.Tensor]",
    tensor: Tensor,
    comm: SessionComm,
    failure: Exception | None,
) -> None:
    if failure is None:
        with comm.beside():  # whoever waits for the future waits for this stream
            future.set_result(tensor)
    else:
        future.set_exception(failure)  # type: ignore[arg-type]
