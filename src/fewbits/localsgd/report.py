"""The report of LocalSGD, measured on this rank."""

from dataclasses import dataclass
from typing import ClassVar

from fewbits.session import Report, times


@dataclass(frozen=True, slots=True)
class LocalReport(Report):
    """Figures of one rank; `steps` are exchanges, and `taken` counts local steps.

    An exchange is a round's, or a fragment's. `model_bytes` are those of all that is averaged.

    `plain_bytes` is what the same rounds would have sent without compression.
    """

    STEP: ClassVar[str] = "round"
    local_steps: int = 1
    taken: int = 0
    outer: str = "sgd"
    overlap: bool = False
    fragments: int = 1
    delay: int = 0
    model_bytes: int = 0

    @property
    def every_step_bytes(self) -> int:
        """Bytes that plain all-reduce after every local step would have sent."""
        return 2 * (self.ranks - 1) * self.model_bytes // self.ranks * self.taken

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
        if self.fragments > 1 or self.delay:
            how = f", {self.fragments} fragments, {self.delay} steps late"
        what = "rounds" if self.fragments == 1 else "exchanges, rounds"
        rounds = (
            f"local       {self.taken} steps in {self.steps} {what} of up to {self.local_steps}, "
            f"outer step {self.outer}{how}: {times(self.every_step_ratio)} all-reduce in every step"
        )
        text = Report.__str__(self)
        if self.fragments > 1:
            text = text.replace(" rounds", " exchanges").replace("\na round    ", "\nan exchange")
        first, sent, *rest = text.splitlines()
        return "\n".join([first, sent, rounds, *rest])
