"""The options of LocalSGD beside those of all adapters."""

# ruff: noqa: RUF009 (`option` makes a field, no value that instances would share)

from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from typing import Any, Required

from fewbits.errors import SpecError
from fewbits.feedback import feedback as named_feedback
from fewbits.localsgd.islands import Islands
from fewbits.localsgd.outer import Outer, refuse_two_momenta
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
    fragments: int
    delay: int
    blend: float
    average_buffers: Sequence[str]
    process_group: Any
    islands: Islands | None


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
    fragments: int = option(
        1,
        "the model is cut into so many parts, which are exchanged one after the other within a "
        "round, so that each exchange is as many times smaller.",
        agreed=str,
    )
    delay: int = option(
        0,
        "a fragment's exchange travels during so many steps, then its outer step is taken.",
        agreed=str,
    )
    blend: float = option(
        0.0,
        "the share of its own values that a rank keeps when it takes over common ones.",
        agreed=lambda blend: repr(float(blend)),
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

    islands: Islands | None = option(
        None,
        "islands that come and go between rounds, and meet through a store.",
        free="every process has its own connection to the store",
    )

    def __post_init__(self) -> None:
        Options.__post_init__(self)
        if not isinstance(self.local_steps, int) or self.local_steps < 1:
            raise SpecError(
                f"local_steps must be a positive whole number, got {self.local_steps!r}"
            )
        named_outer(self.outer)
        self._check_fragments()
        self._check_islands()
        if self.collective == SWITCH:
            raise SpecError(
                "collective 'switch' sums gradients of every step: it is for fewbits.ddp"
            )
        if self.feedback is not None:
            refuse_two_momenta(named_feedback(self.feedback), named_outer(self.outer))

    def _check_fragments(self) -> None:
        steps, count, delay, blend = self.local_steps, self.fragments, self.delay, self.blend
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= steps:
            raise SpecError(f"fragments must be from 1 to local_steps, {steps}, got {count!r}")
        if (
            isinstance(delay, bool)
            or not isinstance(delay, int)
            or not 0 <= delay <= steps // count
        ):
            raise SpecError(
                f"delay must be from 0 to the {steps // count} steps between two fragments, got "
                f"{delay!r}"
            )
        if not isinstance(blend, int | float) or not 0 <= blend < 1:
            raise SpecError(f"blend must be in [0, 1), got {blend!r}")
        if self.overlap and (count, delay, blend) != (1, 0, 0):
            raise SpecError("overlap=True is another way to overlap: pass delay= instead of it")

    def _check_islands(self) -> None:
        if self.islands is None:
            return
        if not isinstance(self.islands, Islands):
            raise SpecError(f"islands is fewbits.localsgd.Islands(store), got {self.islands!r}")
        if self.process_group is not None:
            raise SpecError("islands that come and go are no process_group: leave it out")
        if self.overlap or self.fragments > 1 or self.delay or self.blend:
            raise SpecError(
                "islands that come and go exchange whole rounds: leave overlap, fragments, delay "
                "and blend out"
            )
