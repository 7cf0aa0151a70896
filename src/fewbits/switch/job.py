"""In-network aggregation for a model's gradients: its aggregators and the job on them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from fewbits.backend.buffers import Buffer
from fewbits.collectives.comm import Comm
from fewbits.collectives.reduction import Reduction
from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.feedback import Feedback
from fewbits.operators.natural import Natural
from fewbits.reference.switching import DEFAULT_TOP, ExponentSpan
from fewbits.switch import collective
from fewbits.switch.collective import Switched
from fewbits.switch.keys import SwitchKey, chosen_key
from fewbits.switch.protocol import PACKET_CODES, Address, new_job
from fewbits.switch.worker import SwitchWorker

SWITCH = "switch"


@dataclass(frozen=True, slots=True)
class Aggregators:
    """Addresses of aggregators, which share the vector; the same on every rank.

    `top` is the highest exponent that can be added: raise it if values saturate, for instance
    because a GradScaler multiplies them. `chunk` is the most codes in a packet; with 96 bytes of
    header and 28 of UDP and IP it should fit the network's packets: 1376 for plain Ethernet.

    `key`, or what is in `key_file`, is the aggregators' key; without them it is that of the
    environment variable `FEWBITS_SWITCH_KEY`, if there is one.
    """

    addresses: tuple[str, ...]
    top: int = DEFAULT_TOP
    chunk: int = PACKET_CODES
    key: SwitchKey | bytes | str | None = field(default=None, repr=False, compare=False)
    key_file: str | Path | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", chosen_key(self.key, self.key_file))
        object.__setattr__(self, "key_file", None)
        if isinstance(self.addresses, str):
            raise SpecError(f"aggregators is a list of addresses, got {self.addresses!r}")
        object.__setattr__(self, "addresses", tuple(self.addresses))
        ExponentSpan(2, self.top)
        for address in self.addresses:
            Address.of(address)


@dataclass(slots=True)
class Switching:
    """The aggregators of one model, and this rank's part of the job on them, if there is one."""

    chosen: Aggregators
    _worker: SwitchWorker | None = field(default=None, init=False)

    @classmethod
    def of(cls, name: str, given: Sequence[str] | Aggregators) -> "Switching | None":
        """The switching of the collective of this name; None if it needs no aggregators."""
        chosen = given if isinstance(given, Aggregators) else Aggregators(given)  # type: ignore[arg-type]
        if name != SWITCH:
            if chosen.addresses:
                raise SpecError(f"collective {name!r} has no aggregators: pass 'switch'")
            return None
        if not chosen.addresses:
            raise SpecError(
                "collective 'switch' needs aggregators=['HOST:PORT']: start one with "
                "`fewbits switch`"
            )
        return cls(chosen)

    def check(self, uplink: Operator, downlink: Operator, feedback: Feedback | None) -> None:
        """Refuse operators and feedback that an aggregator cannot handle."""
        if feedback is not None:
            raise SpecError("collective 'switch' has no feedback: natural compression needs none")
        collective.check(uplink)
        if downlink not in (uplink, Natural()):
            raise SpecError(
                f"a switch rounds sums as natural does, not as {downlink}: leave it out"
            )

    def join(self, comm: Comm, timeout: float) -> Callable[..., Reduction]:
        """Begin a job of all ranks; what makes reductions on it.

        `timeout` is the time in seconds after which ranks give each other up.
        """
        numbers = [Buffer.zeros(8) for _ in range(comm.size)]
        own = Buffer.of(np.frombuffer(new_job().to_bytes(8, "little"), np.uint8).copy())
        comm.start(([own] * comm.size, numbers)).wait()
        numbers[comm.rank] = own
        worker = SwitchWorker(
            self.chosen.addresses,
            int.from_bytes(numbers[0].tobytes(), "little"),
            worker=comm.rank,
            workers=comm.size,
            chunk=self.chosen.chunk,
            key=chosen_key(self.chosen.key),
            # Sooner than the ranks give each other up, so that they can still tell each other.
            timeout=timeout / 2,
        )
        try:
            worker.join()
        except BaseException:
            worker.close()
            raise
        self._worker = worker
        return partial(Switched, wire=worker, span=ExponentSpan(comm.size, self.chosen.top))

    def leave(self) -> None:
        if self._worker is not None:
            self._worker.close()
        self._worker = None
