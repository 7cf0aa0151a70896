"""A worker of in-network aggregation: sends codes to aggregators and receives their sums."""

import contextlib
import os
import socket
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

from fewbits.backend import switch as native
from fewbits.errors import DisagreementError, FewbitsError, PeerError, SpecError
from fewbits.switch.protocol import (
    Address,
    PacketBytes,
    PacketHeader,
    PacketKind,
    Packets,
    Refusal,
    open_socket,
)

_WHY: dict[int, str] = {
    Refusal.OTHER_WORKERS: "it serves another number of workers: {workers}, this job has {own}",
    Refusal.OTHER_PACKETS: "its packets hold at most {count} codes, or ranks disagree on "
    "their size",
    Refusal.BUSY: "it is busy with another job, or an earlier one did not end well",
}
_RETRY = 0.05  # seconds between two words to an aggregator that has not answered
_WINDOW = 64  # slots of an aggregator that a job uses at most


class Exchanged(NamedTuple):
    """The cost of an exchange with the aggregators."""

    sent: int  # bytes
    received: int
    resent: int  # packets


class SwitchWorker:
    """One worker of a job; a thread of its own runs exchanges one after the other."""

    def __init__(
        self,
        aggregators: Sequence[str | Address],
        job: int,
        *,
        worker: int,
        workers: int,
        chunk: int,
        timeout: float,
    ) -> None:
        if not 1 <= len(aggregators) <= native.MOST_AGGREGATORS:
            most = native.MOST_AGGREGATORS
            raise SpecError(f"there can be 1 to {most} aggregators, got {len(aggregators)}")
        if not 1 <= chunk <= native.MOST_PACKET_CODES:
            raise SpecError(f"a packet holds 1 to {native.MOST_PACKET_CODES} codes, not {chunk}")
        self.addresses = [Address.of(a) if isinstance(a, str) else a for a in aggregators]
        self.chunk, self.timeout = chunk, timeout
        self._hello = PacketHeader(PacketKind.JOIN, job, workers, worker, count=chunk)
        self._sockets: list[socket.socket] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fewbits-switch")
        self._state: native.WorkerState | None = None
        self._failure: FewbitsError | None = None
        try:
            for address in self.addresses:
                self._sockets.append(_connected(address))
        except BaseException:
            self.close()
            raise

    def join(self) -> None:
        """Wait until all workers have joined all aggregators."""
        deadline = time.monotonic() + self.timeout
        welcomes = [
            self._joined(own, address, deadline)
            for own, address in zip(self._sockets, self.addresses, strict=True)
        ]
        state = self._state = native.WorkerState(
            job=self._hello.job,
            patience=int(1e9 * self.timeout),
            workers=self._hello.workers,
            worker=self._hello.worker,
            aggregators=len(self._sockets),
            slots=min(_WINDOW, *(welcome.slot for welcome in welcomes)),
            chunk=self.chunk,
        )
        for number, own in enumerate(self._sockets):
            own.setblocking(True)
            state.sockets[number] = own.fileno()
        self._scratch = native.worker_scratch(state)

    def start(self, packets: Packets, codes: PacketBytes, sums: PacketBytes) -> "Future[Exchanged]":
        """Begin to send codes; the future ends when `sums` and the answers in `packets` arrived.

        It raises `PeerError` if an aggregator or a worker does not answer in time.
        """
        return self._thread.submit(self._exchange, packets, codes, sums)

    def close(self) -> None:
        """Leave the job, which ends it for all."""
        self._thread.shutdown(cancel_futures=True)
        for own in self._sockets:
            if self._state is not None:
                with contextlib.suppress(OSError):  # it has gone before us
                    own.send(replace(self._hello, kind=PacketKind.LEAVE, count=0).encode())
            own.close()
        self._sockets.clear()

    def _joined(self, own: socket.socket, address: Address, deadline: float) -> PacketHeader:
        heard = "it did not answer"
        while time.monotonic() < deadline:
            answer = _asked(own, self._hello)
            if answer is None:
                continue
            if answer.kind == PacketKind.WELCOME:
                return answer
            if answer.kind == PacketKind.WAITING:
                absent = _absent(answer.first, self._hello.workers)
                heard = f"it still waits for workers {absent}"
            elif answer.kind == PacketKind.REFUSED:
                why = _WHY.get(answer.flags, "it gives no reason")
                heard = why.format(
                    workers=answer.workers, own=self._hello.workers, count=answer.count
                )
                if answer.flags != Refusal.BUSY:
                    raise DisagreementError(f"aggregator {address}: {heard}")
            time.sleep(_RETRY)
        raise PeerError(f"aggregator {address}: {heard} within {self.timeout:g} s")

    def _exchange(self, packets: Packets, codes: PacketBytes, sums: PacketBytes) -> Exchanged:
        state = self._state
        assert state is not None
        if self._failure is not None:  # what waited behind it need not wait as long
            raise self._failure
        before = state.bytes_sent, state.bytes_received, state.resent
        trouble = native.exchange(state, packets, codes, sums, self._scratch)
        if trouble:
            self._failure = self._error(trouble, state)
            raise self._failure
        after = state.bytes_sent, state.bytes_received, state.resent
        return Exchanged(*(new - old for new, old in zip(after, before, strict=True)))

    def _error(self, trouble: int, state: native.WorkerState) -> FewbitsError:
        where = f"aggregator {self.addresses[state.culprit]}"
        if trouble == native.GONE:
            return PeerError(f"{where} has gone: nobody listens there any more")
        if trouble == native.LOST:
            return PeerError(f"{where} does not know this job: it was restarted, or a worker left")
        if trouble == native.SYSTEM:
            return PeerError(f"{where}: {os.strerror(state.error)}")
        what = "did not answer"
        if state.heard:
            what = f"waits for workers {_absent(state.present, self._hello.workers)}"
        return PeerError(f"{where} {what}: nothing for {self.timeout:g} s")


def _connected(address: Address) -> socket.socket:
    own = open_socket(address)
    try:
        own.connect(address)
    except OSError as error:
        own.close()
        raise SpecError(f"cannot reach {address}: {error.strerror}") from error
    own.settimeout(_RETRY)
    return own


def _asked(own: socket.socket, hello: PacketHeader) -> PacketHeader | None:
    """An answer to this job, if one comes soon."""
    try:
        own.send(hello.encode())
        answer = PacketHeader.decode(own.recv(1 << 16))
    except TimeoutError:
        return None
    except OSError:  # nobody listens there yet
        time.sleep(_RETRY)
        return None
    return answer if answer is not None and answer.job == hello.job else None


def _absent(present: int, workers: int) -> list[int]:
    return [worker for worker in range(workers) if not present >> worker & 1]
