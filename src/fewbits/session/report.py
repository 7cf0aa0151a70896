"""The report of compression in a training run, measured on this rank."""

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from fewbits.session.auto import Decision
from fewbits.warned import warn_user


def _old(name: str, present: str) -> property:
    """A field by its old name, with a warning."""

    def value(report: "Report") -> Any:
        warn_user(f"{name} of a report is called {present} now", DeprecationWarning)
        return getattr(report, present)

    return property(value, doc=f"The old name of `{present}`.")


def times(ratio: float) -> str:
    """The words before what is compared with: `3.56× less than`, or more, or as much as."""
    less, more = f"{ratio:.2f}", f"{1 / ratio:.2f}" if ratio > 0 else "∞"
    if less == more == "1.00":
        return "as much as"
    return f"{less}× less than" if ratio > 1 else f"{more}× more than"


@dataclass(frozen=True, slots=True)
class Report:
    """Figures of one rank since the start.

    Bytes are what it sent; `plain_bytes` is what an uncompressed ring all-reduce would have sent.
    With `across=` there are `nodes`, and these bytes are what went to other nodes; `inside_bytes`
    are the uncompressed payloads and the headers that did not leave this rank's node. With
    `low-rank`, `factored_elements` of the compressed ones travel as factors of matrices. With
    `on_failure="continue"`, `lost_ranks` were lost and `lost_values` of what they remembered.
    """

    STEP: ClassVar[str] = "step"

    uplink: str
    downlink: str
    collective: str
    ranks: int
    steps: int
    payload_bytes: int
    header_bytes: int
    plain_bytes: int
    codec_seconds: float
    codec_cpu_seconds: float
    wire_seconds: float
    elements: int
    compressed_elements: int
    exact: dict[str, int] = field(default_factory=dict)
    factored_elements: int | None = None
    factors_in_one_hop: bool = False
    saturated: int = 0
    below_span: int = 0
    resent: int = 0
    nonfinite_steps: int = 0
    skipped_steps: int = 0
    feedback: str | None = None
    memory_bytes: int = 0
    decision: Decision | None = None
    trying: str | None = None
    nodes: int = 0
    inside_bytes: int = 0
    lost_ranks: int = 0
    lost_values: int = 0

    worker, master = _old("worker", "uplink"), _old("master", "downlink")
    scheme = _old("scheme", "collective")

    @property
    def ratio(self) -> float:
        """How many times fewer bytes than plain all-reduce."""
        sent = self.payload_bytes + self.header_bytes
        return self.plain_bytes / sent if sent else 1.0

    @property
    def compressed_share(self) -> float:
        """The share of the elements that went through the lossy operator."""
        return self.compressed_elements / self.elements if self.elements else 0.0

    def as_dict(self) -> dict[str, object]:
        return asdict(self) | {"ratio": self.ratio, "compressed_share": self.compressed_share}

    def __str__(self) -> str:
        if self.ranks == 1:
            return "one rank: nothing is sent, so nothing is compressed"
        steps = max(self.steps, 1)
        operators = f"uplink {self.uplink}, downlink {self.downlink}"
        collective = f"{self.collective}{self._where()}"
        sent, headers = self.payload_bytes / 1e6, self.header_bytes / 1e6
        plain = f"{times(self.ratio)} plain all-reduce ({self.plain_bytes / 1e6:,.2f} MB)"
        codec, wire = 1e3 * self.codec_seconds / steps, 1e3 * self.wire_seconds / steps
        share = 100 * self.compressed_share
        lines = [
            f"{collective}, {operators}, {self.ranks} ranks, {self.steps} {self.STEP}s",
            f"sent        {sent:,.2f} MB + {headers:,.3f} MB headers, {plain}",
            f"{'a ' + self.STEP:<12}codec {codec:.2f} ms, wire and waiting {wire:.2f} ms",
            f"compressed  {share:.2f} % of {self.elements:,} elements",
        ]
        if self.nodes:
            lines[1:2] = self._by_nodes()
        if self.factored_elements is not None and self.elements:
            lines.append(f"factors     {self._factors(self.factored_elements)}")
        lines += [
            f"exact       {count:,} elements: {reason}" for reason, count in self.exact.items()
        ]
        if self.decision is not None:
            lines.append(str(self.decision))
        if self.trying is not None:
            lines.append(f"auto        not decided yet, trying {self.trying}")
        if self.feedback:
            lines.append(f"feedback    {self.feedback}, {self.memory_bytes / 1e6:,.2f} MB memories")
        return "\n".join([*lines, *self._troubles()])

    def _troubles(self) -> list[str]:
        """The lines of what has gone wrong."""
        lines = []
        if self.lost_ranks:
            memories = f"{self.lost_values:,} values of what they remembered"
            lines.append(f"lost        {self.lost_ranks} ranks, and {memories}")
        if self.saturated:
            lines.append(f"saturated   {self.saturated:,} values")
        if self.below_span or self.resent:
            below = f"{self.below_span:,} values below the span"
            lines.append(f"switch      {below}, {self.resent:,} packets sent again")
        if self.nonfinite_steps:
            sick = f"{self.nonfinite_steps} {self.STEP}s, {self.skipped_steps} of them skipped"
            lines.append(f"not finite  {sick}")
        return lines

    def _factors(self, count: int) -> str:
        if not count:
            return f"none: no tensor travels by {self.uplink}, others go as with 'tiny'"
        hops = "in one hop to each rank" if self.factors_in_one_hop else self.collective
        return f"{count:,} elements travel as factors of matrices, {hops}"

    def _where(self) -> str:
        return f" in {self.nodes} nodes" if self.nodes > 1 else " in one node" if self.nodes else ""

    def _by_nodes(self) -> list[str]:
        """The lines of bytes if there are nodes."""
        inside = f"inside      {self.inside_bytes / 1e6:,.2f} MB in this rank's node, uncompressed"
        if self.nodes == 1:
            return [
                "between     one node: nothing is sent to others, so nothing is compressed",
                inside,
            ]
        sent, headers = self.payload_bytes / 1e6, self.header_bytes / 1e6
        plain = f"{times(self.ratio)} {self.plain_bytes / 1e6:,.2f} MB uncompressed"
        other = f"to {self.nodes - 1} other nodes" if self.nodes > 2 else "to the other node"
        return [f"between     {sent:,.2f} MB + {headers:,.3f} MB headers {other}, {plain}", inside]
