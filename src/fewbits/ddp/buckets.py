"""DDP's buckets as work for the exchange."""

import torch
from torch.distributed import GradBucket  # type: ignore[attr-defined]

from fewbits.exchange.jobs import Job


def job(bucket: GradBucket) -> Job:
    """The work that a bucket is."""
    tensor = bucket.buffer()
    future: torch.futures.Future[torch.Tensor]
    ready = None
    if tensor.is_cuda:  # never run: there was no GPU to run it on
        future = torch.futures.Future(devices=[tensor.device])
        ready = torch.cuda.Event()  # type: ignore[no-untyped-call]
        ready.record()
    else:
        future = torch.futures.Future()
    # Of a rank without inputs, in DDP's `join`: it sends zeros outside of any backward pass.
    idle = torch._C._current_graph_task_id() == -1 and not tensor.any()
    parameters = bucket.parameters()
    # If no rank has reached them, DDP drops their mean: what is remembered must not be in it.
    unused = [parameter for parameter in parameters if parameter.grad is None]
    return Job(bucket.index(), tensor, parameters, bucket.is_last(), future, ready, idle, unused)
