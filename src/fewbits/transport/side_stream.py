"""The stream beside the program's own on which exchanges of device tensors run.

All lines of fewbits that need CUDA, or ROCm under that name, are here, beside the kernels. None of
them has been run: there was no device to run them on.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor

from fewbits.errors import PeerError

_POLL = 0.0002  # seconds


class SideStream:
    """A stream of one device; the host never waits for it in a good step."""

    def __init__(self, device: str, timeout: float) -> None:
        self._device, self._timeout = torch.device(device), timeout
        self._stream: Any = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]

    @contextmanager
    def beside(self, ready: Any = None) -> Iterator[None]:
        """Queue what the block does here, after the event `ready`."""
        with torch.cuda.stream(self._stream):
            if ready is not None:
                self._stream.wait_event(ready)
            yield

    def abandon(self, group: Any) -> None:
        """End all that waits for other ranks in a group on this device."""
        with suppress(Exception):  # what has ended already need not be
            group._get_backend(self._device).abort()

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Let this stream wait for the program's before the block, and the other way after it."""
        own = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(own)
        try:
            yield
        finally:
            own.wait_stream(self._stream)

    def read_later(self, tensors: Sequence[Tensor]) -> "StreamReading":
        """Copies in pinned memory, and the event after them."""
        pinned = [torch.empty(own.shape, dtype=own.dtype, pin_memory=True) for own in tensors]
        for there, own in zip(pinned, tensors, strict=True):
            there.copy_(own, non_blocking=True)
        return StreamReading(pinned, event(), self._timeout)


class StreamReading:
    """Copies that are there when an event has passed; it is asked, never waited for."""

    def __init__(self, pinned: Sequence[Tensor], passed: Any, timeout: float) -> None:
        self._pinned, self._passed, self._timeout = pinned, passed, timeout

    def is_there(self) -> bool:
        return bool(self._passed.query())

    def tensors(self) -> Sequence[Tensor]:
        """The copies; asks until they are there, for so long as a rank may take to answer."""
        deadline = time.monotonic() + self._timeout
        while not self.is_there():
            if time.monotonic() > deadline:
                raise PeerError(
                    f"the exchange on the device has not ended within {self._timeout:g} s: some "
                    "rank stopped, or is far behind"
                )
            time.sleep(_POLL)
        return self._pinned


def event() -> Any:
    """An event after all that was queued on the current stream."""
    found: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
    found.record()
    return found


def pending_on(tensor: Tensor) -> "tuple[torch.futures.Future[Tensor], Any]":
    """A future of a tensor on its device, and an event after what was queued for it."""
    return torch.futures.Future(devices=[tensor.device]), event()


def refuse_group(backend: str) -> str | None:
    """Why a process group of this backend cannot carry device tensors; None if it can."""
    if backend in ("nccl", "rccl") or "cuda:nccl" in backend:
        return None
    return (
        f"the model is on a device and its process group uses {backend!r}: make it with "
        "init_process_group('cpu:gloo,cuda:nccl'), or pass staged=True to go through the host"
    )
