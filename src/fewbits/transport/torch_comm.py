"""Exchange of bytes over torch.distributed with gloo: point to point, receives posted first.

gloo's own all-to-all posts sends before receives and runs at half rate on a real link; receives
first, then sends, use both directions at once. A process group of its own keeps these messages
apart from all others of the program.
"""

import contextlib
import itertools
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from fewbits.backend.buffers import Buffer
from fewbits.collectives.comm import MAIL_LANES, Incoming, Mail, Pending
from fewbits.core.vector import Vector
from fewbits.errors import PeerError
from fewbits.transport import tensors

_UNUSED_LANE = 1 << 20
_MOMENT = 1.0  # seconds


class TorchComm:
    """The ranks of a torch process group, over a gloo group of our own."""

    def __init__(self, group: dist.ProcessGroup | None = None, timeout: float = 60.0) -> None:
        self.timeout = timeout
        self._given = group
        self._group: dist.ProcessGroup | None = None
        self._members: list[int] = []
        self._rank = 0

    @property
    def rank(self) -> int:
        """The number of this rank; 0 before torch.distributed has any."""
        if self._members or not dist.is_initialized():
            return self._rank
        return dist.get_rank(self._given)

    @property
    def size(self) -> int:
        """How many ranks there are; 1 before torch.distributed has any."""
        if self._members or not dist.is_initialized():
            return len(self._members) or 1
        return dist.get_world_size(self._given)

    def open(self) -> None:
        """Make a group of our own; every rank must call this."""
        members = dist.get_process_group_ranks(self._given or dist.group.WORLD)
        self._rank, self._members = members.index(dist.get_rank()), members
        try:
            self._group = dist.new_group(
                members,
                backend="gloo",
                timeout=timedelta(seconds=self.timeout),
                # Ranks outside of the group do not come here: do not wait for them.
                use_local_synchronization=self.size < dist.get_world_size(),
            )
        except RuntimeError as error:
            why = reason(error, self.timeout)
            raise PeerError(f"not all of ranks {members} came to make a group: {why}") from error

    def expect(self, *incoming: Incoming, lane: int = 0) -> "_Pending":
        """Post receives; open the group if nobody has.

        gloo sends at once to a rank that has posted the receive. Otherwise it asks that rank.
        """
        if self._group is None:
            self.open()
        expected = _Pending(self.timeout, [], {})
        self._post(expected, dist.irecv, -1, incoming, lane)
        return expected

    def start(self, *mail: Mail, lane: int = 0, expected: object = None) -> Pending:
        """Send, after the receives have been posted."""
        if not isinstance(expected, _Pending):
            expected = self.expect(*(incoming for _, incoming in mail), lane=lane)
        self._post(expected, dist.isend, 1, [outgoing for outgoing, _ in mail], lane)
        return expected

    def start_mean(self, vector: Vector) -> Pending:
        """Begin to replace a vector by its mean over all ranks, by torch's own all-reduce."""
        values = tensors.of_vector(vector)
        values /= self.size
        try:
            work = dist.all_reduce(values, group=self._group, async_op=True)
        except RuntimeError as error:
            raise PeerError(f"lost some rank: {reason(error, self.timeout)}") from error
        return _Sum(self.timeout, work)

    def close(self) -> None:
        """Give the group back; every rank must call this.

        A group of some of the ranks only stays until the end of the process: torch would give the
        next one the same name, under which the store still has this one's addresses.
        """
        if self._group is not None and self.size == dist.get_world_size():
            dist.destroy_process_group(self._group)
        self._group = None

    def abort(self) -> None:
        """Break the connections to all ranks, from any thread: whoever waits gets an error."""
        if self._group is not None:
            break_up(self._group)

    def missing(self) -> list[int]:
        """The ranks that are gone, or do not answer now; those that live call this together."""
        time.sleep(_MOMENT / 10)  # until it is known whose connections are closed
        lost: dict[int, str] = {}
        byte = [Buffer.zeros(1) for _ in range(self.size)]
        started = [
            (rank, self._start(operation, byte[rank], rank, _UNUSED_LANE, lost))
            for operation in (dist.irecv, dist.isend)
            for rank in self._others(1)
        ]
        if not lost:
            with contextlib.suppress(PeerError):
                _Pending(_MOMENT, started, lost).wait()
        return sorted(lost)

    def _post(
        self,
        pending: "_Pending",
        operation: Any,
        direction: int,
        buffers: Sequence[Incoming],
        lane: int,
    ) -> None:
        for own, tag in zip(buffers, itertools.count(lane, MAIL_LANES), strict=False):
            for rank in self._others(direction):
                work = self._start(operation, own[rank], rank, tag, pending.lost)
                pending.started.append((rank, work))

    def _others(self, direction: int) -> list[int]:
        """The other ranks; each rank starts with another neighbour, so that none is flooded."""
        return [(self.rank + direction * step) % self.size for step in range(1, self.size)]

    def _start(
        self, operation: Any, buffer: Buffer | None, rank: int, tag: int, lost: dict[int, str]
    ) -> Any:
        """The operation under way; None if there is nothing to do or the rank is lost."""
        if buffer is None or buffer.size == 0 or rank in lost:
            return None
        try:
            peer, message = self._members[rank], torch.from_numpy(buffer.array())
            return operation(message, peer, group=self._group, tag=tag)
        except RuntimeError as error:
            lost[rank] = reason(error, self.timeout)
            return None


def break_up(group: dist.ProcessGroup) -> None:
    """Break all connections of a gloo group: what waits in it fails now.

    gloo has no call for it, but it does so if any wait is too long.
    """
    for peer in dist.get_process_group_ranks(group):
        if peer != dist.get_rank():
            with contextlib.suppress(Exception):  # what is broken already need not be
                work: Any = dist.irecv(torch.empty(1), peer, group=group, tag=_UNUSED_LANE)
                work.wait(timedelta(milliseconds=1))


class _Sum(NamedTuple):
    timeout: float
    work: Any

    def wait(self) -> None:
        try:
            self.work.wait(timedelta(seconds=self.timeout))
        except RuntimeError as error:
            raise PeerError(f"lost some rank: {reason(error, self.timeout)}") from error


class _Pending(NamedTuple):
    timeout: float
    started: list[tuple[int, Any]]  # ranks and what is under way to or from them, or None
    lost: dict[int, str]

    def wait(self) -> None:
        """Wait until all is done, or for `timeout` seconds from now.

        Once a rank is lost, the others get only a moment, because they may have failed with it.
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
    """The part of gloo's error that helps a user."""
    if _is_timeout(error):
        return f"no answer within {timeout:g} s (it stopped, or it is far behind)"
    text = str(error).splitlines()[0].partition("] ")[2].partition(". ")[0]  # no path, no advice
    return f"its connection closed (it ended or was killed): {text or error}"
