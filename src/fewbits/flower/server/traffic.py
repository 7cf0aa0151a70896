"""Counts the bytes of arrays that a grid has sent and received, by exchange and by node."""

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from flwr.app import Message

_REMEMBERED = 1000  # exchanges


@dataclass(frozen=True, slots=True)
class ArrayTraffic:
    """Bytes of arrays in messages: those to clients and their replies, as they travelled.

    `plain_down` and `plain_up` are what the same arrays take without compression.
    """

    messages: int = 0
    replies: int = 0
    down: int = 0
    up: int = 0
    plain_down: int = 0
    plain_up: int = 0

    @property
    def ratio(self) -> float:
        """How many times fewer bytes than without compression, both ways."""
        sent = self.down + self.up
        return (self.plain_down + self.plain_up) / sent if sent else 1.0

    def plus(self, other: "ArrayTraffic") -> "ArrayTraffic":
        return ArrayTraffic(
            *(getattr(self, name) + getattr(other, name) for name in ArrayTraffic.__slots__)
        )


def array_bytes(message: Message) -> int:
    """The bytes of all arrays of a message; 0 for one that cannot be read."""
    try:
        records = message.content.array_records if message.has_content() else {}
        return sum(len(array.data) for record in records.values() for array in record.values())
    except Exception:  # a hostile client's: whoever reads it for the strategy says why
        return 0


class TrafficMeter:
    """Counts for the last exchanges, and for as many nodes as the grid remembers."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rounds: deque[tuple[int, ArrayTraffic]] = deque(maxlen=_REMEMBERED)
        self._nodes: OrderedDict[int, ArrayTraffic] = OrderedDict()
        self.total = ArrayTraffic()

    @property
    def rounds(self) -> dict[int, ArrayTraffic]:
        """By the number of the exchange; the oldest are forgotten after a thousand."""
        return dict(self._rounds)

    @property
    def nodes(self) -> dict[int, ArrayTraffic]:
        """By node; who was silent longest is forgotten."""
        return dict(self._nodes)

    def sent(self, exchange: int, originals: Sequence[Message], made: Sequence[Message]) -> None:
        """Count messages to clients, each with the one that the strategy gave."""
        for original, own in zip(originals, made, strict=True):
            counted = ArrayTraffic(
                messages=1, down=array_bytes(own), plain_down=array_bytes(original)
            )
            self._add(exchange, own.metadata.dst_node_id, counted)

    def received(self, exchange: int, node: int, reply: Message) -> None:
        """Count a reply as it came."""
        self._add(exchange, node, ArrayTraffic(replies=1, up=array_bytes(reply)))

    def rebuilt(self, exchange: int, node: int, reply: Message) -> None:
        """Count what a reply that was taken would have been without compression."""
        self._add(exchange, node, ArrayTraffic(plain_up=array_bytes(reply)))

    def _add(self, exchange: int, node: int, counted: ArrayTraffic) -> None:
        if not self._rounds or self._rounds[-1][0] != exchange:
            self._rounds.append((exchange, ArrayTraffic()))
        self._rounds[-1] = exchange, self._rounds[-1][1].plus(counted)
        self._nodes[node] = self._nodes.pop(node, ArrayTraffic()).plus(counted)
        if len(self._nodes) > self._most:
            self._nodes.popitem(last=False)
        self.total = self.total.plus(counted)
