"""Payloads that travel with their headers.

A rank says in every header how many bytes will go with its next one. It keeps that promise whatever
comes next, a fault included, so the receiver can be ready for them and a payload whose length is
about known need not wait until the headers have been answered. What a payload lacks of the promised
bytes is filled up, what it has more than those follows the headers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fewbits.schemes.comm import Buffer, Mail
from fewbits.schemes.header import Header
from fewbits.schemes.payload import Payload

Payloads = tuple[Sequence[Payload], Sequence[Payload]]
"""What goes to and comes from each rank."""


@dataclass(slots=True)
class Promises:
    """How many bytes go with the next header, to and from each rank; none at the start."""

    outgoing: Sequence[int] = ()
    incoming: Sequence[int] = ()

    def made(self, headers: Sequence[Header], answers: Sequence[Header], rank: int) -> None:
        """Remember what we, `rank`, promised in `headers` and the others in `answers`."""
        self.outgoing = [0 if r == rank else header.promise for r, header in enumerate(headers)]
        self.incoming = [0 if r == rank else answer.promise for r, answer in enumerate(answers)]

    def kept(self, payloads: Payloads | None, size: int) -> "Early":
        """The mail of the next headers among `size` ranks, with `payloads` if there are any."""
        sent, received = self.outgoing or [0] * size, self.incoming or [0] * size
        nothing: list[Payload | None] = [None] * size
        outgoing, incoming = payloads or (nothing, nothing)
        return Early(
            sent,
            received,
            [_sent(*each) for each in zip(outgoing, sent, strict=True)],
            [_room(*each) for each in zip(incoming, received, strict=True)],
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

    def rest(self, payloads: Payloads) -> Mail:
        """What must follow the headers, now that the lengths of incoming payloads are known."""
        outgoing, incoming = payloads
        for payload, buffer in zip(incoming, self.incoming, strict=True):
            if buffer is not None and buffer.size > payload.capacity:  # it came to a place apart
                payload.buffer[: payload.length] = buffer[: payload.length]
        return (
            [_rest(*each) for each in zip(outgoing, self.sent, strict=True)],
            [_rest(*each) for each in zip(incoming, self.received, strict=True)],
        )


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a batch's first hop could send at most, and what the next one will probably send."""

    capacities: list[int]
    expected: list[int]


@dataclass(slots=True)
class Foresight:
    """The first hops of every batch in the last step: this one's will be alike.

    Two steps must have been alike before anything is promised: DDP rebuilds its buckets after the
    first one.
    """

    last: list[_Seen] = field(default_factory=list)
    now: list[_Seen] = field(default_factory=list)
    settled: bool = False

    def after_batch(self, payloads: Sequence[Payload]) -> list[int]:
        """What will go with the header after a batch that sent `payloads[r]` to rank r first.

        If this step goes on like the last one, that is; nothing if this batch should be the last.
        """
        capacities = [payload.capacity for payload in payloads]
        self.now.append(_Seen(capacities, [payload.expected for payload in payloads]))
        alike = self.settled and _alike(self.now, self.last[: len(self.now)])
        following = self.last[len(self.now) :] if alike else []
        return following[0].expected if following else [0] * len(payloads)

    def after_step(self, size: int) -> list[int]:
        """What will go with the first header of the next step."""
        self.settled = bool(self.now) and _alike(self.now, self.last)
        self.last, self.now = self.now, []
        return self.last[0].expected if self.settled else [0] * size


def _alike(some: Sequence[_Seen], others: Sequence[_Seen]) -> bool:
    return [seen.capacities for seen in some] == [seen.capacities for seen in others]


def _sent(payload: Payload | None, promised: int) -> Buffer | None:
    """As many bytes as were promised, beginning with the payload."""
    if promised == 0:
        return None
    if payload is not None and promised <= payload.capacity:
        return payload.buffer[:promised]
    filled = np.zeros(promised, np.uint8)
    if payload is not None:
        filled[: payload.length] = payload.data
    return filled


def _room(payload: Payload | None, promised: int) -> Buffer | None:
    """Where promised bytes can arrive."""
    if promised == 0:
        return None
    if payload is not None and promised <= payload.capacity:
        return payload.buffer[:promised]
    return np.empty(promised, np.uint8)


def _rest(payload: Payload, early: int) -> Buffer | None:
    return payload.data[early:] if early < payload.length else None
