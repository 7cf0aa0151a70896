"""Memory for a comparison: the same bytes on the host and on a device."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits import backend
from fewbits.backend.buffers import CPU, Buffer
from fewbits.errors import DisagreementError

UNWRITTEN = 0xA5  # what memory holds before it is written
LINE = 16  # bytes that a device gives at once, at least
Lend = Callable[[Any], Any]


class DevicePlaces:
    """Buffers on a device; `lend` sees every tensor that tables will point to."""

    def __init__(self, device: str, lend: Lend = lambda tensor: tensor) -> None:
        self.device, self._lend = device, lend
        self.backend = backend.at(device)

    def filled(self, data: npt.NDArray[Any]) -> Buffer:
        """A copy of an array."""
        own = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        if self.device == CPU:
            return Buffer.of(own.copy())
        import torch

        from fewbits.backend import device

        # Made anew, so that it begins at a multiple of 64 bytes. Devices give memory in lines of 16
        # bytes and more: kernels may look at the rest of the last one, and may not change it.
        lines = max(-(-own.size // LINE), 1) * LINE
        tensor = torch.full(
            (lines,), UNWRITTEN, dtype=torch.uint8, device=device.torch_device(self.device)
        )
        tensor[: own.size].copy_(torch.from_numpy(own.copy()))
        return device.of_tensor(self._lend(tensor), self.device)[: own.size]

    def read(self, buffer: Buffer) -> npt.NDArray[np.uint8]:
        """What is there now; `DisagreementError` if something was written behind its end."""
        if buffer.device == CPU:
            return buffer.array().copy()
        import torch

        from fewbits.backend import device

        tensor = device.tensor_of(buffer)
        whole = torch.empty(0, dtype=torch.uint8, device=tensor.device)
        whole.set_(tensor.untyped_storage())
        found: npt.NDArray[np.uint8] = whole.cpu().numpy().copy()
        end = tensor.storage_offset() + buffer.size
        if (found[end:] != UNWRITTEN).any():
            raise DisagreementError(f"a kernel wrote behind the end of {buffer.size} bytes")
        return found[tensor.storage_offset() : end]
