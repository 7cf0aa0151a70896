"""A worker of in-network aggregation: sends codes to aggregators and receives their sums."""

import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from fewbits.backend import switch as native
from fewbits.errors import FewbitsError, PeerError, SpecError
from fewbits.switch.keys import SwitchKey
from fewbits.switch.line import Line, absent
from fewbits.switch.protocol import Address, PacketBytes, PacketHeader, PacketKind, Packets

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
        key: SwitchKey | None = None,
    ) -> None:
        if not 1 <= len(aggregators) <= native.MOST_AGGREGATORS:
            most = native.MOST_AGGREGATORS
            raise SpecError(f"there can be 1 to {most} aggregators, got {len(aggregators)}")
        if not 1 <= chunk <= native.MOST_PACKET_CODES:
            raise SpecError(f"a packet holds 1 to {native.MOST_PACKET_CODES} codes, not {chunk}")
        self.addresses = [Address.of(a) if isinstance(a, str) else a for a in aggregators]
        self.chunk, self.timeout = chunk, timeout
        self._hello = PacketHeader(PacketKind.JOIN, job, workers, worker, count=chunk)
        self._key = key
        self._lines: list[Line] = []
        self._closing = threading.Event()
        self._pulse: threading.Thread | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fewbits-switch")
        self._state: native.WorkerState | None = None
        self._failure: FewbitsError | None = None
        try:
            for address in self.addresses:
                self._lines.append(Line(address, self._hello, key))
        except BaseException:
            self.close()
            raise

    def join(self) -> None:
        """Wait until all workers have joined all aggregators."""
        deadline = time.monotonic() + self.timeout
        self._pulse = threading.Thread(target=self._live, name="fewbits-switch-pulse", daemon=True)
        self._pulse.start()
        welcomes = [line.join(deadline, self.timeout) for line in self._lines]
        state = self._state = native.WorkerState(
            job=self._hello.job,
            patience=int(1e9 * self.timeout),
            workers=self._hello.workers,
            worker=self._hello.worker,
            aggregators=len(self._lines),
            slots=min(_WINDOW, *(welcome.slot for welcome in welcomes)),
            chunk=self.chunk,
            keyed=int(self._key is not None),
        )
        for number, line in enumerate(self._lines):
            line.socket.setblocking(True)
            state.sockets[number], state.nonces[number] = line.socket.fileno(), line.nonce
            if self._key is not None:
                state.up[number], state.down[number] = map(native.secret, (line.up, line.down))
        self._scratch = native.worker_scratch(state)

    def start(self, packets: Packets, codes: PacketBytes, sums: PacketBytes) -> "Future[Exchanged]":
        """Begin to send codes; the future ends when `sums` and the answers in `packets` arrived.

        It raises `PeerError` if an aggregator or a worker does not answer in time.
        """
        return self._thread.submit(self._exchange, packets, codes, sums)

    def close(self) -> None:
        """Leave the job, which ends it for all."""
        self._thread.shutdown(cancel_futures=True)
        self._closing.set()
        if self._pulse is not None:
            self._pulse.join()
        for line in self._lines:
            if line.joined:
                line.say(PacketKind.LEAVE)
            line.socket.close()
        self._lines.clear()

    def _live(self) -> None:
        """Tell the aggregators that this worker is alive, however long its job is silent."""
        while not self._closing.wait(min(line.silence for line in self._lines)):
            for line in self._lines:
                if line.joined:
                    line.say(PacketKind.ALIVE)

    def _exchange(self, packets: Packets, codes: PacketBytes, sums: PacketBytes) -> Exchanged:
        state = self._state
        assert state is not None
        if self._failure is not None:  # what waited behind it need not wait as long
            raise self._failure
        before = state.bytes_sent, state.bytes_received, state.resent
        trouble = native.exchange(state, packets, codes, sums, self._scratch)
        if trouble:
            self._failure = self._error(trouble, state)
            self._closing.set()  # a job that has failed must not look alive
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
            what = f"waits for workers {absent(state.present, self._hello.workers)}"
        return PeerError(f"{where} {what}: nothing for {self.timeout:g} s")
