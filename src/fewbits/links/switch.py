"""A worker of in-network aggregation: sends codes to aggregators and receives their sums."""

import contextlib
import os
import socket
import struct
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from fewbits import _native, _native_switch
from fewbits.errors import DisagreementError, FewbitsError, PeerError, SpecError
from fewbits.links.aggregator import Address, opened
from fewbits.schemes.switched import Bytes, Chunks, Exchanged

_HEADER = struct.Struct("<4sBBHQHHIQ16sQI")
_MAGIC, _VERSION = b"fwbs", 1
_JOIN, _WELCOME, _WAITING, _REFUSED, _LEAVE = 1, 2, 3, 4, 7
_WHY = {
    1: "it serves another number of workers: {workers}, this job has {own}",
    2: "its packets hold at most {count} codes, or ranks disagree on their size",
    3: "it is busy with another job, or an earlier one did not end well",
}
_BUSY = 3
_RETRY = 0.05  # seconds between two words to an aggregator that has not answered
WINDOW = 64  # slots of an aggregator that a job uses at most


@dataclass(frozen=True, slots=True)
class Header:
    """A packet without codes."""

    kind: int
    job: int
    workers: int
    worker: int
    flags: int = 0
    slot: int = 0
    round: int = 0
    key: bytes = bytes(16)
    first: int = 0
    count: int = 0

    def encode(self) -> bytes:
        """Its bytes."""
        body = _HEADER.pack(
            _MAGIC, _VERSION, self.kind, self.flags, self.job, self.workers, self.worker,
            self.slot, self.round, self.key, self.first, self.count,
        )  # fmt: skip
        return body + struct.pack("<I", _native.crc32c(np.frombuffer(body, np.uint8)))

    @classmethod
    def decode(cls, data: bytes) -> "Header | None":
        """The header in `data`, if it is one."""
        if len(data) != _HEADER.size + 4:
            return None
        magic, version, kind, flags, job, workers, worker, *rest = _HEADER.unpack(data[:-4])
        header = cls(kind, job, workers, worker, flags, *rest)
        known = (magic, version) == (_MAGIC, _VERSION) and header.encode() == data
        return header if known else None


class SwitchWorker:
    """One worker of a job; exchanges run one after the other in a thread of its own."""

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
        if not 1 <= len(aggregators) <= _native_switch.MOST_AGGREGATORS:
            most = _native_switch.MOST_AGGREGATORS
            raise SpecError(f"there can be 1 to {most} aggregators, got {len(aggregators)}")
        if not 1 <= chunk <= _native_switch.MOST_CHUNK:
            raise SpecError(f"a packet holds 1 to {_native_switch.MOST_CHUNK} codes, not {chunk}")
        self.addresses = [Address.of(a) if isinstance(a, str) else a for a in aggregators]
        self.chunk, self.timeout = chunk, timeout
        self._hello = Header(_JOIN, job, workers, worker, count=chunk)
        self._sockets: list[socket.socket] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fewbits-switch")
        self._client: _native_switch.Client | None = None
        self._failure: FewbitsError | None = None
        try:
            for address in self.addresses:
                self._sockets.append(_connected(address))
        except BaseException:
            self.close()
            raise

    def join(self) -> None:
        """Wait until all workers have come to all aggregators."""
        deadline = time.monotonic() + self.timeout
        welcomes = [
            self._joined(own, address, deadline)
            for own, address in zip(self._sockets, self.addresses, strict=True)
        ]
        client = self._client = _native_switch.Client(
            job=self._hello.job,
            patience=int(1e9 * self.timeout),
            workers=self._hello.workers,
            worker=self._hello.worker,
            aggregators=len(self._sockets),
            slots=min(WINDOW, *(welcome.slot for welcome in welcomes)),
            chunk=self.chunk,
        )
        for number, own in enumerate(self._sockets):
            own.setblocking(True)
            client.sockets[number] = own.fileno()
        self._scratch = _native_switch.client_scratch(client)

    def start(self, chunks: Chunks, codes: Bytes, sums: Bytes) -> "Future[Exchanged]":
        """Begin to send codes; the future ends when `sums` and the answers in `chunks` are there.

        It raises `PeerError` if an aggregator or a worker does not answer in time.
        """
        return self._thread.submit(self._exchange, chunks, codes, sums)

    def close(self) -> None:
        """Leave the job, which ends it for all."""
        self._thread.shutdown(cancel_futures=True)
        for own in self._sockets:
            if self._client is not None:
                with contextlib.suppress(OSError):  # it has gone before us
                    own.send(replace(self._hello, kind=_LEAVE, count=0).encode())
            own.close()
        self._sockets.clear()

    def _joined(self, own: socket.socket, address: Address, deadline: float) -> Header:
        """The aggregator's welcome."""
        heard = "it did not answer"
        while time.monotonic() < deadline:
            answer = _asked(own, self._hello)
            if answer is None:
                continue
            if answer.kind == _WELCOME:
                return answer
            if answer.kind == _WAITING:
                absent = _absent(answer.first, self._hello.workers)
                heard = f"it still waits for workers {absent}"
            elif answer.kind == _REFUSED:
                why = _WHY.get(answer.flags, "it gives no reason")
                heard = why.format(
                    workers=answer.workers, own=self._hello.workers, count=answer.count
                )
                if answer.flags != _BUSY:
                    raise DisagreementError(f"aggregator {address}: {heard}")
            time.sleep(_RETRY)
        raise PeerError(f"aggregator {address}: {heard} within {self.timeout:g} s")

    def _exchange(self, chunks: Chunks, codes: Bytes, sums: Bytes) -> Exchanged:
        client = self._client
        assert client is not None
        if self._failure is not None:  # what waited behind it need not wait as long
            raise self._failure
        before = client.bytes_sent, client.bytes_received, client.resent
        trouble = _native_switch.exchange(client, chunks, codes, sums, self._scratch)
        if trouble:
            self._failure = self._error(trouble, client)
            raise self._failure
        after = client.bytes_sent, client.bytes_received, client.resent
        return Exchanged(*(new - old for new, old in zip(after, before, strict=True)))

    def _error(self, trouble: int, client: _native_switch.Client) -> FewbitsError:
        where = f"aggregator {self.addresses[client.culprit]}"
        if trouble == _native_switch.GONE:
            return PeerError(f"{where} has gone: nobody listens there any more")
        if trouble == _native_switch.LOST:
            return PeerError(f"{where} does not know this job: it was restarted, or a worker left")
        if trouble == _native_switch.SYSTEM:
            return PeerError(f"{where}: {os.strerror(client.error)}")
        what = "did not answer"
        if client.heard:
            what = f"waits for workers {_absent(client.present, self._hello.workers)}"
        return PeerError(f"{where} {what}: nothing for {self.timeout:g} s")


def _connected(address: Address) -> socket.socket:
    own = opened(address)
    try:
        own.connect(address)
    except OSError as error:
        own.close()
        raise SpecError(f"cannot reach {address}: {error.strerror}") from error
    own.settimeout(_RETRY)
    return own


def _asked(own: socket.socket, hello: Header) -> Header | None:
    """An answer to this job, if one comes soon."""
    try:
        own.send(hello.encode())
        answer = Header.decode(own.recv(1 << 16))
    except TimeoutError:
        return None
    except OSError:  # nobody listens there yet
        time.sleep(_RETRY)
        return None
    return answer if answer is not None and answer.job == hello.job else None


def _absent(present: int, workers: int) -> list[int]:
    return [worker for worker in range(workers) if not present >> worker & 1]
