"""A message under way, and a reply that did not reach the strategy."""

from dataclasses import dataclass, field

from flwr.app import Message

from fewbits.flower.server.downlink import ModelVersion
from fewbits.flower.server.nodes import Memory


@dataclass(frozen=True, slots=True)
class Rejection:
    """A reply that did not reach the strategy: the exchange's number, the node, the reason.

    The node is 0 if the message does not tell it.
    """

    exchange: int
    node: int
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """A message under way: to whom, and which model it left there (None: it had no arrays).

    `memory` is the one that its receiver was told to start from.
    """

    number: int
    node: int
    message: Message
    model: ModelVersion | None
    memory: Memory = field(default_factory=Memory)
