"""What every adapter takes beside operators and feedback, checked once."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.exchange.reducer import SCHEMES
from fewbits.exchange.switching import Aggregators
from fewbits.policy import Policy
from fewbits.schemes.reduction import NonFinite


@dataclass(frozen=True, slots=True)
class Options:
    """How vectors travel; `SpecError` for what makes no sense."""

    scheme: str
    policy: Policy | Mapping[str, str | Operator] | None
    nonfinite: NonFinite
    seed: int
    timeout: float
    threads: int
    aggregators: Sequence[str] | Aggregators = ()

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise SpecError(f"scheme must be {', '.join(SCHEMES)}, got {self.scheme!r}")
        if self.nonfinite not in ("propagate", "skip", "raise"):
            raise SpecError(f"nonfinite must be propagate, skip or raise, got {self.nonfinite!r}")
        if not isinstance(self.timeout, int | float) or not 0 < self.timeout < math.inf:
            raise SpecError(f"timeout must be a positive number of seconds, got {self.timeout!r}")
        if not isinstance(self.threads, int) or self.threads < 1:
            raise SpecError(f"threads must be a positive whole number, got {self.threads!r}")
