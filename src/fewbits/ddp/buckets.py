"""DDP's buckets as work for the pipeline."""

import torch
from torch.distributed import GradBucket  # type: ignore[attr-defined]

from fewbits import _native
from fewbits.ddp.pipeline import Job

SAMPLE = 256  # values of a parameter that stand for it


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


def replica(job: Job) -> int:
    """A checksum of values from the bucket's first and last parameter, the same on all ranks.

    0, which claims nothing, if the gradient seems to be zero: a rank without inputs that only
    accompanies the others (DDP's `join`) does not step with them.
    """
    stride = max(1, job.tensor.numel() // SAMPLE)
    if not job.tensor[::stride].any():
        return 0
    crc = 0
    for parameter in (job.parameters[0], job.parameters[-1]):
        if parameter.numel() == 0:
            continue
        line = parameter.detach()
        while line.dim() > 1:
            line = line.select(-1, 0)
        sample = line.reshape(-1)[:: max(1, line.numel() // SAMPLE)].cpu().contiguous()
        crc = _native.crc32c(sample.view(torch.uint8).numpy(), crc)
    return crc or 1


def to_host(job: Job) -> torch.Tensor:
    """The tensor itself, or a copy of a CUDA tensor in pinned memory."""
    if not job.tensor.is_cuda:
        return job.tensor
    job.ready.synchronize()  # never run: there was no GPU to run it on
    host = torch.empty(job.tensor.shape, dtype=job.tensor.dtype, pin_memory=True)
    host.copy_(job.tensor)
    return host
