"""A message under way, and a reply that did not reach the strategy."""

from dataclasses import dataclass

from flwr.app import Message

from fewbits.flower.server.downlink import ModelVersion


@dataclass(frozen=True, slots=True)
class Rejection:
    """A reply that did not reach the strategy: the exchange's number, the node, the reason."""

    exchange: int
    node: int
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """A message under way: to whom, and which model it left there (None: it had no arrays)."""

    number: int
    node: int
    message: Message
    model: ModelVersion | None
