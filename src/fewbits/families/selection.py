"""Stages that keep some of a vector's values."""

from dataclasses import dataclass
from typing import ClassVar

from fewbits.backend.kernel import Kernel, Kind
from fewbits.core import parameters
from fewbits.core.stage import Stage
from fewbits.errors import SpecError


@dataclass(frozen=True, slots=True)
class Selection(Stage):
    """Keep a fraction of the values."""

    kind: ClassVar[Kind]

    fraction: float = 0.1

    def __post_init__(self) -> None:
        Stage.__post_init__(self)
        if not 0 < self.fraction <= 1:
            raise SpecError(f"fraction must be above 0 and at most 1, got {self.fraction}")

    def reduced(self, d: int) -> int:
        """The fraction of `d`, rounded to the nearest, and not 0 unless `d` is."""
        parameters.check_count(d)
        return min(d, max(1, int(self.fraction * d + 0.5)))

    def kernel(self, d: int) -> Kernel:
        return Kernel(self.kind, 0, (self.reduced(d),))
