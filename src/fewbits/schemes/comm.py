"""What a scheme needs of a network: point-to-point exchange of bytes among ranks.

`LocalComm` connects threads of one process, for tests and simulation; `fewbits.links` has the real
one.
"""

import queue
import time
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from fewbits.errors import PeerError

Buffer = npt.NDArray[np.uint8]
Mail = tuple[Sequence[Buffer | None], Sequence[Buffer | None]]
"""What goes to and comes from each rank: None for nothing; a rank's own place is skipped."""


LANES = 2


class Pending(Protocol):
    """Mail that is under way. Its buffers must not be touched until `wait` returns."""

    def wait(self) -> None:
        """Until all of it has arrived; `PeerError` names ranks that failed or were too late."""


class Comm(Protocol):
    """A group of `size` ranks, of which this is `rank`."""

    @property
    def rank(self) -> int:
        """The number of this rank."""

    @property
    def size(self) -> int:
        """How many ranks there are."""

    def start(self, *mail: Mail, lane: int = 0) -> Pending:
        """Begin to send every mail's buffers and to fill those that come in, all at once.

        Both sides must agree on the lengths, and on the order of what goes through a lane; lanes
        are independent of each other.
        """


def exchange(comm: Comm, *mail: Mail) -> None:
    """Send, receive and wait."""
    comm.start(*mail).wait()


Mailbox = list["queue.SimpleQueue[bytes]"]
"""What one thread has sent another, in each lane."""


class LocalComm:
    """Ranks as threads of this process."""

    def __init__(self, rank: int, mailboxes: list[list[Mailbox]], timeout: float) -> None:
        self.rank = rank
        self.size = len(mailboxes)
        self.timeout = timeout
        self._mailboxes = mailboxes  # [receiver][sender]

    @classmethod
    def group(cls, size: int, timeout: float = 60.0) -> "list[LocalComm]":
        """All ranks of a new group."""
        mailboxes = [
            [[queue.SimpleQueue[bytes]() for _ in range(LANES)] for _ in range(size)]
            for _ in range(size)
        ]
        return [cls(rank, mailboxes, timeout) for rank in range(size)]

    def start(self, *mail: Mail, lane: int = 0) -> Pending:
        """Send to the other threads; what they send is looked for when it is waited for."""
        for outgoing, _ in mail:
            for receiver, data in enumerate(outgoing):
                if data is not None and receiver != self.rank:
                    self._mailboxes[receiver][self.rank][lane].put(data.tobytes())
        return _LocalPending(self, [incoming for _, incoming in mail], lane)

    def receive(self, sender: int, buffer: Buffer, lane: int, deadline: float) -> None:
        """Fill the buffer with the next message; `queue.Empty` after the deadline."""
        wait = max(deadline - time.monotonic(), 0)
        received = self._mailboxes[self.rank][sender][lane].get(timeout=wait)
        if len(received) != buffer.size:
            raise PeerError(f"rank {sender} sent {len(received)} bytes, not {buffer.size}")
        buffer[:] = np.frombuffer(received, np.uint8)


class _LocalPending(NamedTuple):
    comm: LocalComm
    expected: list[Sequence[Buffer | None]]
    lane: int

    def wait(self) -> None:
        """Receive from the other threads."""
        comm, missing = self.comm, list[int]()
        deadline = time.monotonic() + comm.timeout
        for incoming in self.expected:
            for sender, buffer in enumerate(incoming):
                if buffer is None or sender in (comm.rank, *missing):
                    continue
                try:
                    comm.receive(sender, buffer, self.lane, deadline)
                except queue.Empty:
                    missing.append(sender)
        if missing:
            raise PeerError(f"no answer from ranks {missing} within {comm.timeout:g} s")
