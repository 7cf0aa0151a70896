"""Tensors as memory that kernels take, and the way back; nothing is copied."""

from typing import Any

import torch
from torch import Tensor

from fewbits.backend.buffers import Buffer


def buffer_of(tensor: Tensor, device: str) -> Buffer:
    """The memory of a contiguous tensor, for the backend of a device."""
    if not tensor.is_contiguous():
        raise RuntimeError("kernels were given a tensor that is not contiguous")
    data = tensor.detach().view(-1).view(torch.uint8)
    return Buffer(data.data_ptr(), data.numel(), device, data)


def tensor_of(buffer: Buffer, dtype: torch.dtype = torch.uint8) -> Tensor:
    """The memory as a flat tensor."""
    owner: Any = buffer.owner
    if not isinstance(owner, Tensor):
        found = torch.from_numpy(buffer.array())
    elif owner.numel() == buffer.size:
        found = owner
    else:
        start = buffer.address - owner.data_ptr()
        found = owner[start : start + buffer.size]
    return found if dtype == torch.uint8 else found.view(dtype)
