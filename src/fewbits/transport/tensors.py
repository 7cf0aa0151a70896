"""Torch's tensors as a session sees them: names, flat vectors, checksums."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fewbits.backend import crc32c
from fewbits.core import vector
from fewbits.core.vector import Vector

SAMPLE = 256  # values of a parameter that stand for it
AVERAGED = {
    torch.float16: torch.float16,
    torch.bfloat16: torch.bfloat16,
    torch.float32: torch.float32,
    torch.float64: torch.float64,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}
"""The types of parameters that are averaged, and of the real numbers that they are made of."""


class TensorValues:
    """A flat tensor. One on a GPU is copied to pinned memory when `ready`, an event, has passed."""

    def __init__(self, tensor: Tensor, ready: Any = None) -> None:
        self.tensor, self._ready = as_real(tensor).view(-1), ready
        self._host, self._is_shared = self.tensor, False

    @property
    def count(self) -> int:
        return self.tensor.numel()

    @property
    def nbytes(self) -> int:
        return self.tensor.nbytes

    @property
    def dtype(self) -> str:
        return str(self.tensor.dtype)

    def read(self, *, wide: bool) -> Vector:
        """The tensor itself on the host, or a float32 copy of 16-bit values."""
        host = self._host = self._on_host()
        narrow = host.element_size() < 4
        # Sums of 32 bits and more are written where the values are, unless the vector is a copy.
        self._is_shared = not narrow and host.is_contiguous() and not host.is_neg()
        return vector.from_array(host.float() if narrow and wide else host)[0]

    def write(self, part: slice, mean: npt.NDArray[Any]) -> None:
        if not self._is_shared:
            self._host[part].copy_(torch.from_numpy(mean))
        if self._host is not self.tensor:
            self.tensor[part].copy_(self._host[part])

    def write_back(self) -> None:
        if self._host is not self.tensor:
            self.tensor.copy_(self._host)

    def is_finite(self) -> bool:
        return is_finite(self.tensor)

    def clear(self) -> None:
        self.tensor.zero_()

    def multiply(self, factor: float) -> None:
        self.tensor.mul_(factor)

    def sample(self, count: int) -> npt.NDArray[np.float32]:
        found: npt.NDArray[np.float32] = self.tensor[:count].detach().float().cpu().numpy()
        return found

    def _on_host(self) -> Tensor:
        if not self.tensor.is_cuda:
            return self.tensor
        self._ready.synchronize()  # never run: there was no GPU to run it on
        host = torch.empty(self.tensor.shape, dtype=self.tensor.dtype, pin_memory=True)
        host.copy_(self.tensor)
        return host


def as_real(tensor: Tensor) -> Tensor:
    """The tensor itself; a complex one as pairs of real numbers on the same memory."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def real_shape(tensor: Tensor) -> tuple[int, ...]:
    """The shape as real numbers: the last dimension of a complex tensor counts twice."""
    shape = tuple(tensor.shape)
    if not tensor.is_complex():
        return shape
    return (*shape[:-1], 2 * shape[-1]) if shape else (2,)


def of_vector(values: Vector) -> Tensor:
    """A tensor on the same memory."""
    bits = values.bits.view(f"i{values.format.itemsize}")
    return torch.from_numpy(bits).view(getattr(torch, values.format.name))


def is_finite(values: Tensor) -> bool:
    """Whether all values are finite, in one pass; `isfinite().all()` takes twenty times as long.

    The least and the largest of values with a NaN are NaN.
    """
    if values.numel() == 0:
        return True
    least, largest = values.aminmax()
    return bool(least.isfinite() and largest.isfinite())


def parameter_digest(gradient: Tensor, witnesses: Sequence[Tensor]) -> int:
    """A checksum of values from the first and the last witness, the same on all ranks.

    It is 0, which claims nothing, if the gradient seems to be zero: a rank without inputs (DDP's
    `join`) does not step with the others.
    """
    stride = max(1, gradient.numel() // SAMPLE)
    if not gradient[::stride].any():
        return 0
    crc = 0
    for witness in (witnesses[0], witnesses[-1]):
        if witness.numel() == 0:
            continue
        line = witness.detach()
        while line.dim() > 1:
            line = line.select(-1, 0)
        sample = line.reshape(-1)[:: max(1, line.numel() // SAMPLE)].cpu().contiguous()
        crc = crc32c(sample.view(torch.uint8).numpy(), crc)
    return crc or 1
