"""The interface of a collective to a network: point-to-point exchange of bytes among ranks.

`LocalComm` connects threads of one process, for tests and simulation; `fewbits.transport` has the
real one.
"""

import queue
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol

import numpy as np

from fewbits.backend.boxes import Boxes
from fewbits.backend.buffers import Buffer
from fewbits.core.vector import Vector
from fewbits.errors import PeerError

Incoming = Sequence[Buffer | None]
"""What comes from each rank: None for nothing; a rank's own place is skipped."""
Mail = tuple[Sequence[Buffer | None], Incoming]
"""What goes to and comes from each rank."""


MAIL_LANES = 2


class Pending(Protocol):
    """Messages under way. Their buffers must not be touched until `wait` returns."""

    def wait(self) -> None:
        """Wait until all has arrived; `PeerError` names ranks that failed or were too late."""


class Comm(Protocol):
    """A group of `size` ranks, of which this is `rank`."""

    @property
    def rank(self) -> int:
        """The number of this rank."""

    @property
    def size(self) -> int:
        """The number of ranks."""

    def expect(self, *incoming: Incoming, lane: int = 0) -> object:
        """Get ready for what the next `start` in this lane will fill, which takes the result.

        A rank that sends before this one has finished its own work need not wait for it then.
        """

    def start(self, *mail: Mail, lane: int = 0, expected: object = None) -> Pending:
        """Begin to send the outgoing buffers and to fill the incoming ones, all at once.

        Both sides must agree on the lengths, and on the order of messages in a lane. Lanes are
        independent of each other.
        """


class LaterReading(Protocol):
    """Copies of buffers on their way to the host."""

    def is_there(self) -> bool:
        """Whether they have arrived; never waits."""

    def contents(self) -> list[bytes]:
        """The copies; waits for them, and `PeerError` if they do not come in time."""


class BoxComm(Protocol):
    """Ranks that exchange boxes where they lie; a device's stream waits for them, not the host."""

    @property
    def rank(self) -> int:
        """The number of this rank."""

    @property
    def size(self) -> int:
        """The number of ranks."""

    def swap_boxes(self, outgoing: Boxes, incoming: Boxes) -> Pending:
        """Begin to send box r to rank r, and to receive from it what becomes box r here."""

    def gather_boxes(self, own: Buffer, everyone: Boxes) -> Pending:
        """Begin to send one box to all ranks; that of rank r becomes box r of `everyone`."""

    def read_later(self, *buffers: Buffer) -> LaterReading:
        """Begin to copy buffers to the host."""


def exchange(comm: Comm, *mail: Mail) -> None:
    comm.start(*mail).wait()


def largest(comm: Comm, numbers: Sequence[float]) -> list[float]:
    """The largest of all ranks' values of each number; the same on all ranks."""
    own = np.array(numbers, np.float64)
    received = [np.empty_like(own) for _ in range(comm.size)]
    mail = [Buffer.of(own)] * comm.size, [Buffer.of(one) for one in received]
    comm.start(mail).wait()
    received[comm.rank] = own
    return [float(number) for number in np.max(received, axis=0)]


Agree = Callable[[Sequence[float]], list[float]]
"""`largest` of some ranks."""


def ping(agree: Agree) -> float:
    """Seconds for a few bytes to all ranks and back, when no rank is late: the best of three."""
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        agree([0.0])
        seconds.append(time.perf_counter() - began)
    return min(seconds)


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
        mailboxes = [
            [[queue.SimpleQueue[bytes]() for _ in range(MAIL_LANES + 1)] for _ in range(size)]
            for _ in range(size)
        ]
        return [cls(rank, mailboxes, timeout) for rank in range(size)]

    def open(self) -> None:
        """Do nothing, because threads are already connected."""

    def close(self) -> None:
        """Do nothing."""

    def abort(self) -> None:
        """Do nothing: whoever waits gives up after the time-out."""

    def expect(self, *incoming: Incoming, lane: int = 0) -> None:
        """Do nothing, because a mailbox takes everything."""

    def start(self, *mail: Mail, lane: int = 0, expected: object = None) -> Pending:
        for outgoing, _ in mail:
            for receiver, data in enumerate(outgoing):
                if data is not None and receiver != self.rank:
                    self._mailboxes[receiver][self.rank][lane].put(data.tobytes())
        return _LocalPending(self, [incoming for _, incoming in mail], lane)

    def box_backend(self, device: str) -> str:
        return "threads"

    def open_boxes(self, device: str) -> None:
        """Do nothing, because threads are already connected."""

    def beside(self, ready: object = None) -> AbstractContextManager[None]:
        return nullcontext()

    def joined(self) -> AbstractContextManager[None]:
        return nullcontext()

    def found_inf(self, verdict: Buffer, met: Buffer | None) -> None:
        """Return nothing that an optimizer would take."""

    def swap_boxes(self, outgoing: Boxes, incoming: Boxes) -> Pending:
        incoming.box(self.rank).array()[:] = outgoing.box(self.rank).array()
        ranks = range(self.size)
        return self.start(([outgoing.box(r) for r in ranks], [incoming.box(r) for r in ranks]))

    def gather_boxes(self, own: Buffer, everyone: Boxes) -> Pending:
        everyone.box(self.rank).array()[:] = own.array()
        return self.start(([own] * self.size, [everyone.box(rank) for rank in range(self.size)]))

    def read_later(self, *buffers: Buffer) -> LaterReading:
        return HostReading([buffer.tobytes() for buffer in buffers])

    def start_mean(self, vector: Vector) -> Pending:
        """Begin to replace a vector by its mean over all ranks, summed in rank order."""
        own = Buffer.of(vector.bits)
        incoming = [Buffer.zeros(own.size) for _ in range(self.size)]
        sent = self.start(([own] * self.size, incoming), lane=MAIL_LANES)  # no mail goes there
        return _LocalMean(vector, self.rank, incoming, sent)

    def receive(self, sender: int, buffer: Buffer, lane: int, deadline: float) -> None:
        """Fill the buffer with the next message; `queue.Empty` after the deadline."""
        wait = max(deadline - time.monotonic(), 0)
        received = self._mailboxes[self.rank][sender][lane].get(timeout=wait)
        if len(received) != buffer.size:
            raise PeerError(f"rank {sender} sent {len(received)} bytes, not {buffer.size}")
        buffer.array()[:] = np.frombuffer(received, np.uint8)


class HostReading(NamedTuple):
    """Copies that were there at once."""

    copies: list[bytes]

    def is_there(self) -> bool:
        return True

    def contents(self) -> list[bytes]:
        return self.copies


class _LocalMean(NamedTuple):
    vector: Vector
    rank: int
    terms: list[Buffer]
    pending: Pending

    def wait(self) -> None:
        self.pending.wait()
        values = self.vector.bits.view(self.vector.format.name)
        self.terms[self.rank].array()[:] = self.vector.bits.view(np.uint8)
        total = np.zeros_like(values)
        for term in self.terms:
            total += term.array(values.dtype) / values.dtype.type(len(self.terms))
        values[:] = total


class _LocalPending(NamedTuple):
    comm: LocalComm
    expected: list[Sequence[Buffer | None]]
    lane: int

    def wait(self) -> None:
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
