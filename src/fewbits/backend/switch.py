"""The native core's functions for in-network aggregation through ctypes.

`fewbits.reference.switching` specifies those for codes and sums.
"""

import ctypes
import os
from ctypes import POINTER, byref, c_int, c_int32, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits.backend.library import (
    _SIZED,
    Bytes,
    _checked,
    _core,
    _expect,
    address,
    alike,
    key_words,
    sized,
)
from fewbits.reference.switching import MOST_SUM, CodeTally, ExponentSpan
from fewbits.rng import Rng

MOST_AGGREGATORS, MOST_SLOTS, MOST_PACKET_CODES = 16, 4096, 65_408
SILENT, GONE, LOST, SYSTEM = 40, 41, 42, 43
ALIGNMENT = 64  # bytes, of a state
HEADER_BYTES, _SECRET_BYTES, _TAG_BYTES = 96, 32, 16
_Secret = c_uint8 * _SECRET_BYTES
_Tag = c_uint8 * _TAG_BYTES


class _Span(ctypes.Structure):
    """The exponent of code 1, and the largest code."""

    _fields_ = (("bottom", c_int32), ("most", c_uint32))


class _Tally(ctypes.Structure):
    """The tally of encoding."""

    _fields_ = alike(c_uint64, "saturated", "below", "nonfinite")
    saturated: int
    below: int
    nonfinite: int


class _Setup(ctypes.Structure):
    """The sizes of an aggregator; `idle` is in nanoseconds."""

    _fields_ = (
        *alike(c_uint32, "workers", "slots", "chunk", "keyed"),
        ("idle", c_uint64),
        *alike(_Secret, "key", "random"),
    )
    chunk: int
    key: Any
    random: Any


COUNTERS = (
    *("packets", "bytes", "codes", "sums", "duplicates", "stale", "foreign", "malformed"),
    *("mismatched", "forged", "replayed", "jobs", "nonfinite", "packets_sent", "bytes_sent"),
)


class Statistics(ctypes.Structure):
    """The counts of an aggregator."""

    _fields_ = alike(c_uint64, *COUNTERS)


class _Action(ctypes.Structure):
    """The action that a packet asks for."""

    _fields_ = (
        *alike(c_uint32, "what", "size"),
        ("offset", c_uint64),
        ("reply", c_uint8 * HEADER_BYTES),
    )
    what: int
    size: int
    offset: int
    reply: Any


class WorkerState(ctypes.Structure):
    """A worker's side of a job."""

    _fields_ = (
        *alike(c_uint64, "job", "position", "patience", "round_trip", "packets_sent", "bytes_sent"),
        *alike(c_uint64, "packets_received", "bytes_received", "resent", "strange", "forged"),
        ("present", c_uint64),
        *alike(c_uint32, "workers", "worker", "aggregators", "slots", "chunk", "culprit"),
        *(("reserved", c_uint32), ("error", c_int32)),
        *alike(c_uint32, "heard", "keyed"),
        ("sockets", c_int32 * MOST_AGGREGATORS),
        *alike(c_uint64 * MOST_AGGREGATORS, "nonces", "sequences"),
        *alike(_Secret * MOST_AGGREGATORS, "up", "down"),
    )
    position: int
    packets_sent: int
    bytes_sent: int
    bytes_received: int
    resent: int
    present: int
    culprit: int
    error: int
    heard: int
    keyed: int
    forged: int
    sockets: Any
    nonces: Any
    up: Any
    down: Any


PACKET_ROW = np.dtype(
    [
        *alike("<u8", "offset", "first"),
        ("key", "V16"),
        ("count", "<u4"),
        *alike("<u2", "flags", "answer"),
    ]
)

_KEY = c_uint32 * 4
for _name, _result, *_arguments in (
    ("encode", c_int, *_SIZED, _KEY, c_uint64, POINTER(_Span), c_void_p, POINTER(_Tally)),
    ("add", c_int, *_SIZED, c_uint32, c_void_p, c_int),
    ("round", c_int, *_SIZED, _KEY, c_uint64, c_void_p),
    ("decode", c_int, *_SIZED, c_uint32, c_void_p, c_void_p),
    ("tag", c_int, _Secret, c_void_p, c_size_t, _Tag),
    ("subkey", c_int, _Secret, c_uint64, c_uint64, c_uint32, _Secret),
    ("size", c_size_t, POINTER(_Setup)),
    ("init", c_int, *_SIZED, POINTER(_Setup)),
    ("packet", c_int, *_SIZED * 3, c_uint64, POINTER(Statistics), POINTER(_Action)),
    ("scratch", c_size_t, c_uint32),
    ("serve", c_int, *_SIZED, c_int, c_uint64, *_SIZED, POINTER(Statistics)),
    ("client_scratch", c_size_t, POINTER(WorkerState)),
    ("exchange", c_int, POINTER(WorkerState), *_SIZED, c_void_p, *_SIZED * 2),
):
    _function = getattr(_core, f"fewbits_switch_{_name}")
    _function.restype, _function.argtypes = _result, _arguments


def encode(
    bits: npt.NDArray[np.uint32], span: ExponentSpan, rng: Rng, codes: Bytes, first: int = 0
) -> CodeTally:
    """Float32 bits to codes."""
    _expect_same(bits, codes)
    own, met = _Span(span.bottom, span.most), _Tally()
    arguments = key_words(rng.key), first, byref(own), address(codes), byref(met)
    _checked(_core.fewbits_switch_encode(*sized(bits, np.uint32), *arguments))
    return CodeTally(met.saturated, met.below, met.nonfinite)


def add(
    codes: Bytes, span: ExponentSpan, sums: npt.NDArray[np.int64], *, anew: bool = False
) -> None:
    """Add codes to sums, or replace these; `DecodeError` for codes that no worker sends."""
    _expect(sums, np.int64)
    _expect_same(sums, codes)
    arguments = address(codes), codes.size, span.most, address(sums), int(not anew)
    _checked(_core.fewbits_switch_add(*arguments))


def round_sums(sums: npt.NDArray[np.int64], rng: Rng, codes: Bytes, first: int = 0) -> None:
    """Sums to codes."""
    _expect_same(sums, codes)
    arguments = key_words(rng.key), first, address(codes)
    _checked(_core.fewbits_switch_round(*sized(sums, np.int64), *arguments))


def decode(codes: Bytes, table: npt.NDArray[np.uint32], values: npt.NDArray[np.uint32]) -> None:
    """Codes of sums to the bits that a table of 256 gives them."""
    _expect(values, np.uint32)
    _expect(table, np.uint32)
    _expect_same(values, codes)
    if table.size != 256:
        raise RuntimeError(f"a table has 256 entries, got {table.size}")
    arguments = address(codes), codes.size, MOST_SUM, address(table), address(values)
    _checked(_core.fewbits_switch_decode(*arguments))


def secret(key: bytes) -> Any:
    """A key as the core takes it."""
    return _Secret.from_buffer_copy(key)


def tag(key: bytes, data: bytes) -> bytes:
    """The tag of a packet's other bytes."""
    own = _Tag()
    _checked(_core.fewbits_switch_tag(secret(key), data, len(data), own))
    return bytes(own)


def subkey(root: bytes, job: int, nonce: int, side: int) -> bytes:
    """The key of one side's packets of a job."""
    own = _Secret()
    _checked(_core.fewbits_switch_subkey(secret(root), job, nonce, side, own))
    return bytes(own)


def state_size(workers: int, slots: int, packet_codes: int) -> int:
    setup = _Setup(workers, slots, packet_codes)
    return int(_core.fewbits_switch_size(byref(setup)))


def state(
    workers: int, slots: int, packet_codes: int, idle: float, key: bytes | None = None
) -> Bytes:
    """A new aggregator's state; after `idle` seconds of silence it takes another job."""
    setup = _Setup(workers, slots, packet_codes, int(key is not None), int(1e9 * idle))
    setup.random = secret(os.urandom(_SECRET_BYTES))
    if key is not None:
        setup.key = secret(key)
    size = state_size(workers, slots, packet_codes)
    room = np.zeros(size + ALIGNMENT, np.uint8)
    start = -address(room) % ALIGNMENT
    own = room[start : start + size]
    _checked(_core.fewbits_switch_init(address(own), own.size, byref(setup)))
    return own


def packet(
    state: Bytes, data: bytes, sender: bytes, now: int, statistics: Statistics
) -> tuple[int, bytes]:
    """The answer to one packet: an action, and the bytes to send."""
    action = _Action()
    status = _core.fewbits_switch_packet(
        *(address(state), state.size, data, len(data), sender, len(sender), now),
        *(byref(statistics), byref(action)),
    )
    _checked(status)
    if action.what <= 1:
        return action.what, bytes(action.reply)[: action.size if action.what else 0]
    return action.what, state[action.offset : action.offset + action.size].tobytes()


def scratch(packet_codes: int) -> Bytes:
    return np.zeros(_core.fewbits_switch_scratch(packet_codes), np.uint8)


def serve(
    state: Bytes, socket: int, nanoseconds: int, scratch: Bytes, statistics: Statistics
) -> int:
    """Answer packets for a while."""
    own = address(state), state.size, socket, nanoseconds, address(scratch), scratch.size
    return int(_core.fewbits_switch_serve(*own, byref(statistics)))


def worker_scratch(worker: WorkerState) -> Bytes:
    return np.zeros(int(_core.fewbits_switch_client_scratch(byref(worker))), np.uint8)


def exchange(
    worker: WorkerState, packets: npt.NDArray[Any], codes: Bytes, sums: Bytes, scratch: Bytes
) -> int:
    """Send codes and receive their sums; 0 or a trouble."""
    if packets.dtype != PACKET_ROW or codes.size != sums.size:
        raise RuntimeError(f"{packets.dtype} is no table of packets, or the sums have another size")
    own = address(packets), packets.size, address(codes), address(sums), codes.size
    status = int(_core.fewbits_switch_exchange(byref(worker), *own, address(scratch), scratch.size))
    if 0 < status < SILENT:
        _checked(status)
    return status


def _expect_same(values: npt.NDArray[Any], codes: Bytes) -> None:
    if codes.dtype != np.uint8 or codes.size != values.size:
        raise RuntimeError(f"{values.size} values are not {codes.size} codes of {codes.dtype}")
