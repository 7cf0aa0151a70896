"""The history of a run as plain numbers that a checkpoint can hold."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class Epoch:
    """The state after an epoch; bytes and seconds are totals since the run began."""

    loss: float
    test_loss: float
    accuracy: float
    sent: float
    plain: float
    codec_seconds: float
    wire_seconds: float


@dataclass(slots=True)
class History:
    """One number a step, one record an epoch."""

    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    blocked: list[float] = field(default_factory=list)
    epochs: list[Epoch] = field(default_factory=list)
    exchange: dict[str, Any] = field(default_factory=dict)  # how the gradients travelled
    worked: list[float] = field(default_factory=list)  # of a processor; older checkpoints lack it

    def to_json(self) -> str:
        """Text that `from_json` reads; floats keep every bit."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "History":
        made = json.loads(text)
        made["epochs"] = [Epoch(**epoch) for epoch in made["epochs"]]
        return cls(**made)
