"""Buffers of a device: torch tensors of bytes."""

from typing import Any

import numpy as np
import torch

from fewbits.backend.buffers import Buffer
from fewbits.backend.device.language import INTERPRETED, check


def zeros(size: int, device: str) -> Buffer:
    """New memory."""
    tensor = torch.zeros(size, dtype=torch.uint8, device=torch_device(device))
    return of_tensor(tensor, INTERPRETED if device == INTERPRETED else None)


def of_tensor(tensor: Any, device: str | None = None) -> Buffer:
    """The memory of a contiguous tensor; a CPU tensor's device is the interpreted one."""
    if not tensor.is_contiguous():
        raise RuntimeError("kernels were given a tensor that is not contiguous")
    name = device or (INTERPRETED if tensor.device.type == "cpu" else str(tensor.device))
    data = tensor.detach().view(-1).view(torch.uint8)
    return Buffer(None, data.numel(), name, data)


def tensor_of(buffer: Buffer, dtype: Any = torch.uint8) -> Any:
    """The memory as a flat tensor."""
    owner: Any = buffer.owner
    return owner if dtype == torch.uint8 else owner.view(dtype)


def torch_device(device: str) -> Any:
    """The device as torch names it."""
    check(device)
    return torch.device("cpu" if device == INTERPRETED else device)


def put(buffer: Buffer, content: bytes) -> None:
    """Fill a buffer from the host, without waiting for it."""
    data = upload(np.frombuffer(content, np.uint8), buffer.device)
    tensor_of(buffer).copy_(data, non_blocking=True)


def upload(array: Any, device: str) -> Any:
    """A copy of a NumPy array on the device, without waiting for it.

    It goes through pinned memory, which torch keeps until the copy is done.
    """
    tensor = torch.from_numpy(np.array(array, order="C"))
    if device == INTERPRETED:
        return tensor
    return tensor.pin_memory().to(torch_device(device), non_blocking=True)


def uploaded(array: Any, device: str) -> Buffer:
    """A copy of the host's bytes."""
    return of_tensor(upload(array, device), device)
