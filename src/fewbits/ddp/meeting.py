"""Where ranks meet that go on without a lost one."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from torch._C._distributed_c10d import Store, TCPStore

from fewbits.errors import SpecError

STORE_VARIABLE, WORKERS_VARIABLE = "FEWBITS_STORE", "FEWBITS_WORKERS"
"""What `fewbits launch` tells its workers: host:port of the store, and how many begin."""


@dataclass(frozen=True, slots=True)
class MeetingPlace:
    """Where ranks meet that survive each other: `store` is one of torch's that outlives them all.

    Training begins when `at_least` so many have come. A rank that comes later gets the model, the
    step and `state` from the others: optimizers, schedulers and whatever else has `state_dict()`
    and `load_state_dict()`, in the same order on all ranks.
    """

    store: Any
    at_least: int = 1
    state: Sequence[Any] = ()

    @classmethod
    def of_launcher(cls, state: Sequence[Any] = ()) -> Self:
        """That of `fewbits launch`, which has started this program."""
        address = os.environ.get(STORE_VARIABLE)
        if address is None:
            raise SpecError(f"there is no {STORE_VARIABLE}: start this program by fewbits launch")
        host, _, port = address.rpartition(":")
        store = TCPStore(host, int(port), is_master=False)
        return cls(store, int(os.environ[WORKERS_VARIABLE]), state)

    def __post_init__(self) -> None:
        if not isinstance(self.store, Store):
            kind = type(self.store).__name__
            raise SpecError(f"ranks meet in a torch.distributed.Store, got {kind}")
        if not isinstance(self.at_least, int) or self.at_least < 1:
            raise SpecError(f"at_least must be a positive whole number, got {self.at_least!r}")
        for each in self.state:
            if not (hasattr(each, "state_dict") and hasattr(each, "load_state_dict")):
                raise SpecError(f"state= holds optimizers and schedulers, got {each!r}")
