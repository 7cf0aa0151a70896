"""A worker's line to one aggregator: joins a job there, says that it is alive, and leaves."""

import contextlib
import socket
import time
from dataclasses import replace

from fewbits.errors import DisagreementError, PeerError, SpecError
from fewbits.switch.keys import SwitchKey
from fewbits.switch.protocol import Address, PacketHeader, PacketKind, Refusal, open_socket

_WHY: dict[int, str] = {
    Refusal.OTHER_WORKERS: "it serves another number of workers: {workers}, this job has {own}",
    Refusal.OTHER_PACKETS: "its packets hold at most {count} codes, or ranks disagree on "
    "their size",
    Refusal.BUSY: "it is busy with another job, or an earlier one did not end well",
}
_RETRY = 0.05  # seconds between two words to an aggregator that has not answered
_LEAST_SILENCE, _MOST_SILENCE = 0.05, 2.0  # seconds between two signs of life


class Line:
    """A socket, this worker's part in a job, and the keys that both ends made of the shared one."""

    def __init__(self, address: Address, hello: PacketHeader, key: SwitchKey | None) -> None:
        self.address, self.joined = address, False
        self.silence = 4 * _LEAST_SILENCE  # seconds until the next sign of life
        self.nonce, self.up, self.down = 0, b"", b""
        self._hello, self._key, self._sequence = hello, key, 0
        self._meet(0)
        self.socket = _connected(address)

    def _meet(self, nonce: int) -> None:
        """Make the keys of the aggregator's nonce."""
        self.nonce = nonce
        if self._key is not None:
            self.up, self.down = self._key.subkeys(self._hello.job, nonce)

    def join(self, deadline: float, timeout: float) -> PacketHeader:
        """The aggregator's welcome, which comes when all workers have joined."""
        heard, hint = "it did not answer", ": is it there, and is its key the same?"
        while time.monotonic() < deadline:
            answer = self._asked()
            if answer is None:
                continue
            hint = ""
            if answer.kind == PacketKind.WELCOME:
                quarter = answer.idle / 4000
                self.silence = min(_MOST_SILENCE, max(_LEAST_SILENCE, quarter))
                self.joined = True
                return answer
            if answer.kind == PacketKind.CHALLENGE:
                self._meet(answer.first)
                continue
            if answer.kind == PacketKind.WAITING:
                heard = f"it still waits for workers {absent(answer.first, self._hello.workers)}"
            elif answer.kind == PacketKind.REFUSED:
                heard = self._refused(answer)
            time.sleep(_RETRY)
        raise PeerError(f"aggregator {self.address}: {heard} within {timeout:g} s{hint}")

    def say(self, kind: PacketKind) -> None:
        """Send a word that has no answer."""
        with contextlib.suppress(OSError):  # it has gone before us
            self._send(replace(self._hello, kind=kind, count=0))

    def _send(self, header: PacketHeader) -> None:
        self._sequence += 1
        own = replace(header, nonce=self.nonce, sequence=self._sequence)
        self.socket.send(own.encode(self.up or None))

    def _asked(self) -> PacketHeader | None:
        """An answer to this job, if one comes soon."""
        try:
            self._send(self._hello)
            answer = PacketHeader.decode(self.socket.recv(1 << 16), self.down or None)
        except TimeoutError:
            return None
        except OSError:  # nobody listens there yet
            time.sleep(_RETRY)
            return None
        own = self._hello.job, self.nonce
        return answer if answer is not None and (answer.job, answer.nonce) == own else None

    def _refused(self, answer: PacketHeader) -> str:
        why = _WHY.get(answer.flags, "it gives no reason")
        heard = why.format(workers=answer.workers, own=self._hello.workers, count=answer.count)
        if answer.flags != Refusal.BUSY:
            raise DisagreementError(f"aggregator {self.address}: {heard}")
        return heard


def absent(present: int, workers: int) -> list[int]:
    return [worker for worker in range(workers) if not present >> worker & 1]


def _connected(address: Address) -> socket.socket:
    own = open_socket(address)
    try:
        own.connect(address)
    except OSError as error:
        own.close()
        raise SpecError(f"cannot reach {address}: {error.strerror}") from error
    own.settimeout(_RETRY)
    return own
