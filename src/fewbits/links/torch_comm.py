"""Exchange of bytes over torch.distributed with gloo: point to point, receives posted first.

gloo's own all-to-all posts sends before receives and runs at half rate on a real link; receives
first, then sends, use both directions at once. A process group of its own keeps these messages
apart from whatever else the program sends.
"""

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist

from fewbits.errors import PeerError
from fewbits.schemes.comm import LANES, Buffer, Mail, Pending


class TorchComm:
    """The ranks of a torch process group, over a gloo group of our own."""

    def __init__(self, group: dist.ProcessGroup | None = None, timeout: float = 60.0) -> None:
        members = dist.get_process_group_ranks(group or dist.group.WORLD)
        self.timeout = timeout
        self.rank = members.index(dist.get_rank())
        self.size = len(members)
        self._members = members
        try:
            self._group = dist.new_group(
                members,
                backend="gloo",
                timeout=timedelta(seconds=timeout),
                # Ranks outside of the group do not come here: do not wait for them.
                use_local_synchronization=self.size < dist.get_world_size(),
            )
        except RuntimeError as error:
            text = f"not all of ranks {members} came to make a group: {reason(error, timeout)}"
            raise PeerError(text) from error

    def start(self, *mail: Mail, lane: int = 0) -> Pending:
        """Receives first, then sends."""
        lost: dict[int, str] = {}
        started = [
            (rank, self._start(operation, mail[number][way][rank], rank, tag, lost))
            for operation, way, direction in ((dist.irecv, 1, -1), (dist.isend, 0, 1))
            for number, tag in enumerate(range(lane, LANES * len(mail), LANES))
            for rank in self._others(direction)
        ]
        return _Pending(self.timeout, started, lost)

    def start_sum(self, tensor: torch.Tensor) -> Pending:
        """Begin to replace a tensor by its sum over all ranks, by torch's own all-reduce."""
        try:
            work = dist.all_reduce(tensor, group=self._group, async_op=True)
        except RuntimeError as error:
            raise PeerError(f"lost some rank: {reason(error, self.timeout)}") from error
        return _Sum(self.timeout, work)

    def largest(self, numbers: Sequence[float]) -> list[float]:
        """The largest of all ranks' numbers, each; the same on all ranks."""
        own = np.array(numbers, np.float64)
        received = [np.empty_like(own) for _ in range(self.size)]
        mail = [own.view(np.uint8)] * self.size, [one.view(np.uint8) for one in received]
        self.start(mail).wait()
        received[self.rank] = own
        return [float(number) for number in np.max(received, axis=0)]

    def close(self) -> None:
        """Give the group back; every rank must call this.

        A group of some of the ranks only stays until the end of the process: torch would give the
        next one the same name, under which the store still has this one's addresses.
        """
        if self.size == dist.get_world_size():
            dist.destroy_process_group(self._group)

    def _others(self, direction: int) -> list[int]:
        """The other ranks, each rank starting with another neighbour, so that no one is flooded."""
        return [(self.rank + direction * step) % self.size for step in range(1, self.size)]

    def _start(
        self, operation: Any, buffer: Buffer | None, rank: int, tag: int, lost: dict[int, str]
    ) -> Any:
        """The operation under way; None if there is nothing to do or the rank is lost."""
        if buffer is None or buffer.size == 0 or rank in lost:
            return None
        try:
            peer, message = self._members[rank], torch.from_numpy(buffer)
            return operation(message, peer, group=self._group, tag=tag)
        except RuntimeError as error:
            lost[rank] = reason(error, self.timeout)
            return None


class _Sum(NamedTuple):
    timeout: float
    work: Any

    def wait(self) -> None:
        """Until the sum is there."""
        try:
            self.work.wait(timedelta(seconds=self.timeout))
        except RuntimeError as error:
            raise PeerError(f"lost some rank: {reason(error, self.timeout)}") from error


class _Pending(NamedTuple):
    timeout: float
    started: list[tuple[int, Any]]  # ranks and what is under way to or from them, or None
    lost: dict[int, str]

    def wait(self) -> None:
        """Until all is done, or for `timeout` seconds from now on: mail before this one took some.

        Once a rank is lost the others get a moment only: they may have failed with it.
        """
        deadline = time.monotonic() + self.timeout
        late: set[int] = set()
        for rank, work in self.started:
            if work is None or rank in self.lost:
                continue
            hurried = bool(self.lost)
            patience = 0.05 if hurried else max(deadline - time.monotonic(), 0.05)
            try:
                work.wait(timedelta(seconds=patience))
            except RuntimeError as error:
                # Not by the clock alone: gloo may give up a moment before the deadline.
                if hurried and _is_timeout(error) and time.monotonic() < deadline:
                    late.add(rank)
                else:
                    self.lost[rank] = reason(error, self.timeout)
        if self.lost:
            reasons = [f"rank {rank}: {self.lost[rank]}" for rank in sorted(self.lost)]
            waiting = sorted(late - set(self.lost))
            reasons += [f"no answer yet from ranks {waiting}"] if waiting else []
            raise PeerError(f"lost {'; '.join(reasons)}")


def _is_timeout(error: RuntimeError) -> bool:
    return "imed out" in str(error) or "imeout" in str(error)


def reason(error: RuntimeError, timeout: float) -> str:
    """What a person needs to know of gloo's error."""
    if _is_timeout(error):
        return f"no answer within {timeout:g} s (it stopped, or it is far behind)"
    text = str(error).splitlines()[0].partition("] ")[2].partition(". ")[0]  # no path, no advice
    return f"its connection closed (it ended or was killed): {text or error}"
