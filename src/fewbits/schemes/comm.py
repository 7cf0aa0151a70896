"""What a scheme needs of a network: point-to-point exchange of bytes among ranks.

`LocalComm` connects threads of one process, for tests and simulation; `fewbits.links` has the real
one.
"""

import queue
import time
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fewbits.errors import PeerError

Buffer = npt.NDArray[np.uint8]
Mail = tuple[Sequence[Buffer | None], Sequence[Buffer | None]]
"""What goes to and comes from each rank: None for nothing; a rank's own place is skipped."""


class Comm(Protocol):
    """A group of `size` ranks, of which this is `rank`."""

    @property
    def rank(self) -> int:
        """The number of this rank."""

    @property
    def size(self) -> int:
        """How many ranks there are."""

    def exchange(self, *mail: Mail) -> None:
        """Send every mail's buffers and fill those that come in; all mail travels together.

        Both sides must agree on the lengths. `PeerError` names the ranks that failed or did not
        answer in time.
        """


class LocalComm:
    """Ranks as threads of this process."""

    def __init__(
        self, rank: int, mailboxes: "list[list[queue.SimpleQueue[bytes]]]", timeout: float
    ) -> None:
        self.rank = rank
        self.size = len(mailboxes)
        self.timeout = timeout
        self._mailboxes = mailboxes  # [receiver][sender]

    @classmethod
    def group(cls, size: int, timeout: float = 60.0) -> "list[LocalComm]":
        """All ranks of a new group."""
        mailboxes = [[queue.SimpleQueue[bytes]() for _ in range(size)] for _ in range(size)]
        return [cls(rank, mailboxes, timeout) for rank in range(size)]

    def exchange(self, *mail: Mail) -> None:
        """Send to and receive from the other threads."""
        for outgoing, _ in mail:
            for receiver, data in enumerate(outgoing):
                if data is not None and receiver != self.rank:
                    self._mailboxes[receiver][self.rank].put(data.tobytes())
        missing: list[int] = []
        deadline = time.monotonic() + self.timeout
        for _, incoming in mail:
            for sender, buffer in enumerate(incoming):
                if buffer is None or sender in (self.rank, *missing):
                    continue
                try:
                    self._receive(sender, buffer, deadline)
                except queue.Empty:
                    missing.append(sender)
        if missing:
            raise PeerError(f"no answer from ranks {missing} within {self.timeout:g} s")

    def _receive(self, sender: int, buffer: Buffer, deadline: float) -> None:
        wait = max(deadline - time.monotonic(), 0)
        received = self._mailboxes[self.rank][sender].get(timeout=wait)
        if len(received) != buffer.size:
            raise PeerError(f"rank {sender} sent {len(received)} bytes, not {buffer.size}")
        buffer[:] = np.frombuffer(received, np.uint8)
