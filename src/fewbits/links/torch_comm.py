"""Exchange of bytes over torch.distributed with gloo: point to point, receives posted first.

gloo's own all-to-all posts sends before receives and runs at half rate on a real link; receives
first, then sends, use both directions at once. A process group of its own keeps these messages
apart from whatever else the program sends.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from fewbits.errors import PeerError
from fewbits.schemes.comm import Buffer


class TorchComm:
    """The ranks of a torch process group, over a gloo group of our own."""

    def __init__(self, group: dist.ProcessGroup | None = None, timeout: float = 60.0) -> None:
        members = dist.get_process_group_ranks(group or dist.group.WORLD)
        self.timeout = timeout
        self._members = members
        self._group = dist.new_group(members, backend="gloo", timeout=timedelta(seconds=timeout))
        self.rank = members.index(dist.get_rank())
        self.size = len(members)

    def exchange(
        self, outgoing: Sequence[Buffer | None], incoming: Sequence[Buffer | None]
    ) -> None:
        """Receives first, then sends; waits for all of them."""
        receives = [(r, self._start(dist.irecv, incoming[r], r)) for r in self._others(-1)]
        sends = [(r, self._start(dist.isend, outgoing[r], r)) for r in self._others(1)]
        lost: dict[int, str] = {}
        for rank, work in receives + sends:
            if work is None or rank in lost:
                continue
            try:
                # Once a rank is lost the others get a moment: they may have failed with it.
                work.wait(timedelta(seconds=self.timeout if not lost else 0.05))
            except RuntimeError as error:
                lost[rank] = _reason(error, self.timeout)
        if lost:
            first = next(iter(lost.values()))
            raise PeerError(f"lost rank{'s' if len(lost) > 1 else ''} {sorted(lost)}: {first}")

    def close(self) -> None:
        """Give the group back; every rank must call this."""
        dist.destroy_process_group(self._group)

    def _others(self, direction: int) -> list[int]:
        """The other ranks, each rank starting with another neighbour, so that no one is flooded."""
        return [(self.rank + direction * step) % self.size for step in range(1, self.size)]

    def _start(self, operation: Any, buffer: Buffer | None, rank: int) -> Any:
        if buffer is None or buffer.size == 0:
            return None
        try:
            return operation(torch.from_numpy(buffer), self._members[rank], group=self._group)
        except RuntimeError as error:
            raise PeerError(f"lost rank [{rank}]: {_reason(error, self.timeout)}") from error


def _reason(error: RuntimeError, timeout: float) -> str:
    text = str(error).splitlines()[0]
    if "imed out" in text or "imeout" in text:
        return f"no answer within {timeout:g} s (it stopped, or it is far behind)"
    return f"its connection closed (it ended or was killed): {text[-120:]}"
