"""What compression did to a sharded training run, measured on this rank."""

from dataclasses import dataclass

from fewbits.exchange.report import Report


@dataclass(frozen=True, slots=True)
class ShardReport(Report):
    """Figures of one rank; `plain_bytes` is what FSDP's own reduce-scatter would have sent.

    `gathered_bytes` is what FSDP's all-gathers of parameters have sent, by formula, for a ring:
    they are not compressed.
    """

    gathered_bytes: int = 0

    @property
    def whole_ratio(self) -> float:
        """How many times fewer bytes than plain FSDP, parameters included."""
        sent = self.payload_bytes + self.header_bytes + self.gathered_bytes
        return (self.plain_bytes + self.gathered_bytes) / sent if sent else 1.0

    def as_dict(self) -> dict[str, object]:
        """All figures, for JSON."""
        return Report.as_dict(self) | {"whole_ratio": self.whole_ratio}

    def __str__(self) -> str:
        if self.ranks == 1:
            return Report.__str__(self)
        parameters = f"{self.gathered_bytes / 1e6:,.2f} MB of parameters by FSDP, not compressed"
        gathered = f"gathered    {parameters}: {self.whole_ratio:.2f}× less in all"
        text = Report.__str__(self).replace("plain all-reduce", "plain reduce-scatter")
        first, sent, *rest = text.splitlines()
        return "\n".join([first, sent, gathered, *rest])
