"""Exchange of bytes over torch.distributed with gloo: point to point, receives posted first.

gloo's own all-to-all posts sends before receives and runs at half rate on a real link; receives
first, then sends, use both directions at once. Groups of our own keep these messages apart from
all others of the program.

There are two of them, one for each direction between two ranks. gloo holds a connection's lock
while it writes, and its thread that finds the same connection readable then asks again and again
until the lock is free, on a processor that the writer may need.
"""

import contextlib
import itertools
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from fewbits.backend.boxes import Boxes
from fewbits.backend.buffers import Buffer
from fewbits.collectives.comm import MAIL_LANES, Incoming, LaterReading, Mail, Pending
from fewbits.core.vector import Vector
from fewbits.errors import PeerError, SpecError
from fewbits.transport import tensors
from fewbits.transport.box_comm import TorchBoxes, found_inf
from fewbits.transport.losses import LastWords, Losses, PostedMail, reason
from fewbits.transport.side_stream import refuse_group

_UNUSED_LANE, _LAST_LANE = 1 << 20, 1 << 21


class TorchComm:
    """The ranks of a torch process group, over gloo groups of our own."""

    def __init__(self, group: dist.ProcessGroup | None = None, timeout: float = 60.0) -> None:
        self.timeout = timeout
        self._given = group
        self._groups: list[dist.ProcessGroup] = []  # of messages to higher and to lower ranks
        self._boxes: TorchBoxes | None = None
        self._words: LastWords | None = None
        self._members: list[int] = []
        self._rank = 0

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refuse to be pickled with a group, which belongs to this process."""
        if self._given is None and not self._groups:
            return super().__reduce_ex__(protocol)
        raise SpecError(
            "a model with compression is not pickled or copied whole: save "
            "model.module.state_dict(), and the compression by its save(folder)"
        )

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
        """Make groups of our own; every rank must call this."""
        members = dist.get_process_group_ranks(self._given or dist.group.WORLD)
        self._rank, self._members = members.index(dist.get_rank()), members
        self._groups = [self._new_group("gloo") for _ in range(2)]
        receive, send = partial(self._word, dist.irecv), partial(self._word, dist.isend)
        self._words = LastWords(self._others(1), receive, send)

    def box_backend(self, device: str) -> str:
        """The backend over which boxes of a device go; `SpecError` if the given group lacks it."""
        if not device.startswith("cuda"):
            return "gloo"
        given = str(dist.get_backend(self._given))
        if why := refuse_group(given):
            raise SpecError(why)
        return "nccl"

    def open_boxes(self, device: str) -> None:
        """Make a group for boxes of a device; every rank must call this."""
        group = self._new_group(self.box_backend(device))
        self._boxes = TorchBoxes(group, device, self.timeout, self._lost)

    def swap_boxes(self, outgoing: Boxes, incoming: Boxes) -> Pending:
        return self._opened().swap(outgoing, incoming)

    def gather_boxes(self, own: Buffer, everyone: Boxes) -> Pending:
        return self._opened().gather(own, everyone)

    def read_later(self, *buffers: Buffer) -> LaterReading:
        return self._opened().read_later(*buffers)

    def found_inf(self, verdict: Buffer, met: Buffer | None) -> object:
        return found_inf(verdict, met)

    def beside(self, ready: object = None) -> AbstractContextManager[None]:
        """Queue a block's work on the stream of boxes, if they have one."""
        return contextlib.nullcontext() if self._boxes is None else self._boxes.beside(ready)

    def joined(self) -> AbstractContextManager[None]:
        """Make that stream and the program's wait for each other, around a block."""
        return contextlib.nullcontext() if self._boxes is None else self._boxes.joined()

    def _opened(self) -> TorchBoxes:
        assert self._boxes is not None
        return self._boxes

    def _lost(self, error: RuntimeError) -> PeerError:
        """The error for a collective that failed, with the ranks that do not answer.

        First the others are woken, who may wait for this one.
        """
        self._break_up_boxes()
        return self.losses().explained(error, self.timeout)

    def _new_group(self, backend: str) -> dist.ProcessGroup:
        members = self._members
        try:
            group: dist.ProcessGroup = dist.new_group(
                members,
                backend=backend,
                timeout=timedelta(seconds=self.timeout),
                # Ranks outside of the group do not come here: do not wait for them.
                use_local_synchronization=self.size < dist.get_world_size(),
            )
        except RuntimeError as error:
            why = reason(error, self.timeout)
            raise PeerError(f"not all of ranks {members} came to make a group: {why}") from error
        return group

    def expect(self, *incoming: Incoming, lane: int = 0) -> PostedMail:
        """Post receives; open the groups if nobody has.

        gloo sends at once to a rank that has posted the receive. Otherwise it asks that rank.
        """
        if not self._groups:
            self.open()
        expected = PostedMail(self.timeout, [], {})
        self._post(expected, dist.irecv, -1, incoming, lane)
        return expected

    def start(self, *mail: Mail, lane: int = 0, expected: object = None) -> Pending:
        """Send, after the receives have been posted."""
        if not isinstance(expected, PostedMail):
            expected = self.expect(*(incoming for _, incoming in mail), lane=lane)
        self._post(expected, dist.isend, 1, [outgoing for outgoing, _ in mail], lane)
        return expected

    def start_mean(self, vector: Vector) -> Pending:
        """Begin to replace a vector by its mean over all ranks, by torch's own all-reduce."""
        values = tensors.of_vector(vector)
        values *= 1 / self.size  # as DDP does, and faster than to divide
        try:
            work = dist.all_reduce(values, group=self._groups[0], async_op=True)
        except RuntimeError as error:
            raise PeerError(f"lost some rank: {reason(error, self.timeout)}") from error
        return _Sum(self.timeout, work)

    def close(self) -> None:
        """Give the groups back; every rank must call this.

        A group of some of the ranks only stays until the end of the process: torch would give the
        next one the same name, under which the store still has this one's addresses.
        """
        self._words = None
        boxes = [] if self._boxes is None else [self._boxes.group]
        for group in [*self._groups, *boxes] if self.size == dist.get_world_size() else ():
            dist.destroy_process_group(group)
        self._groups, self._boxes = [], None

    def abort(self) -> None:
        """Break the connections to all ranks, from any thread: whoever waits gets an error."""
        for group in self._groups:
            break_up(group)
        self._break_up_boxes()

    def _break_up_boxes(self) -> None:
        if self._boxes is None:
            return
        if self._boxes.side is not None:
            self._boxes.side.abandon(self._boxes.group)
        else:
            break_up(self._boxes.group)

    def losses(self) -> Losses:
        """The ranks that are gone or silent; the others hear that this one is about to leave."""
        assert self._words is not None
        self._words.say()
        return self._words.listen()

    def _post(
        self,
        pending: PostedMail,
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
            return self._message(operation, torch.from_numpy(buffer.array()), rank, tag)
        except RuntimeError as error:
            lost[rank] = reason(error, self.timeout)
            return None

    def _word(self, operation: Any, byte: torch.Tensor, rank: int) -> Any:
        return self._message(operation, byte, rank, _LAST_LANE)

    def _message(self, operation: Any, message: torch.Tensor, rank: int, tag: int) -> Any:
        upwards = (self._rank < rank) == (operation is dist.isend)
        group = self._groups[0 if upwards else 1]
        return operation(message, self._members[rank], group=group, tag=tag)


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
