"""Payloads that travel with their headers.

A rank says in the header of a batch how many bytes will go with the batch's next one: that of its
second hop, and then that of the batch with the same number in the next step. It keeps that promise
whatever comes next, a fault included, so the receiver can be ready for them and a payload whose
length is about known need not wait until the headers have been answered. What a payload lacks of
the promised bytes is filled up, what it has more than those follows the headers.
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
    """What goes with the next header of each batch, and what the last step's batches were like."""

    _made: dict[int, tuple[Sequence[int], Sequence[int]]] = field(default_factory=dict)
    _capacities: dict[int, list[int]] = field(default_factory=dict)

    def made(
        self, batch: int, headers: Sequence[Header], answers: Sequence[Header], rank: int
    ) -> None:
        """Remember what we, `rank`, promised in `headers` and the others in `answers`."""
        self._made[batch] = (
            [0 if r == rank else header.promise for r, header in enumerate(headers)],
            [0 if r == rank else answer.promise for r, answer in enumerate(answers)],
        )

    def kept(self, batch: int, payloads: Payloads | None, size: int) -> "Early":
        """The mail of the batch's next headers among `size` ranks, with `payloads` if there are."""
        sent, received = self._made.pop(batch, ([0] * size, [0] * size))
        nothing: list[Payload | None] = [None] * size
        outgoing, incoming = payloads or (nothing, nothing)
        return Early(
            sent,
            received,
            [_sent(*each) for each in zip(outgoing, sent, strict=True)],
            [_room(*each) for each in zip(incoming, received, strict=True)],
        )

    def next_step(self, batch: int, payloads: Sequence[Payload]) -> list[int]:
        """What the batch's first hop of the next step will probably send to each rank.

        It has sent `payloads` in this one. Nothing is promised unless the last step's could have
        been as long: DDP rebuilds its buckets after the first step.
        """
        capacities = [payload.capacity for payload in payloads]
        alike = self._capacities.get(batch) == capacities
        self._capacities[batch] = capacities
        return [payload.expected if alike else 0 for payload in payloads]


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
