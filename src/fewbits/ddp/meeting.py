"""Where ranks meet that go on without a lost one."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from torch._C._distributed_c10d import Store, TCPStore

from fewbits.errors import PeerError, SpecError

STORE_VARIABLE, WORKERS_VARIABLE = "FEWBITS_STORE", "FEWBITS_WORKERS"
"""What `fewbits launch` tells its workers: host:port of the store, and how many begin."""
_PATIENCE = timedelta(seconds=60)


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
        workers = os.environ.get(WORKERS_VARIABLE, "1")
        if not (host and port.isdigit() and workers.isdigit()):
            raise SpecError(
                f"{STORE_VARIABLE} must be host:port, and {WORKERS_VARIABLE} a number, got "
                f"{address!r} and {workers!r}"
            )
        try:
            store = TCPStore(host, int(port), is_master=False, timeout=_PATIENCE)
        except RuntimeError as error:
            raise PeerError(f"the store of fewbits launch at {address} does not answer") from error
        return cls(store, int(workers), state)

    def __post_init__(self) -> None:
        if not isinstance(self.store, Store):
            kind = type(self.store).__name__
            raise SpecError(f"ranks meet in a torch.distributed.Store, got {kind}")
        if not isinstance(self.at_least, int) or self.at_least < 1:
            raise SpecError(f"at_least must be a positive whole number, got {self.at_least!r}")
        for each in self.state:
            if not (hasattr(each, "state_dict") and hasattr(each, "load_state_dict")):
                raise SpecError(f"state= holds optimizers and schedulers, got {each!r}")
