"""The options of LocalSGD beside those of all adapters."""

# ruff: noqa: RUF009 (`option` makes a field, no value that instances would share)

from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from typing import Any, Required

from fewbits.errors import SpecError
from fewbits.feedback import feedback as named_feedback
from fewbits.localsgd.outer import Outer
from fewbits.localsgd.outer import outer as named_outer
from fewbits.session import MeanOptions, Options, listed, option
from fewbits.switch.job import SWITCH

STATISTICS = ("*running_mean", "*running_var")
"""Buffers of normalisation layers."""


class RoundOptions(MeanOptions, total=False):
    """The options of LocalSGD."""

    local_steps: Required[int]
    outer: str | Outer
    overlap: bool
    average_buffers: Sequence[str]
    process_group: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptions(Options):
    """The options of all adapters and those of rounds; `SpecError` for bad values."""

    local_steps: int = option(
        MISSING, "so many steps of each rank's optimizer make a round.", agreed=str
    )
    outer: str | Outer = option(
        "sgd",
        "says what becomes of the mean change: `sgd` (at its lr of 1 the ranks' parameters are "
        "averaged) or `nesterov` (DiLoCo), with fields as in `nesterov:lr=0.5,momentum=0.9`.",
        agreed=lambda outer: named_outer(outer).spec,
    )
    overlap: bool = option(
        False,
        "exchange while the next round is computed; the outer step comes one round later.",
        agreed=lambda overlap: str(bool(overlap)),
    )
    average_buffers: Sequence[str] = option(
        STATISTICS,
        "buffers whose names match a pattern are averaged exactly.",
        agreed=listed,
    )
    process_group: Any = option(
        None,
        "the ranks that train together, by default all.",
        free="every process has its own object for the same group, and no group meets another",
    )

    def __post_init__(self) -> None:
        Options.__post_init__(self)
        if not isinstance(self.local_steps, int) or self.local_steps < 1:
            raise SpecError(
                f"local_steps must be a positive whole number, got {self.local_steps!r}"
            )
        named_outer(self.outer)
        if self.collective == SWITCH:
            raise SpecError(
                "collective 'switch' sums gradients of every step: it is for fewbits.ddp"
            )
        if self.feedback is not None and named_feedback(self.feedback).has_momentum:
            raise SpecError(
                f"feedback {self.feedback} has momentum, which is the outer step's: "
                "outer='nesterov'"
            )
