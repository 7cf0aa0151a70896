"""Aggregators in threads, and a relay between them and their workers that injects faults."""

import random
import select
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import numpy as np

from fewbits import Rng
from fewbits.backend import library as _native
from fewbits.backend import switch as native_switch
from fewbits.reference import sealing
from fewbits.switch import aggregator
from fewbits.switch.aggregator import Aggregator, AggregatorSetup
from fewbits.switch.keys import SwitchKey
from fewbits.switch.protocol import Address, new_job
from fewbits.switch.worker import SwitchWorker

HOST = "127.0.0.1"
HEADER = 96


def serving(
    setup: AggregatorSetup, bind: Address | None = None, key: SwitchKey | None = None
) -> AbstractContextManager[Aggregator]:
    """An aggregator on this machine that answers until the end of the block."""
    return aggregator.serving(setup, bind or Address(HOST, 0), key)


class Relay:
    """Passes packets on, but loses, doubles and delays some of them, by a fixed seed."""

    def __init__(
        self,
        target: Address,
        seed: int,
        share: float,
        meddle: Callable[[bytes], Sequence[bytes]] = lambda _: (),
    ) -> None:
        self.lost = self.doubled = self.delayed = 0
        self.seen: list[bytes] = []  # what workers sent
        self._meddle = meddle  # what it adds before a packet, in either direction
        self._target, self._share, self._random = target, share, random.Random(seed)
        self._front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._front.bind((HOST, 0))
        self._backs: dict[Address, socket.socket] = {}
        self._held: list[tuple[socket.socket, bytes, Address]] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def address(self) -> Address:
        """Where workers believe the aggregator to be."""
        return Address(*self._front.getsockname())

    def close(self) -> None:
        """Stop passing on."""
        self._end.set()
        self._thread.join()
        for own in (self._front, *self._backs.values()):
            own.close()

    def _run(self) -> None:
        while not self._end.is_set():
            ready, _, _ = select.select([self._front, *self._backs.values()], [], [], 0.01)
            if not ready:
                self._release()
            for own in ready:
                try:
                    data, sender = own.recvfrom(65536)
                except ConnectionError:
                    continue
                if own is self._front:
                    self.seen.append(data)
                    back = self._backs.get(sender)
                    if back is None:
                        back = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                        self._backs[sender] = back
                    self._pass(back, data, self._target)
                else:
                    worker = next(w for w, back in self._backs.items() if back is own)
                    self._pass(self._front, data, worker)

    def _pass(self, through: socket.socket, data: bytes, to: Address) -> None:
        for more in self._meddle(data):
            through.sendto(more, to)
        chance = self._random.random()
        if chance < self._share:
            self.lost += 1
            return
        if chance < 2 * self._share:
            self.delayed += 1
            self._held.append((through, data, to))
            return
        through.sendto(data, to)
        if chance < 3 * self._share:
            self.doubled += 1
            through.sendto(data, to)
        if len(self._held) > 3:
            self._release()

    def _release(self) -> None:
        """Send what was held back, the last first."""
        while self._held:
            through, data, to = self._held.pop()
            through.sendto(data, to)


def table(size: int, chunk: int, key: bytes) -> np.ndarray:
    """The chunks of one unit."""
    chunks = np.zeros(-(-size // chunk), native_switch.PACKET_ROW)
    chunks["offset"] = chunks["first"] = np.arange(0, size, chunk)
    chunks["count"] = np.minimum(chunk, size - chunks["offset"].astype(np.int64))
    chunks["key"] = np.void(key)
    return chunks


def codes_of(worker: int, batch: int, size: int) -> np.ndarray:
    """Some codes of a worker."""
    source = np.random.default_rng((worker, batch))
    codes = source.integers(0, 50, size)
    return (codes + 128 * (source.integers(0, 2, size) * (codes > 0))).astype(np.uint8)


def exchanged(
    aggregators: Sequence[Address],
    workers: int,
    sizes: Sequence[int],
    chunk: int,
    timeout: float = 20.0,
    secret: SwitchKey | None = None,
) -> list[list[bytes]]:
    """What each worker receives, batch by batch."""
    job = new_job()

    def run(worker: int) -> list[bytes]:
        own = SwitchWorker(
            aggregators,
            job,
            worker=worker,
            workers=workers,
            chunk=chunk,
            timeout=timeout,
            key=secret,
        )
        try:
            own.join()
            found = []
            for batch, size in enumerate(sizes):
                key = Rng.from_seed(batch).key
                sums = np.zeros(size, np.uint8)
                chunks = table(size, chunk, key)
                own.start(chunks, codes_of(worker, batch, size), sums).result()
                found.append(sums.tobytes())
            together.wait()  # whoever leaves ends the job for all
            return found
        finally:
            own.close()

    together = threading.Barrier(workers, timeout=timeout)
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(run, range(workers)))


def packet(
    kind: int,
    *,
    job: int = 77,
    worker: int = 0,
    workers: int = 2,
    slot: int = 0,
    round: int = 0,
    codes: bytes = b"",
    count: int | None = None,
    flags: int = 0,
    key: bytes = bytes(16),
    first: int = 0,
    nonce: int = 0,
    sequence: int = 0,
    secret: SwitchKey | None = None,
    side: int = 0,
) -> bytes:
    """A packet of any content with a right checksum, or with the tag of one side by `secret`."""
    body = struct.pack(
        "<4sBBHQHHIQ16sQIIQQ", b"fwbs", 2, kind, flags, job, workers, worker, slot, round, key,
        first, len(codes) if count is None else count, 0, nonce, sequence,
    )  # fmt: skip
    return sealed(body + bytes(16) + codes, secret, side)


def sealed(data: bytes, secret: SwitchKey | None = None, side: int = 0) -> bytes:
    """The packet with its checksum or tag put right."""
    if secret is None:
        crc = _native.crc32c(np.frombuffer(data[:80], np.uint8))
        tag = struct.pack("<I12x", _native.crc32c(np.frombuffer(data[HEADER:], np.uint8), crc))
    else:
        job, nonce = struct.unpack_from("<8xQ48xQ", data)
        own = sealing.subkey(secret.root, job, nonce, side)
        tag = sealing.tag(own, data[:80] + data[HEADER:])
    return data[:80] + tag + data[HEADER:]
