"""Payloads that travel with their headers.

A rank says in the header of a batch how many bytes will go with the batch's next header: that of
its second hop, and then that of the batch with the same number in the next step. It keeps this
promise even after a fault, so the receiver can be ready for the bytes, and a payload whose length
is about known need not wait for the answers to the headers. A payload that is shorter than promised
is padded. The rest of a longer one follows the headers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from fewbits.backend.buffers import Buffer
from fewbits.collectives.comm import Incoming, Mail
from fewbits.collectives.header import RankHeader
from fewbits.collectives.payload import Payload

Payloads = tuple[Sequence[Payload], Sequence[Payload]]
"""What goes to and comes from each rank."""


@dataclass(slots=True)
class Promises:
    """The promised bytes of each batch's next header, and the lengths in the last step."""

    _made: dict[int, tuple[Sequence[int], Sequence[int]]] = field(default_factory=dict)
    _capacities: dict[int, list[int]] = field(default_factory=dict)

    def made(
        self, batch: int, headers: Sequence[RankHeader], answers: Sequence[RankHeader], rank: int
    ) -> None:
        """Remember the promises of this `rank` in `headers` and of the others in `answers`."""
        self._made[batch] = (
            [0 if r == rank else header.promise for r, header in enumerate(headers)],
            [0 if r == rank else answer.promise for r, answer in enumerate(answers)],
        )

    def kept(self, batch: int, payloads: Payloads | None, size: int) -> "Early":
        """The bytes that go with the batch's next headers, with `payloads` if there are any."""
        sent, received = self._made.pop(batch, ([0] * size, [0] * size))
        nothing: list[Payload | None] = [None] * size
        outgoing, incoming = payloads or (nothing, nothing)
        rooms = [_room(*each) for each in zip(incoming, received, strict=True)]
        return Early(sent, received, outgoing, rooms)

    def next_step(self, batch: int, payloads: Sequence[Payload]) -> list[int]:
        """The bytes that the batch's first hop of the next step will probably send to each rank.

        In this step it has sent `payloads`. Nothing is promised unless the last step's payloads
        could have been as long, because DDP rebuilds its buckets after the first step.
        """
        capacities = [payload.capacity for payload in payloads]
        alike = self._capacities.get(batch) == capacities
        self._capacities[batch] = capacities
        return [payload.expected if alike else 0 for payload in payloads]


@dataclass(frozen=True, slots=True)
class Early:
    """The bytes that go with the headers: so many to and from each rank.

    There is room for those that come, also before the `payloads` that go are there.
    """

    sent: Sequence[int]
    received: Sequence[int]
    payloads: Sequence[Payload | None]
    room: Sequence[Buffer | None]

    @property
    def incoming(self) -> list[Incoming]:
        """What `Comm.expect` takes beside the headers; nothing if nothing was promised."""
        return [self.room] if any(self.sent) or any(self.received) else []

    def outgoing(self) -> list[Sequence[Buffer | None]]:
        """What goes there, once the payloads are made."""
        sent = [_sent(*each) for each in zip(self.payloads, self.sent, strict=True)]
        return [sent] if self.incoming else []

    def rest(self, payloads: Payloads) -> Mail:
        """The rest that follows the headers, once the lengths of incoming payloads are known."""
        outgoing, incoming = payloads
        for payload, buffer in zip(incoming, self.room, strict=True):
            if buffer is not None and buffer.size > payload.capacity:  # it came to a place apart
                payload.data.array()[:] = buffer[: payload.length].array()
        return (
            [_rest(*each) for each in zip(outgoing, self.sent, strict=True)],
            [_rest(*each) for each in zip(incoming, self.received, strict=True)],
        )


def _sent(payload: Payload | None, promised: int) -> Buffer | None:
    """The promised number of bytes, which begin with the payload."""
    room = _room(payload, promised)
    if room is not None and payload is not None and promised > payload.capacity:
        room[: payload.length].array()[:] = payload.data.array()
    return room


def _room(payload: Payload | None, promised: int) -> Buffer | None:
    """A buffer for promised bytes."""
    if promised == 0:
        return None
    if payload is not None and promised <= payload.capacity:
        return payload.memory[:promised]
    return Buffer.zeros(promised)


def _rest(payload: Payload, early: int) -> Buffer | None:
    return payload.data[early:] if early < payload.length else None
