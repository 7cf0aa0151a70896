"""The packets between workers and aggregators; `docs/switch.md` describes every byte."""

import os
import socket
import struct
from dataclasses import dataclass
from enum import IntEnum
from hmac import compare_digest
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits.backend import crc32c
from fewbits.backend import switch as native
from fewbits.errors import SpecError

PORT = 48_320
PACKET_CODES = 8192  # codes of a packet; a unit of 65,536 is eight of them

PacketBytes = npt.NDArray[np.uint8]
Packets = npt.NDArray[Any]
"""Rows of `PACKET_ROW`: the codes that travel in one packet."""

_HEADER = struct.Struct("<4sBBHQHHIQ16sQIIQQ")
_TAG_BYTES = 16
_MAGIC, _VERSION = b"fwbs", 2
_BUFFER = 4 << 20  # bytes that a socket may hold for us


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


class PacketKind(IntEnum):
    """The kinds of packet except codes and sums, which only native code reads and writes."""

    JOIN = 1
    WELCOME = 2
    WAITING = 3
    REFUSED = 4
    LEAVE = 7
    CHALLENGE = 8
    ALIVE = 9


class Refusal(IntEnum):
    """Why an aggregator refuses a worker."""

    OTHER_WORKERS = 1
    OTHER_PACKETS = 2
    BUSY = 3


@dataclass(frozen=True, slots=True)
class PacketHeader:
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
    idle: int = 0
    nonce: int = 0
    sequence: int = 0

    def encode(self, key: bytes | None = None) -> bytes:
        """The packet, with a tag by `key` or a checksum."""
        body = _HEADER.pack(
            _MAGIC, _VERSION, self.kind, self.flags, self.job, self.workers, self.worker,
            self.slot, self.round, self.key, self.first, self.count, self.idle, self.nonce,
            self.sequence,
        )  # fmt: skip
        return body + _tag(body, key)

    @classmethod
    def decode(cls, data: bytes, key: bytes | None = None) -> "PacketHeader | None":
        """The header in `data`, or None if there is none, or if its tag is wrong."""
        if len(data) != _HEADER.size + _TAG_BYTES:
            return None
        body, given = data[: _HEADER.size], data[_HEADER.size :]
        magic, version, kind, flags, job, workers, worker, *rest = _HEADER.unpack(body)
        known = (magic, version) == (_MAGIC, _VERSION) and compare_digest(_tag(body, key), given)
        return cls(kind, job, workers, worker, flags, *rest) if known else None


def _tag(body: bytes, key: bytes | None) -> bytes:
    if key is not None:
        return native.tag(key, body)
    return struct.pack("<I12x", crc32c(np.frombuffer(body, np.uint8)))


def new_job() -> int:
    return int.from_bytes(os.urandom(8), "little") | 1


def open_socket(address: Address) -> socket.socket:
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
