"""The native core's functions for in-network aggregation through ctypes; `_native` has the rest."""

import ctypes
from ctypes import POINTER, byref, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

import numpy as np
import numpy.typing as npt

from fewbits._native import Bytes, _checked, _core, _expect, address, key_words

MOST_AGGREGATORS, MOST_SLOTS, MOST_CHUNK, MOST_WORKERS = 16, 4096, 65_408, 64
SILENT, GONE, LOST, SYSTEM = 40, 41, 42, 43
ALIGNMENT = 64  # bytes, of a state


class Span(ctypes.Structure):
    """The exponent of code 1, and the largest code."""

    _fields_ = (("bottom", c_int32), ("most", c_uint32))


class Tally(ctypes.Structure):
    """What encoding met."""

    _fields_ = (("saturated", c_uint64), ("below", c_uint64), ("nonfinite", c_uint64))
    saturated: int
    below: int
    nonfinite: int


class Setup(ctypes.Structure):
    """What an aggregator is made for; `idle` is in nanoseconds."""

    _fields_ = (
        ("workers", c_uint32),
        ("slots", c_uint32),
        ("chunk", c_uint32),
        ("reserved", c_uint32),
        ("idle", c_uint64),
    )
    chunk: int


STATISTICS = (
    *("packets", "bytes", "codes", "sums", "duplicates", "stale", "foreign", "malformed"),
    *("mismatched", "jobs", "nonfinite", "packets_sent", "bytes_sent"),
)


class Statistics(ctypes.Structure):
    """What an aggregator has met."""

    _fields_ = tuple((name, c_uint64) for name in STATISTICS)


class Action(ctypes.Structure):
    """What a packet asks an aggregator to do."""

    _fields_ = (
        ("what", c_uint32),
        ("size", c_uint32),
        ("offset", c_uint64),
        ("reply", ctypes.c_uint8 * 64),
    )
    what: int
    size: int
    offset: int
    reply: Any


class Client(ctypes.Structure):
    """A worker's side of a job."""

    _fields_ = (
        ("job", c_uint64),
        ("position", c_uint64),
        ("patience", c_uint64),
        ("round_trip", c_uint64),
        ("packets_sent", c_uint64),
        ("bytes_sent", c_uint64),
        ("packets_received", c_uint64),
        ("bytes_received", c_uint64),
        ("resent", c_uint64),
        ("strange", c_uint64),
        ("present", c_uint64),
        ("workers", c_uint32),
        ("worker", c_uint32),
        ("aggregators", c_uint32),
        ("slots", c_uint32),
        ("chunk", c_uint32),
        ("culprit", c_uint32),
        ("error", c_int32),
        ("heard", c_uint32),
        ("sockets", c_int32 * MOST_AGGREGATORS),
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
    sockets: Any


CHUNK = np.dtype(
    [
        ("offset", "<u8"),
        ("first", "<u8"),
        ("key", "V16"),
        ("count", "<u4"),
        ("flags", "<u2"),
        ("answer", "<u2"),
    ]
)

_KEY = c_uint32 * 4
for _name, _result, *_arguments in (
    (
        *("encode", c_int, c_void_p, c_size_t, _KEY, c_uint64, POINTER(Span), c_void_p),
        POINTER(Tally),
    ),
    ("add", c_int, c_void_p, c_size_t, c_uint32, c_void_p, c_int),
    ("round", c_int, c_void_p, c_size_t, _KEY, c_uint64, c_void_p),
    ("decode", c_int, c_void_p, c_size_t, c_uint32, c_void_p, c_void_p),
    ("size", c_size_t, POINTER(Setup)),
    ("init", c_int, c_void_p, c_size_t, POINTER(Setup)),
    (
        *("packet", c_int, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p, c_size_t),
        *(c_uint64, POINTER(Statistics), POINTER(Action)),
    ),
    ("scratch", c_size_t, c_uint32),
    (
        *("serve", c_int, c_void_p, c_size_t, c_int, c_uint64, c_void_p, c_size_t),
        POINTER(Statistics),
    ),
    ("client_scratch", c_size_t, POINTER(Client)),
    (
        *("exchange", c_int, POINTER(Client), c_void_p, c_size_t, c_void_p, c_void_p, c_size_t),
        *(c_void_p, c_size_t),
    ),
):
    _function = getattr(_core, f"fewbits_switch_{_name}")
    _function.restype, _function.argtypes = _result, _arguments


def encode(
    values: npt.NDArray[np.uint32], key: bytes, first: int, span: Span, codes: Bytes
) -> Tally:
    """Float32 bits to codes."""
    _expect(values, np.uint32)
    _expect_same(values, codes)
    tally = Tally()
    arguments = key_words(key), first, byref(span), address(codes), byref(tally)
    _checked(_core.fewbits_switch_encode(address(values), values.size, *arguments))
    return tally


def add(codes: Bytes, most: int, sums: npt.NDArray[np.int64], *, anew: bool = False) -> None:
    """Add codes to sums, or replace these; `DecodeError` for codes that no worker sends."""
    _expect(sums, np.int64)
    _expect_same(sums, codes)
    arguments = address(codes), codes.size, most, address(sums), int(not anew)
    _checked(_core.fewbits_switch_add(*arguments))


def round_sums(sums: npt.NDArray[np.int64], key: bytes, first: int, codes: Bytes) -> None:
    """Sums to codes."""
    _expect(sums, np.int64)
    _expect_same(sums, codes)
    arguments = sums.size, key_words(key), first, address(codes)
    _checked(_core.fewbits_switch_round(address(sums), *arguments))


def decode(
    codes: Bytes, most: int, table: npt.NDArray[np.uint32], values: npt.NDArray[np.uint32]
) -> None:
    """Codes to the bits that a table of 256 gives them."""
    _expect(values, np.uint32)
    _expect(table, np.uint32)
    _expect_same(values, codes)
    if table.size != 256:
        raise RuntimeError(f"a table has 256 entries, got {table.size}")
    arguments = address(codes), codes.size, most, address(table), address(values)
    _checked(_core.fewbits_switch_decode(*arguments))


def state_size(setup: Setup) -> int:
    """Bytes of an aggregator's state."""
    return int(_core.fewbits_switch_size(byref(setup)))


def state(setup: Setup) -> Bytes:
    """A new aggregator's state."""
    size = state_size(setup)
    room = np.zeros(size + ALIGNMENT, np.uint8)
    start = -address(room) % ALIGNMENT
    own = room[start : start + size]
    _checked(_core.fewbits_switch_init(address(own), own.size, byref(setup)))
    return own


def packet(
    state: Bytes, data: bytes, sender: bytes, now: int, statistics: Statistics
) -> tuple[int, bytes]:
    """What one packet asks for: an action, and the bytes to send."""
    action = Action()
    status = _core.fewbits_switch_packet(
        *(address(state), state.size, data, len(data), sender, len(sender), now),
        *(byref(statistics), byref(action)),
    )
    _checked(status)
    if action.what <= 1:
        return action.what, bytes(action.reply)[: action.size if action.what else 0]
    return action.what, state[action.offset : action.offset + action.size].tobytes()


def scratch(chunk: int) -> Bytes:
    """What `serve` needs."""
    return np.zeros(_core.fewbits_switch_scratch(chunk), np.uint8)


def serve(
    state: Bytes, socket: int, nanoseconds: int, scratch: Bytes, statistics: Statistics
) -> int:
    """Answer packets for a while."""
    own = address(state), state.size, socket, nanoseconds, address(scratch), scratch.size
    return int(_core.fewbits_switch_serve(*own, byref(statistics)))


def client_scratch(client: Client) -> Bytes:
    """What `exchange` needs."""
    return np.zeros(int(_core.fewbits_switch_client_scratch(byref(client))), np.uint8)


def exchange(
    client: Client, chunks: npt.NDArray[Any], codes: Bytes, sums: Bytes, scratch: Bytes
) -> int:
    """Send codes and receive their sums; 0 or a trouble."""
    if chunks.dtype != CHUNK or codes.size != sums.size:
        raise RuntimeError(f"{chunks.dtype} is no table of chunks, or the sums have another size")
    own = address(chunks), chunks.size, address(codes), address(sums), codes.size
    status = int(_core.fewbits_switch_exchange(byref(client), *own, address(scratch), scratch.size))
    if 0 < status < SILENT:
        _checked(status)
    return status


def _expect_same(values: npt.NDArray[Any], codes: Bytes) -> None:
    if codes.dtype != np.uint8 or codes.size != values.size:
        raise RuntimeError(f"{values.size} values are not {codes.size} codes of {codes.dtype}")
