"""One batch of a model's values on its way to become a mean."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from fewbits import _native

SAMPLE = 256  # values of a parameter that stand for it


@dataclass(slots=True)
class Job:
    """Values of some parameters, one after the other: the tensor becomes the mean of all ranks'.

    `witnesses` are tensors that should be equal on all ranks; by default the parameters.
    """

    index: int
    tensor: torch.Tensor
    parameters: Sequence[Any]
    is_last: bool
    future: "torch.futures.Future[torch.Tensor] | None" = None
    ready: Any = None  # a CUDA event after which the tensor may be read
    idle: bool = False  # no gradient: this rank only accompanies the others
    unused: Sequence[Any] = ()  # parameters that the backward pass did not reach
    witnesses: Sequence[torch.Tensor] = ()
    since: float = field(default_factory=time.perf_counter)
    done: threading.Event = field(default_factory=threading.Event)


def replica(job: Job) -> int:
    """A checksum of values from the first and the last witness, the same on all ranks.

    0, which claims nothing, if the gradient seems to be zero: a rank without inputs that only
    accompanies the others (DDP's `join`) does not step with them.
    """
    stride = max(1, job.tensor.numel() // SAMPLE)
    if not job.tensor[::stride].any():
        return 0
    crc = 0
    witnesses = job.witnesses or job.parameters
    for witness in (witnesses[0], witnesses[-1]):
        if witness.numel() == 0:
            continue
        line = witness.detach()
        while line.dim() > 1:
            line = line.select(-1, 0)
        sample = line.reshape(-1)[:: max(1, line.numel() // SAMPLE)].cpu().contiguous()
        crc = _native.crc32c(sample.view(torch.uint8).numpy(), crc)
    return crc or 1


def is_finite(values: torch.Tensor) -> bool:
    """Whether all values are: one pass over them, where `isfinite().all()` takes twenty times that.

    NaN is the least and the largest of whatever it is among.
    """
    if values.numel() == 0:
        return True
    least, largest = values.aminmax()
    return bool(least.isfinite() and largest.isfinite())


def to_host(job: Job) -> torch.Tensor:
    """The tensor itself, or a copy of a CUDA tensor in pinned memory."""
    if not job.tensor.is_cuda:
        return job.tensor
    job.ready.synchronize()  # never run: there was no GPU to run it on
    host = torch.empty(job.tensor.shape, dtype=job.tensor.dtype, pin_memory=True)
    host.copy_(job.tensor)
    return host
