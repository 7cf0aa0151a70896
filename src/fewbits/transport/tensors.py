"""Torch's tensors as a session sees them: names, flat vectors, checksums."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fewbits import backend
from fewbits.backend import crc32c
from fewbits.backend.boxes import Count
from fewbits.backend.buffers import Buffer
from fewbits.core import vector
from fewbits.core.vector import Vector
from fewbits.errors import SpecError
from fewbits.reference.formats import BY_NAME, Format
from fewbits.transport.buffers import buffer_of, tensor_of

SAMPLE = 256  # values of a parameter that stand for it
_SPREAD = 0x1E3779B97F4A7C15  # makes the factors of a digest's bytes unlike each other
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
    """A flat tensor, whose values are there when `ready`, an event of a device, has passed.

    `read` and `write` are the host's; with `staged` they copy, else the tensor must be there.
    `lend` and `take` leave it where it is.
    """

    def __init__(self, tensor: Tensor, ready: Any = None, *, staged: bool = False) -> None:
        self.tensor, self.ready, self._is_staged = as_real(tensor).view(-1), ready, staged
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

    def lend(self, device: str, *, wide: bool) -> tuple[Buffer, Format]:
        """The tensor's own memory, or a float32 copy of 16-bit values."""
        own = self.tensor.detach()
        narrow = own.element_size() < 4
        lent = own.float() if narrow and wide else own.contiguous()
        return buffer_of(lent, device), _format(lent)

    def lend_columns(
        self, device: str, columns: slice, rows: int, *, wide: bool
    ) -> tuple[Buffer, Format]:
        """The same of some columns of a vector that has so many rows."""
        part = self.tensor.detach().view(rows, -1)[:, columns].reshape(-1)
        return TensorValues(part).lend(device, wide=wide)

    def take(self, part: slice, mean: Buffer, format: Format) -> None:
        """Write the mean of some values, unless it lies there already."""
        there, own = tensor_of(mean, getattr(torch, format.name)), self.tensor.detach()[part]
        if there.data_ptr() != own.data_ptr():
            own.copy_(there[: own.numel()])

    def note_nonfinite(self, counts: Buffer) -> None:
        """Add to a line of `boxes.Count` how many values are not finite."""
        found = tensor_of(counts, torch.int64)[int(Count.NONFINITE)]
        found.add_(self.tensor.numel() - self.tensor.detach().isfinite().sum())

    def clear_if(self, device: str, verdict: Buffer, met: Buffer | None) -> None:
        """Replace all values by zero unless the step has ended well."""
        own = buffer_of(self.tensor, device)
        backend.of(own).clear_if(own, verdict, met)

    def is_finite(self) -> bool:
        return is_finite(self.tensor)

    def clear(self) -> None:
        self.tensor.zero_()

    def multiply(self, factor: float) -> None:
        self.tensor.mul_(factor)

    def sample(self, count: int, start: int = 0) -> npt.NDArray[np.float32]:
        part = self.tensor[start : start + count].detach()
        found: npt.NDArray[np.float32] = part.to("cpu", torch.float32, copy=True).numpy()
        return found

    def _on_host(self) -> Tensor:
        on_device = self.tensor.device.type != "cpu"
        if not self._is_staged and not on_device:
            return self.tensor
        if not self._is_staged:
            raise SpecError(
                f"gradients on {self.tensor.device} came to an exchange of the host: pass "
                f"device={str(self.tensor.device)!r}, or staged=True to go through the host"
            )
        if self.ready is not None:
            self.ready.synchronize()  # never run: there was no GPU to run it on
        host = torch.empty(self.tensor.shape, dtype=self.tensor.dtype, pin_memory=on_device)
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


def _format(values: Tensor) -> Format:
    return BY_NAME[str(values.dtype).removeprefix("torch.")]


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
    for sample in _samples(witnesses):
        crc = crc32c(sample.cpu().contiguous().view(torch.uint8).numpy(), crc)
    return crc or 1


def add_witness(gradient: Tensor, witnesses: Sequence[Tensor], into: Buffer) -> None:
    """`parameter_digest` for streams: add 64 bits of such values and 1 to two int64 there.

    Nothing is added if the gradient seems to be zero. Whole numbers give the same sums anywhere.
    """
    stride = max(1, gradient.numel() // SAMPLE)
    speaks, total = gradient.detach()[::stride].any(), gradient.new_zeros((), dtype=torch.int64)
    for number, sample in enumerate(_samples(witnesses)):
        bits = sample.contiguous().view(torch.uint8).long() + 1
        places = torch.arange(bits.numel(), device=bits.device) + (number << 32)
        total = total + (bits * (places * _SPREAD | 1)).sum()
    told = torch.stack((total, torch.ones_like(total)))
    tensor_of(into, torch.int64).add_(told * speaks)


def _samples(witnesses: Sequence[Tensor]) -> Iterator[Tensor]:
    """Some values of the first and of the last witness."""
    for witness in (witnesses[0], witnesses[-1]):
        if witness.numel() == 0:
            continue
        line = witness.detach()
        while line.dim() > 1:
            line = line.select(-1, 0)
        yield line.reshape(-1)[:: max(1, line.numel() // SAMPLE)]
