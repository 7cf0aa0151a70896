r"""The traffic of nodes: fast links inside a node, and one slower link of each node to the others.

All numbers are those of one node's link one way, in values, for $N$ nodes of $w$ ranks and a model
of $d$ values. A flat exchange sends every rank's codes over it, $2 w d (N-1)/N$. One *between
nodes* sends those of one model, $2 d (N-1)/N$, and before and after that $2 d (w-1)/w$ uncompressed
values of each rank over the links inside. A plain ring passes each node once, $2 d (n-1)/n$.
"""

from dataclasses import dataclass

from fewbits.errors import SpecError
from fewbits.theory import cost
from fewbits.theory.cost import FLOAT_BITS, CollectiveTraffic, LinkTraffic

ALL_RANKS, BETWEEN_NODES = "all ranks", "between nodes"
"""The axes along which ranks may compress."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes of `width` ranks each, and the rate of a rank's links inside a node."""

    nodes: int
    width: int
    inner_bits_per_second: float

    def __post_init__(self) -> None:
        for name, count in (("nodes", self.nodes), ("ranks in a node", self.width)):
            if count < 1:
                raise SpecError(f"there must be at least 1 of {name}, got {count}")
        if not self.inner_bits_per_second > 0:
            raise SpecError(
                f"inner_bits_per_second must be positive, got {self.inner_bits_per_second:g}"
            )

    @property
    def workers(self) -> int:
        return self.nodes * self.width

    def senders(self, axis: str) -> int:
        """How many senders' noise the mean evens out."""
        return self.workers if axis == ALL_RANKS else self.nodes

    def axes(self) -> dict[str, CollectiveTraffic]:
        """The arrangements by name; there is only one if nodes have a rank each."""
        found: dict[str, CollectiveTraffic] = {ALL_RANKS: self.flat}
        if self.width > 1:
            found[BETWEEN_NODES] = self.between
        return found

    def flat(self, values: int, workers: int) -> LinkTraffic:
        """Every rank exchanges codes with all others; those inside a node are not counted."""
        alone = cost.sharded(values, workers)
        return alone._replace(sent=self.width * self._sent(values))

    def between(self, values: int, workers: int) -> LinkTraffic:
        """Ranks of a node add up among each other, and each exchanges its part with other nodes."""
        part = values / self.width
        inside = 2 * (values - part) * FLOAT_BITS / self.inner_bits_per_second
        hops = 4 if self.nodes > 1 else 2
        coded = (part * (1 + 1 / self.nodes), 2 * part) if self.nodes > 1 else (0.0, 0.0)
        return LinkTraffic(*coded, self._sent(values), hops, inside)

    def _sent(self, values: int) -> float:
        return 2 * values * (self.nodes - 1) / self.nodes
