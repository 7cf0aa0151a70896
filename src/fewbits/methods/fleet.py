"""Clients spread over the ranks of a `Comm`: all in one process, or some in each of several.

Rank r runs clients r, r + size, r + 2 size and so on, one after the other. Every rank gets the
frames of all clients, adds them up in the order of the clients' numbers, and takes the server's
step itself. So every rank has the same bits as a single process.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fewbits.backend.buffers import Buffer
from fewbits.collectives.comm import Comm, LocalComm, exchange
from fewbits.core.operator import Operator
from fewbits.errors import PeerError, SpecError
from fewbits.methods.messages import Message, RealVector, Traffic, decode, largest


class Gathered(NamedTuple):
    """Decoded messages in the order of their clients, and their traffic."""

    values: list[RealVector]
    traffic: Traffic

    def mean(self) -> RealVector:
        """The mean, added up in the order of the clients."""
        return self.total([1 / len(self.values)] * len(self.values))

    def total(self, weights: Sequence[float]) -> RealVector:
        """The weighted sum, in the order of the clients."""
        total = np.zeros_like(self.values[0])
        for weight, value in zip(weights, self.values, strict=True):
            total += weight * value
        return total


@dataclass(frozen=True, slots=True)
class Fleet:
    """A number of clients over a `comm`."""

    clients: int
    comm: Comm

    def __post_init__(self) -> None:
        if not isinstance(self.clients, int) or self.clients < 1:
            raise SpecError(f"clients must be a positive whole number, got {self.clients!r}")

    @classmethod
    def alone(cls, clients: int) -> "Fleet":
        """All clients in this process, without threads and network."""
        return cls(clients, LocalComm.group(1)[0])

    @property
    def everyone(self) -> range:
        return range(self.clients)

    def own(self, present: Sequence[int] | None = None) -> list[int]:
        """The clients among `present` that this rank runs."""
        return self._of(self.comm.rank, self.everyone if present is None else present)

    def checked(self, present: Sequence[int] | None) -> Sequence[int]:
        """The clients that take part, in order: all if `present` is None."""
        if present is None:
            return self.everyone
        chosen = sorted(int(client) for client in present)
        if not chosen or len(set(chosen)) < len(chosen):
            raise SpecError("present must name at least one client, and none of them twice")
        if not 0 <= chosen[0] <= chosen[-1] < self.clients:
            raise SpecError(f"present has clients outside of 0 to {self.clients - 1}")
        return chosen

    def gather(
        self,
        messages: Mapping[int, Message],
        operator: Operator,
        d: int,
        present: Sequence[int] | None = None,
    ) -> Gathered:
        """All clients' messages of `d` values, from the `messages` that each rank made."""
        chosen = self.everyone if present is None else present
        values = {client: message.value for client, message in messages.items()}
        frames = {client: message.frame for client, message in messages.items()}
        if self.comm.size > 1:
            frames |= self._exchange(frames, largest(operator, d), chosen)
            values |= {c: decode(frames[c], d) for c in chosen if c not in values}
        ordered = [frames[client] for client in chosen]
        return Gathered([values[client] for client in chosen], Traffic.sent(ordered))

    def _of(self, rank: int, present: Sequence[int]) -> list[int]:
        return [client for client in present if client % self.comm.size == rank]

    def _exchange(
        self, frames: Mapping[int, bytes], most: int, present: Sequence[int]
    ) -> dict[int, bytes]:
        """Send lengths first, then the frames."""
        comm, others = self.comm, range(self.comm.size)
        own = self._of(comm.rank, present)
        lengths = Buffer.of(np.array([len(frames[client]) for client in own], "<u8"))
        clients = {rank: self._of(rank, present) for rank in others if rank != comm.rank}
        sizes = [Buffer.zeros(8 * len(clients.get(rank, ()))) for rank in others]
        exchange(comm, (_but([lengths] * comm.size, comm.rank), _but(sizes, comm.rank)))
        told = [own_sizes.array("<u8").tolist() for own_sizes in sizes]
        for rank in clients:
            if told[rank] and max(told[rank]) > most:
                raise PeerError(f"rank {rank} announced a frame of more than {most} bytes")
        joined = Buffer.of(
            np.frombuffer(b"".join(frames[client] for client in own), np.uint8).copy()
        )
        incoming = [Buffer.zeros(sum(told[rank])) for rank in others]
        exchange(comm, (_but([joined] * comm.size, comm.rank), _but(incoming, comm.rank)))
        found = {}
        for rank, who in clients.items():
            data, at = incoming[rank].tobytes(), 0
            for client, size in zip(who, told[rank], strict=True):
                found[client] = data[at : at + size]
                at += size
        return found


def _but(buffers: list[Buffer], rank: int) -> list[Buffer | None]:
    """The buffers of other ranks that are not empty."""
    return [None if at == rank or not own.size else own for at, own in enumerate(buffers)]
