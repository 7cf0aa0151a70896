"""Boxes between ranks over torch.distributed: one collective for each exchange, on bytes.

The process group is one of its own, so that these collectives keep their order whatever else the
program exchanges. Device tensors go over NCCL, CPU tensors over gloo.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from fewbits.backend.boxes import Boxes
from fewbits.backend.buffers import Buffer
from fewbits.collectives.comm import LaterReading, Pending
from fewbits.errors import PeerError
from fewbits.transport.buffers import buffer_of, tensor_of
from fewbits.transport.side_stream import SideStream, StreamReading

_GATHER = "all_gather_single"  # since torch 2.13, and before that under its old name


class TorchBoxes:
    """A group for the values of one device; `lost` names ranks that do not answer any more."""

    def __init__(
        self,
        group: dist.ProcessGroup,
        device: str,
        timeout: float,
        lost: Callable[[RuntimeError], PeerError],
    ) -> None:
        self.group, self._timeout, self._lost = group, timeout, lost
        self.side = SideStream(device, timeout) if device.startswith("cuda") else None

    def swap(self, outgoing: Boxes, incoming: Boxes) -> Pending:
        """All boxes to their ranks, and all ranks' boxes for this one."""
        return self._start(
            dist.all_to_all_single,
            tensor_of(incoming.memory),
            tensor_of(outgoing.memory),
            list(incoming.rooms),
            list(outgoing.rooms),
        )

    def gather(self, own: Buffer, everyone: Boxes) -> Pending:
        """One box to all ranks, and all ranks' boxes."""
        gather = getattr(dist, _GATHER, None) or dist.all_gather_into_tensor
        return self._start(gather, tensor_of(everyone.memory), tensor_of(own))

    def read_later(self, *buffers: Buffer) -> LaterReading:
        tensors = [tensor_of(buffer) for buffer in buffers]
        if self.side is not None:
            return _Copies(self.side.read_later(tensors))
        return _Copies(_ReadNow([tensor.clone() for tensor in tensors]))

    def beside(self, ready: object = None) -> AbstractContextManager[None]:
        return nullcontext() if self.side is None else self.side.beside(ready)

    def joined(self) -> AbstractContextManager[None]:
        return nullcontext() if self.side is None else self.side.joined()

    def _start(self, collective: Any, *arguments: Any) -> Pending:
        try:
            work = collective(*arguments, group=self.group, async_op=True)
        except RuntimeError as error:
            raise self._lost(error) from error
        return _BoxesUnderWay(self, work)

    def wait(self, work: Any) -> None:
        """Wait for a collective: the stream of a device, or else the host."""
        try:
            if self.side is not None:
                work.wait()
            else:
                work.wait(timedelta(seconds=self._timeout))
        except RuntimeError as error:
            raise self._lost(error) from error


class _BoxesUnderWay(NamedTuple):
    boxes: TorchBoxes
    work: Any

    def wait(self) -> None:
        self.boxes.wait(self.work)


class _ReadNow(NamedTuple):
    copies: list[torch.Tensor]

    def is_there(self) -> bool:
        return True

    def tensors(self) -> list[torch.Tensor]:
        return self.copies


class _Copies(NamedTuple):
    reading: StreamReading | _ReadNow

    def is_there(self) -> bool:
        return self.reading.is_there()

    def contents(self) -> list[bytes]:
        return [buffer_of(copy, "cpu").tobytes() for copy in self.reading.tensors()]


def found_inf(verdict: Buffer, met: Buffer | None) -> torch.Tensor:
    """1 where the values lie if the step is bad, else 0, as optimizers of torch take it."""
    bad = tensor_of(verdict, torch.int32).any()
    if met is not None:
        bad = bad | tensor_of(met, torch.int64)[0].ne(0)
    return bad.float().reshape(1)
