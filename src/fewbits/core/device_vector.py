"""Vectors on a device: their sections are made and read there, and cross over in one copy."""

from itertools import accumulate
from typing import Any

import numpy as np

from fewbits import backend
from fewbits.backend.boxes import BOX_ALIGNMENT, COUNTS_SIZE, Count, aligned
from fewbits.backend.buffers import Buffer, devices
from fewbits.backend.kernel import Kernel, Row, Written
from fewbits.backend.table import Table
from fewbits.core import vector
from fewbits.core.operator import Operator, Parts
from fewbits.errors import EncodeError, SpecError
from fewbits.reference.formats import BY_NAME
from fewbits.reference.tally import Tally


def device_of(x: object) -> str | None:
    """The device on which a tensor's kernels run; None for the host's vectors, and all others."""
    if not vector.is_tensor(x):
        return None
    tensor: Any = x
    return str(tensor.device) if tensor.device.type == "cuda" else None


class DeviceVector:
    """The values of a tensor on a device."""

    def __init__(self, tensor: Any, device: str, *, role: str = "x") -> None:
        name = str(tensor.dtype).removeprefix("torch.")
        if name not in BY_NAME:
            raise EncodeError(f"{role} has dtype {name}: convert to one of {', '.join(BY_NAME)}")
        if tensor.layout != vector.torch_module().strided:
            raise EncodeError(f"the tensor's layout is {tensor.layout}: call .to_dense() first")
        self.device, self.format, self.shape = device, BY_NAME[name], tuple(tensor.shape)
        self.tensor, self.count = tensor.detach().resolve_neg().resolve_conj(), tensor.numel()

    @classmethod
    def output(cls, tensor: Any, device: str) -> "DeviceVector":
        """A tensor to be written, which must be plain memory."""
        try:
            own = cls(tensor, device, role="out")
        except EncodeError as error:
            raise SpecError(f"out does not fit: {error}") from error
        if not tensor.is_contiguous() or tensor.is_neg() or tensor.is_conj():
            raise SpecError("out must be contiguous and writable, not a lazy view")
        return own

    @property
    def values(self) -> Buffer:
        """The device's memory, a copy if the tensor is not contiguous."""
        buffer: Buffer = devices(self.device).of_tensor(self.tensor.contiguous(), self.device)
        return buffer

    def encode(self, operator: Operator, key: bytes, into: Parts) -> Written:
        """Make the sections on the device, and copy them with what was met to `into`."""
        kernel = self.check(operator)
        sizes = tuple(part.size for part in into)
        memory, sections = _laid(sizes, self.device)
        counts = memory[:COUNTS_SIZE]
        if self.count:
            row = Row(kernel, self.format, self.values, sections, key)
            backend.at(self.device).run("encode", Table.of_row("encode", row), counts=counts)
        content = np.frombuffer(memory.tobytes(), np.uint8)
        for part, start in zip(into, _starts(sizes), strict=False):
            part[:] = content[start : start + part.size]
        met = content[:COUNTS_SIZE].view(np.int64)
        return Written(Tally(int(met[Count.SATURATED]), int(met[Count.NONFINITE])), sizes)

    def check(self, operator: Operator) -> Kernel:
        """The operator's kernel; `SpecError` if a device has none."""
        kernel = operator.kernel(self.count, self.format)
        reason = devices(self.device).refusal(kernel, self.format, "call .cpu() first")
        if reason is not None:
            raise SpecError(f"{operator} on {self.device}: {reason}")
        return kernel

    def decode(self, operator: Operator, parts: Parts) -> Tally:
        """Copy the sections over, and read them on the device."""
        kernel = self.check(operator)
        if not self.count:
            return Tally()
        sizes = tuple(part.size for part in parts)
        content = np.zeros(COUNTS_SIZE + sum(map(aligned, sizes)), np.uint8)
        for part, start in zip(parts, _starts(sizes), strict=False):
            content[start : start + part.size] = part
        memory: Buffer = devices(self.device).uploaded(content, self.device)
        row = Row(kernel, self.format, self.values, _sections(memory, sizes))
        return backend.at(self.device).run_row("decode", row).tally


def _starts(sizes: tuple[int, ...]) -> list[int]:
    """Where sections begin, behind the counts."""
    assert COUNTS_SIZE % BOX_ALIGNMENT == 0
    return list(accumulate(map(aligned, sizes), initial=COUNTS_SIZE))


def _laid(sizes: tuple[int, ...], device: str) -> tuple[Buffer, tuple[Buffer, ...]]:
    memory = Buffer.zeros(_starts(sizes)[-1], device)
    return memory, _sections(memory, sizes)


def _sections(memory: Buffer, sizes: tuple[int, ...]) -> tuple[Buffer, ...]:
    return tuple(
        memory[start : start + size] for start, size in zip(_starts(sizes), sizes, strict=False)
    )
