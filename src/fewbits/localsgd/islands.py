"""Where islands that come and go meet."""

from dataclasses import dataclass
from typing import Any

from torch._C._distributed_c10d import Store

from fewbits.errors import SpecError


@dataclass(frozen=True, slots=True)
class Islands:
    """Islands that come and go. They meet in `store`, one of torch's that outlives all of them.

    Training begins when `at_least` so many have come.
    """

    store: Any
    at_least: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.store, Store):
            kind = type(self.store).__name__
            raise SpecError(f"islands meet in a torch.distributed.Store, got {kind}")
        if not isinstance(self.at_least, int) or self.at_least < 1:
            raise SpecError(f"at_least must be a positive whole number, got {self.at_least!r}")
