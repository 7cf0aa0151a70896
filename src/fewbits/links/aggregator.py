"""An aggregator of codes on a UDP socket: memory, sockets and time around the native core.

`docs/switch.md` has the protocol. All memory is taken at the start; packets never ask for more.
"""

import os
import socket
from dataclasses import dataclass, replace
from types import TracebackType
from typing import NamedTuple

from fewbits import _native_switch
from fewbits.errors import PeerError, SpecError

PORT = 48_320
SLOTS = 32
CHUNK = 8192  # codes of a packet; a unit of 65,536 is eight of them
IDLE = 10.0  # seconds without a packet after which another job may begin
_BUFFER = 4 << 20  # bytes that a socket may hold for us
_SLICE = 0.25  # seconds after which the native loop looks up


class Address(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> "Address":
        """`HOST`, `HOST:PORT` or `[HOST]:PORT` for addresses that have colons of their own."""
        host, colon, port = text.rpartition(":")
        if not colon or text.endswith("]") or (":" in host.strip("[]") and "[" not in host):
            host, port = text, str(PORT)
        if not port.isdecimal() or int(port) > 65_535 or not host.strip("[]"):
            raise SpecError(f"an aggregator is HOST:PORT, got {text!r}")
        return cls(host.strip("[]"), int(port))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Setup:
    """What an aggregator is made for."""

    workers: int
    slots: int = SLOTS
    chunk: int = CHUNK
    idle: float = IDLE

    def __post_init__(self) -> None:
        for name, most in (
            ("workers", _native_switch.MOST_WORKERS),
            ("slots", _native_switch.MOST_SLOTS),
            ("chunk", _native_switch.MOST_CHUNK),
        ):
            if not 1 <= getattr(self, name) <= most:
                raise SpecError(f"{name} must be from 1 to {most}, got {getattr(self, name)}")
        if not 0 <= self.idle < 1e6:
            raise SpecError(f"idle must be a number of seconds, got {self.idle}")

    def native(self) -> _native_switch.Setup:
        """The same for native code."""
        return _native_switch.Setup(self.workers, self.slots, self.chunk, 0, int(1e9 * self.idle))


class Aggregator:
    """A socket and a state; `serve` answers packets until `stop` is called."""

    def __init__(self, bind: Address, setup: Setup) -> None:
        self.setup = setup
        self.statistics = _native_switch.Statistics()
        self._state = _native_switch.state(setup.native())
        self._scratch = _native_switch.scratch(setup.chunk)
        self.stopped = False
        self._socket = opened(bind)
        try:
            self._socket.bind(bind)
        except OSError as error:
            self._socket.close()
            raise SpecError(f"cannot bind {bind}: {error.strerror}") from error

    @property
    def address(self) -> Address:
        """Where it listens."""
        host, port, *_ = self._socket.getsockname()
        return Address(host, port)

    @property
    def memory_bytes(self) -> int:
        """All that it holds, whatever comes in."""
        return int(self._state.size + self._scratch.size)

    @property
    def slot_bytes(self) -> int:
        """Memory of one slot: two sums, and two packets with them."""
        one, two = (
            _native_switch.state_size(replace(self.setup, slots=slots).native()) for slots in (1, 2)
        )
        return two - one

    def serve(self) -> None:
        """Answer packets until `stop` is called, by a signal handler or another thread."""
        while not self.stopped:
            self.serve_for(_SLICE)

    def serve_for(self, seconds: float) -> None:
        """Answer packets for a while, or until a signal comes."""
        arguments = self._socket.fileno(), int(1e9 * seconds), self._scratch, self.statistics
        if _native_switch.serve(self._state, *arguments) != 0:
            raise PeerError(f"the socket at {self.address} failed")

    def stop(self) -> None:
        """Let `serve` end soon."""
        self.stopped = True

    def report(self) -> dict[str, int]:
        """All counts."""
        return {name: getattr(self.statistics, name) for name in _native_switch.STATISTICS}

    def close(self) -> None:
        """Give the socket back."""
        self._socket.close()

    def __enter__(self) -> "Aggregator":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def opened(address: Address) -> socket.socket:
    """A UDP socket of the family that the host's address has, with large buffers."""
    try:
        family, *_ = socket.getaddrinfo(*address, type=socket.SOCK_DGRAM)[0]
    except OSError as error:
        raise SpecError(f"there is no host {address.host!r}: {error.strerror}") from error
    except ValueError as error:  # too long for a name, or with characters that none has
        raise SpecError(f"{address.host!r} is no name of a host") from error
    own = socket.socket(family, socket.SOCK_DGRAM)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        own.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
    return own


def new_job() -> int:
    """A job's number: 64 random bits that nobody can guess."""
    return int.from_bytes(os.urandom(8), "little") | 1
