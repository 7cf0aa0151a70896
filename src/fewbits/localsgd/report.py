"""The report of LocalSGD, measured on this rank."""

from dataclasses import dataclass
from typing import ClassVar

from fewbits.session import Report, times


@dataclass(frozen=True, slots=True)
class LocalReport(Report):
    """Figures of one rank; `steps` are rounds, and `taken` counts the local steps in them.

    `plain_bytes` is what the same rounds would have sent without compression.
    """

    STEP: ClassVar[str] = "round"
    local_steps: int = 1
    taken: int = 0
    outer: str = "sgd"
    overlap: bool = False

    @property
    def every_step_bytes(self) -> int:
        """Bytes that plain all-reduce after every local step would have sent."""
        return self.plain_bytes // max(self.steps, 1) * self.taken

    @property
    def every_step_ratio(self) -> float:
        """How many times fewer bytes than that."""
        sent = self.payload_bytes + self.header_bytes
        return self.every_step_bytes / sent if sent else 1.0

    def as_dict(self) -> dict[str, object]:
        return Report.as_dict(self) | {"every_step_ratio": self.every_step_ratio}

    def __str__(self) -> str:
        if self.ranks == 1:
            return Report.__str__(self)
        how = ", overlapped" if self.overlap else ""
        rounds = (
            f"local       {self.taken} steps in {self.steps} rounds of up to {self.local_steps}, "
            f"outer step {self.outer}{how}: {times(self.every_step_ratio)} all-reduce in every step"
        )
        first, sent, *rest = Report.__str__(self).splitlines()
        return "\n".join([first, sent, rounds, *rest])
