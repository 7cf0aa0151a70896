"""Payloads that travel with their headers.

A rank says in every header how many bytes will go with its next one. It keeps that promise whatever
comes next, so the receiver can be ready for them and no payload of a known length waits until the
headers have been answered. Where the next payload is shorter than expected, or a fault comes
instead, the promised bytes mean nothing and the payload goes after the headers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fewbits.schemes.comm import Buffer, Mail
from fewbits.schemes.header import Header

Payloads = tuple[Sequence[Buffer], Sequence[Buffer]]
"""What goes to and comes from each rank; what comes in may be shorter than its buffer."""


@dataclass(slots=True)
class Promises:
    """How many bytes go with the next header, to and from each rank; none at the start."""

    outgoing: Sequence[int] = ()
    incoming: Sequence[int] = ()

    def made(self, headers: Sequence[Header], answers: Sequence[Header]) -> None:
        """Remember what we promised in `headers` and the others in `answers`."""
        self.outgoing = [header.promise for header in headers]
        self.incoming = [answer.promise for answer in answers]

    def kept(self, payloads: Payloads) -> "Early":
        """The mail that goes with the next headers, as much as possible of it from `payloads`."""
        outgoing, incoming = payloads
        sent = self.outgoing or [0] * len(outgoing)
        received = self.incoming or [0] * len(incoming)
        return Early(
            sent,
            received,
            [_begin(*each) for each in zip(outgoing, sent, strict=True)],
            [_begin(*each) for each in zip(incoming, received, strict=True)],
        )


@dataclass(frozen=True, slots=True)
class Early:
    """What goes with the headers."""

    sent: Sequence[int]
    received: Sequence[int]
    outgoing: Sequence[Buffer | None]
    incoming: Sequence[Buffer | None]

    def mail(self) -> list[Mail]:
        """For `Comm.exchange`: nothing at all if nothing was promised."""
        return [(self.outgoing, self.incoming)] if any(self.sent) or any(self.received) else []

    def rest(self, payloads: Payloads, lengths: Sequence[int]) -> Mail:
        """What must follow the headers; `lengths` are those of the payloads that come in."""
        outgoing, incoming = payloads
        return (
            [_end(b, n, b.size) for b, n in zip(outgoing, self.sent, strict=True)],
            [_end(*each) for each in zip(incoming, self.received, lengths, strict=True)],
        )


@dataclass(slots=True)
class Foresight:
    """The lengths of the first hops of every batch in the last step: this one's will be alike.

    Two steps must have been alike before anything is promised: DDP rebuilds its buckets after the
    first one.
    """

    last: list[list[int]] = field(default_factory=list)
    now: list[list[int]] = field(default_factory=list)
    settled: bool = False

    def after_batch(self, lengths: list[int]) -> list[int]:
        """What will go with the header after a batch that sent `lengths[r]` bytes to rank r first.

        If this step goes on like the last one, that is; nothing if this batch should be the last.
        """
        self.now.append(lengths)
        alike = self.settled and self.now == self.last[: len(self.now)]
        following = self.last[len(self.now) :] if alike else []
        return following[0] if following else [0] * len(lengths)

    def after_step(self, size: int) -> list[int]:
        """What will go with the first header of the next step."""
        self.settled = bool(self.now) and self.now == self.last
        self.last, self.now = self.now, []
        return self.last[0] if self.settled else [0] * size


def _begin(buffer: Buffer, length: int) -> Buffer | None:
    """The first `length` bytes of a payload, or as many that mean nothing if it is shorter."""
    if length == 0:
        return None
    return buffer[:length] if length <= buffer.size else np.zeros(length, np.uint8)


def _end(buffer: Buffer, begun: int, length: int) -> Buffer | None:
    """What is left of a payload of `length` bytes; all of it if its beginning was meaningless."""
    return buffer[begun if begun <= length else 0 : length] if begun != length else None
