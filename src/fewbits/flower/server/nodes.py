"""What the server remembers of its nodes; beyond a number, the longest silent are forgotten."""

import logging
from collections import OrderedDict
from dataclasses import asdict, dataclass, field

from fewbits.flower.records import Arrays
from fewbits.flower.server.traffic import ArrayTraffic

_LOG = logging.getLogger("flwr")


@dataclass(frozen=True, slots=True)
class Memory:
    """A client's shifts, and the ticket of the reply that made them; 0 if there are none."""

    ticket: int = 0
    shifts: Arrays = field(default_factory=dict)


@dataclass(slots=True)
class NodeState:
    """How many messages a node was sent, the version that it holds, and its memory."""

    turn: int = 0
    held: int | None = None
    memory: Memory = field(default_factory=Memory)


@dataclass(frozen=True, slots=True)
class GridReport:
    """Figures of a grid.

    `rejected` counts replies that were left out, `nodes` the nodes that are remembered, `evicted`
    how often one was forgotten for another, and `memory_bytes` what the clients' shifts take.
    `traffic` counts the bytes of arrays in all messages, `rounds` those of each exchange by its
    number, and `by_node` those of each node.
    """

    exchanges: int
    rejected: int
    nodes: int
    evicted: int
    memory_bytes: int
    traffic: ArrayTraffic = field(default_factory=ArrayTraffic)
    rounds: dict[int, ArrayTraffic] = field(default_factory=dict)
    by_node: dict[int, ArrayTraffic] = field(default_factory=dict)

    def as_dict(self) -> dict[str, object]:
        """All figures by name, for a logger or JSON."""
        return asdict(self)


class Nodes:
    """States of at most `most` nodes.

    A node that was forgotten is like a new one: it gets the whole model, and is told that the
    server has no memory of it, so it starts from an empty one too.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._states: OrderedDict[int, NodeState] = OrderedDict()
        self.evicted = 0
        self._turns = 0  # where turns begin, so that no node that comes back draws a stream again

    def __len__(self) -> int:
        return len(self._states)

    @property
    def memory_bytes(self) -> int:
        return sum(
            x.nbytes
            for state in self._states.values()
            for own in state.memory.shifts.values()
            for x in own.values()
        )

    def seen(self, node: int) -> NodeState:
        """The state of a node, which is now the last to be forgotten."""
        state = self._states.setdefault(node, NodeState(turn=self._turns))
        self._states.move_to_end(node)
        if len(self._states) > self._most:
            _, forgotten = self._states.popitem(last=False)
            self._turns = max(self._turns, forgotten.turn)
            self.evicted += 1
            if self.evicted == 1:
                _LOG.warning(
                    "fewbits: more than %d nodes: those that were silent longest are forgotten and "
                    "start anew, see max_nodes",
                    self._most,
                )
        return state

    def held(self, node: int) -> int | None:
        """The version of the model that a node holds, as far as is known."""
        state = self._states.get(node)
        return None if state is None else state.held

    def distrust(self, node: int) -> None:
        """Count a node as holding no model."""
        if (state := self._states.get(node)) is not None:
            state.held = None
