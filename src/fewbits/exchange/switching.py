"""In-network aggregation for a model's gradients: which aggregators, and a job on them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.kernels import switching
from fewbits.kernels.switching import Span
from fewbits.links import aggregator
from fewbits.links.aggregator import Address
from fewbits.links.switch import SwitchWorker
from fewbits.links.torch_comm import TorchComm
from fewbits.operators.natural import Natural
from fewbits.schemes import switched
from fewbits.schemes.correction import Loop

SWITCH = "switch"


@dataclass(frozen=True, slots=True)
class Aggregators:
    """Addresses of aggregators, which share the vector; the same on every rank.

    `top` is the highest exponent that can be added: raise it if values saturate, for instance
    because a GradScaler multiplies them. `chunk` is the most codes in a packet; with 64 bytes of
    header and 28 of UDP and IP it should fit the network's packets: 1400 for plain Ethernet.
    """

    addresses: tuple[str, ...]
    top: int = switching.TOP
    chunk: int = aggregator.CHUNK

    def __post_init__(self) -> None:
        object.__setattr__(self, "addresses", tuple(self.addresses))
        Span(2, self.top)
        for address in self.addresses:
            Address.of(address)


@dataclass(slots=True)
class Switching:
    """The aggregators of one model, and this rank's part of the job on them, if there is one."""

    chosen: Aggregators
    _worker: SwitchWorker | None = field(default=None, init=False)

    @classmethod
    def of(cls, scheme: str, given: Sequence[str] | Aggregators) -> "Switching | None":
        """What a scheme needs; None if it needs no aggregators."""
        if isinstance(given, str):
            raise SpecError(f"aggregators is a list of addresses, got {given!r}")
        chosen = given if isinstance(given, Aggregators) else Aggregators(tuple(given))
        if scheme != SWITCH:
            if chosen.addresses:
                raise SpecError(f"scheme {scheme!r} has no aggregators: pass scheme='switch'")
            return None
        if not chosen.addresses:
            raise SpecError(
                "scheme 'switch' needs aggregators=['HOST:PORT']: start one with `fewbits switch`"
            )
        return cls(chosen)

    def check(self, worker: Operator, master: Operator, loop: Loop | None) -> None:
        """Refuse what an aggregator cannot do."""
        if loop is not None:
            raise SpecError("scheme 'switch' has no feedback: natural compression needs none")
        switched.check(worker)
        if master not in (worker, Natural()):
            raise SpecError(f"a switch rounds sums as natural does, not as {master}: leave it out")

    def join(self, comm: TorchComm) -> dict[str, Any]:
        """A new job of all ranks; what `Switched` needs of it."""
        numbers = [np.zeros(8, np.uint8) for _ in range(comm.size)]
        own = np.frombuffer(aggregator.new_job().to_bytes(8, "little"), np.uint8).copy()
        comm.start(([own] * comm.size, numbers)).wait()
        numbers[comm.rank] = own
        worker = SwitchWorker(
            self.chosen.addresses,
            int.from_bytes(numbers[0].tobytes(), "little"),
            worker=comm.rank,
            workers=comm.size,
            chunk=self.chosen.chunk,
            # Sooner than the ranks give each other up, so that they can still tell each other.
            timeout=comm.timeout / 2,
        )
        try:
            worker.join()
        except BaseException:
            worker.close()
            raise
        self._worker = worker
        return {"wire": worker, "span": Span(comm.size, self.chosen.top)}

    def leave(self) -> None:
        """End the job."""
        if self._worker is not None:
            self._worker.close()
        self._worker = None

    def __str__(self) -> str:
        return f"top={self.chosen.top} chunk={self.chosen.chunk} "
