"""An aggregator of codes on a UDP socket: memory, sockets and time around the native core.

All memory is taken at the start; packets never ask for more.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address

from fewbits.backend import switch as native
from fewbits.errors import PeerError, SpecError
from fewbits.reference.switching import MOST_WORKERS
from fewbits.switch.keys import KEY_VARIABLE, SwitchKey
from fewbits.switch.protocol import PACKET_CODES, Address, open_socket

SLOTS = 32
IDLE = 10.0  # seconds without a packet after which another job may begin
_SLICE = 0.25  # seconds after which the native loop looks up


@dataclass(frozen=True, slots=True)
class AggregatorSetup:
    """The sizes of an aggregator; `chunk` is the largest number of codes in a packet."""

    workers: int
    slots: int = SLOTS
    chunk: int = PACKET_CODES
    idle: float = IDLE

    def __post_init__(self) -> None:
        for name, most in (
            ("workers", MOST_WORKERS),
            ("slots", native.MOST_SLOTS),
            ("chunk", native.MOST_PACKET_CODES),
        ):
            if not 1 <= getattr(self, name) <= most:
                raise SpecError(f"{name} must be from 1 to {most}, got {getattr(self, name)}")
        if not 0 <= self.idle < 1e6:
            raise SpecError(f"idle must be a number of seconds, got {self.idle}")


class Aggregator:
    """A socket and a state; `serve` answers packets until `stop` is called."""

    def __init__(
        self,
        bind: Address,
        setup: AggregatorSetup,
        *,
        key: SwitchKey | None = None,
        insecure: bool = False,
    ) -> None:
        self.setup, self.keyed = setup, key is not None
        self.statistics = native.Statistics()
        root = None if key is None else key.root
        self._state = native.state(setup.workers, setup.slots, setup.chunk, setup.idle, root)
        self._scratch = native.scratch(setup.chunk)
        self.stopped = False
        self._socket = open_socket(bind)
        try:
            self._socket.bind(bind)
        except OSError as error:
            self._socket.close()
            raise SpecError(f"cannot bind {bind}: {error.strerror}") from error
        if not (self.keyed or insecure or ip_address(self.address.host).is_loopback):
            self._socket.close()
            raise SpecError(
                f"{bind} can be reached from other machines: give --key-file or {KEY_VARIABLE}, "
                "or --insecure to serve anyone"
            )

    @property
    def address(self) -> Address:
        host, port, *_ = self._socket.getsockname()
        return Address(host, port)

    @property
    def memory_bytes(self) -> int:
        """Bytes of all its memory; packets never add to it."""
        return int(self._state.size + self._scratch.size)

    @property
    def slot_bytes(self) -> int:
        """Memory of one slot: two sums, and two packets with them."""
        own = self.setup
        one, two = (native.state_size(own.workers, slots, own.chunk) for slots in (1, 2))
        return two - one

    def serve(self) -> None:
        """Answer packets until `stop` is called, by a signal handler or another thread."""
        while not self.stopped:
            self.serve_for(_SLICE)

    def serve_for(self, seconds: float) -> None:
        arguments = self._socket.fileno(), int(1e9 * seconds), self._scratch, self.statistics
        if native.serve(self._state, *arguments) != 0:
            raise PeerError(f"the socket at {self.address} failed")

    def stop(self) -> None:
        self.stopped = True

    def report(self) -> dict[str, int]:
        return {name: getattr(self.statistics, name) for name in native.COUNTERS}

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> "Aggregator":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def serving(
    setup: AggregatorSetup, bind: Address, key: SwitchKey | None = None
) -> Iterator[Aggregator]:
    """An aggregator in a thread of this process that answers until the end of the block."""
    with Aggregator(bind, setup, key=key) as own:
        thread = threading.Thread(target=own.serve, name="fewbits-aggregator", daemon=True)
        thread.start()
        try:
            yield own
        finally:
            own.stop()
            thread.join()
