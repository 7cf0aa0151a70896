"""Memory that kernels read and write, wherever it lies."""

from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits.backend import library
from fewbits.backend.memory import array_at
from fewbits.errors import MissingExtraError, SpecError

_Array = npt.NDArray[Any]
CPU = "cpu"
_BYTE = np.dtype(np.uint8)


class Buffer:
    """`size` bytes from `address` on, in the memory of `device`; keeps their owner alive.

    Slices are buffers too. NumPy arrays become one by `of`, and `array` is the way back. The owner
    of a device's memory is a torch tensor of exactly these bytes.
    """

    __slots__ = ("_address", "device", "owner", "size")

    def __init__(
        self, address: int | None, size: int, device: str = CPU, owner: object = None
    ) -> None:
        self._address, self.size, self.device, self.owner = address, size, device, owner

    @classmethod
    def of(cls, array: _Array) -> "Buffer":
        """The memory of a contiguous NumPy array."""
        if not array.flags.c_contiguous:
            raise RuntimeError("kernels were given memory that is not contiguous")
        return cls(None, array.nbytes, CPU, array)

    @classmethod
    def zeros(cls, size: int, device: str = CPU) -> "Buffer":
        """New memory."""
        if device != CPU:
            found: Buffer = devices(device).zeros(size, device)
            return found
        return cls.of(np.zeros(size, np.uint8))

    @property
    def address(self) -> int:
        """The address of the memory; an array is asked when it is first needed."""
        if self._address is None:
            owner: Any = self.owner
            on_host = isinstance(owner, np.ndarray)
            self._address = library.address(owner) if on_host else int(owner.data_ptr())
        return self._address

    def array(self, dtype: npt.DTypeLike = _BYTE) -> _Array:
        """The memory as a flat NumPy array, wherever it starts; the host's only."""
        owner = self.owner
        if isinstance(owner, np.ndarray) and owner.nbytes == self.size:
            if owner.dtype == dtype and owner.ndim == 1:
                return owner
            return owner.reshape(-1).view(dtype)
        if self.device != CPU:
            raise RuntimeError(f"memory on {self.device!r} was asked for as an array of the host")
        return array_at(self.address, self.size).view(dtype)

    def as_bytes(self) -> "Buffer":
        """The same memory, with an owner that need not be looked at as bytes for every slice."""
        owner = self.array() if isinstance(self.owner, np.ndarray) else self.owner
        return Buffer(self.address, self.size, self.device, owner)

    def tobytes(self) -> bytes:
        """A copy on the host, for which it waits if the memory is a device's."""
        if self.device == CPU:
            return self.array().tobytes()
        owner: Any = self.owner
        return bytes(owner.cpu().numpy())

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, part: slice) -> "Buffer":
        start, stop, _ = part.indices(self.size)
        size, owner = max(stop - start, 0), self.owner
        if self.device != CPU or (isinstance(owner, np.ndarray) and owner.nbytes == self.size):
            whole: Any = owner if self.device != CPU else self.array()
            owner = whole[start : start + size]
        at = None if self._address is None else self._address + start
        return Buffer(at, size, self.device, owner)


def devices(device: str) -> Any:
    """The backend of devices, imported with torch and Triton only now that one is asked for.

    Devices are called as torch calls them. `interpreted` are CPU tensors whose kernels Triton's
    interpreter runs.
    """
    if device.partition(":")[0] not in ("cuda", "interpreted"):
        raise SpecError(
            f"fewbits has no backend for memory on {device!r}, only for {CPU!r}, 'cuda' and "
            "'interpreted'"
        )
    try:
        from fewbits.backend import device as backend
    except ModuleNotFoundError as error:
        if error.name != "triton":
            raise
        raise without_triton(f"memory on {device!r}") from None
    return backend


def without_triton(who: str) -> MissingExtraError:
    """The error of whoever needs Triton; no extra of fewbits can name the one that fits."""
    return MissingExtraError(
        f"{who} needs triton, which torch's builds for devices bring: install one of them, or "
        "'pip install --no-deps triton' beside another build, for Triton's interpreter"
    )
