"""Ranks that meet through a store, in one group after the other, without torch's process groups.

Torch's own group has all ranks of a program for ever. Here a process may be lost, and others go on
in a group without it.
"""

import contextlib
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, ProcessGroupGloo

from fewbits.collectives.comm import Pending
from fewbits.core.vector import Vector
from fewbits.errors import PeerError, SpecError
from fewbits.transport.losses import LastWords, reason
from fewbits.transport.torch_comm import TorchComm

_UNUSED_LANE = 1 << 20


class StoreComm(TorchComm):
    """Ranks over gloo; `meet` says who comes next, and `open` connects to them."""

    def __init__(self, store: Any, timeout: float) -> None:
        super().__init__(timeout=timeout)
        self._store, self._prefix = store, ""

    def meet(self, prefix: str, rank: int, size: int) -> None:
        """Say where to meet next; nobody has met at `prefix` before."""
        self._prefix, self._rank, self._members = prefix, rank, list(range(size))
        self._groups, self._words = [], None

    @property
    def rank(self) -> int:
        return self._rank

    @property
    def size(self) -> int:
        return len(self._members) or 1

    def open(self) -> None:
        """Connect to the others, once; `PeerError` if not all of them come in time."""
        if self.size == 1 or self._groups:
            return
        try:
            self._groups = [self._new_group(str(number)) for number in range(2)]
        except RuntimeError as error:
            why = reason(error, self.timeout)
            raise PeerError(f"not all of {self.size} members came to meet: {why}") from error
        self._words = LastWords(self._others(1), self._receive_word, self._send_word)

    def _new_group(self, name: str) -> Any:
        place, limit = PrefixStore(f"{self._prefix}/{name}", self._store), self.timeout
        return ProcessGroupGloo(place, self._rank, self.size, timedelta(seconds=limit))

    def box_backend(self, device: str) -> str:
        if device.startswith("cuda"):
            raise SpecError("members that come and go meet over gloo: pass staged=True")
        return "gloo"

    def open_boxes(self, device: str) -> None:
        raise SpecError(f"members that come and go exchange through the host, not on {device}")

    def start_mean(self, vector: Vector) -> Pending:
        raise SpecError("members that come and go have no plain mean: name an operator")

    def close(self) -> None:
        """Leave the group; the connections go with it."""
        self._groups, self._words = [], None

    def abort(self) -> None:
        for group in self._groups:
            for peer in self._others(1):
                with contextlib.suppress(Exception):  # what is broken already need not be
                    work: Any = group.recv([torch.empty(1)], peer, _UNUSED_LANE)
                    work.wait(timedelta(milliseconds=1))

    def _send_word(self, byte: torch.Tensor, rank: int) -> Any:
        return self._word(dist.isend, byte, rank)

    def _receive_word(self, byte: torch.Tensor, rank: int) -> Any:
        return self._word(dist.irecv, byte, rank)

    def _message(self, operation: Any, message: torch.Tensor, rank: int, tag: int) -> Any:
        sends = operation is dist.isend
        group: Any = self._groups[0 if (self._rank < rank) == sends else 1]
        return (group.send if sends else group.recv)([message], rank, tag)
