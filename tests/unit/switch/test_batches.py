"""Packets that come together: tags are checked and made for many at once, by every table."""

import socket

import numpy as np
import pytest

from fewbits import Rng
from fewbits.reference import switching
from fewbits.reference.switching import ExponentSpan
from fewbits.switch.aggregator import Aggregator, AggregatorSetup
from fewbits.switch.keys import SwitchKey
from fewbits.switch.protocol import Address
from switches import HEADER, HOST, codes_of, exchanged, packet, sealed, serving

SECRET = SwitchKey("a key of enough bytes")
JOIN, CODES, SUM = 1, 5, 6
KEY = Rng.from_seed(5).key
# Codes of the slots' packets: neighbours of the same length and of others, of every part of a tag's
# strides, less than one, and several.
SIZES = [1304, 1304, 1304, 1, 1, 432, 433, 431, 944, 944, 2000, 2000, 40]


class Client:
    """A worker's socket, and its packets by hand."""

    def __init__(self, worker: int, to: Address) -> None:
        self.worker, self.to, self.sequence, self.nonce = worker, to, 0, 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.settimeout(5)

    def send(self, kind: int, **more: object) -> None:
        self.sequence += 1
        given = {"nonce": self.nonce, "sequence": self.sequence, "worker": self.worker, **more}
        self.socket.sendto(packet(kind, secret=SECRET, **given), self.to)

    def forge(self, **more: object) -> None:
        """The same packet with one bit of its codes changed."""
        data = bytearray(
            packet(CODES, nonce=self.nonce, sequence=99, worker=self.worker, secret=SECRET, **more)
        )
        data[-1] ^= 2
        self.socket.sendto(data, self.to)

    def received(self) -> bytes:
        return self.socket.recv(65536)


def answered(own: Aggregator, packets: int) -> None:
    """Serve until so many packets have come in all."""
    for _ in range(500):
        if own.report()["packets"] >= packets:
            return
        own.serve_for(0.02)
    raise AssertionError("packets were lost")


def joined(own: Aggregator, clients: list[Client]) -> None:
    clients[0].send(JOIN, count=2000)
    answered(own, 1)
    nonce = int.from_bytes(clients[0].received()[48:56], "little")
    for client in clients:
        client.nonce = nonce
        client.send(JOIN, count=2000)
        answered(own, 2 + client.worker)
        client.received()


def expected(codes: list[np.ndarray]) -> bytes:
    sums = np.zeros(codes[0].size, np.int64)
    for own in codes:
        switching.add(own, ExponentSpan(2), sums)
    return switching.round_sums(sums, Rng(KEY), 3).tobytes()


@pytest.mark.usefixtures("simd")
def test_packets_of_one_batch_are_checked_and_answered_like_single_ones() -> None:
    setup = AggregatorSetup(2, slots=len(SIZES), chunk=2000)
    with Aggregator(Address(HOST, 0), setup, key=SECRET) as own:
        clients = [Client(worker, own.address) for worker in range(2)]
        joined(own, clients)
        codes = [[codes_of(w, slot, size) for w in range(2)] for slot, size in enumerate(SIZES)]
        for slot, pair in enumerate(codes):  # all wait in the socket before the first is read
            for client, mine in zip(clients, pair, strict=True):
                fields = {"slot": slot, "codes": mine.tobytes(), "key": KEY, "first": 3}
                if slot % 5 == client.worker:
                    client.forge(**fields)
                client.send(CODES, **fields)
        answered(own, 3 + 32)  # as many as one batch
        for client in clients:
            for slot in range(len(SIZES)):
                data = client.received()
                assert (data[5], int.from_bytes(data[20:24], "little")) == (SUM, slot)
                assert data[HEADER:] == expected(codes[slot])
                assert sealed(data, SECRET, side=1) == data
            client.socket.close()
        report = own.report()
    assert report["forged"] == sum(slot % 5 < 2 for slot in range(len(SIZES)))
    assert report["sums"] == len(SIZES)


@pytest.mark.usefixtures("simd")
def test_workers_with_a_key_receive_what_those_without_do() -> None:
    found = []
    for key in (None, SECRET):
        with serving(AggregatorSetup(2, 16, 1304), key=key) as own:
            found.append(exchanged([own.address], 2, [40_001], 1304, secret=key))
            assert own.report()["forged"] == 0
    assert found[0] == found[1]
