"""Trees of plain values between ranks: what a rank knows and others need once, as bytes.

A tree is made of dictionaries, lists, tuples, numbers, texts and arrays. It travels as JSON and the
arrays' bytes, so reading one executes nothing.
"""

import json
from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from fewbits.backend.buffers import Buffer
from fewbits.collectives.comm import Comm, exchange
from fewbits.errors import DisagreementError, SpecError

_PLAIN = (type(None), bool, int, float, str)
_LENGTH = 8  # bytes before the text


def packed(tree: Any) -> bytes:
    """A tree as bytes; `SpecError` names what has no place in one."""
    arrays: list[bytes] = []
    text = json.dumps(_plain(tree, "the state", arrays)).encode()
    return b"".join([len(text).to_bytes(_LENGTH, "little"), text, *arrays])


def unpacked(content: bytes) -> Any:
    """The tree in bytes of `packed`; `DisagreementError` for others."""
    try:
        end = _LENGTH + int.from_bytes(content[:_LENGTH], "little")
        return _made(json.loads(content[_LENGTH:end]), memoryview(content)[end:])
    except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        raise DisagreementError(f"another rank sent a state that makes no sense: {error}") from None


def swapped(comm: Comm, outgoing: Sequence[bytes]) -> list[bytes]:
    """Send bytes r to rank r; what all ranks have sent to this one, lengths first."""
    told = numbers_of_all(comm, [len(each) for each in outgoing])
    sizes = [told[rank][comm.rank] for rank in range(comm.size)]
    if min(sizes) < 0:
        raise DisagreementError(f"ranks announce states of {sizes} bytes")
    received = [np.zeros(size, np.uint8) for size in sizes]
    sent = [Buffer.of(np.frombuffer(bytearray(each), np.uint8)) for each in outgoing]
    if comm.size > 1:
        exchange(comm, (sent, [Buffer.of(each) for each in received]))
    received[comm.rank] = sent[comm.rank].array()
    return [each.tobytes() for each in received]


def numbers_of_all(comm: Comm, own: Sequence[int]) -> list[list[int]]:
    """The numbers of every rank; all ranks give equally many."""
    told = [np.zeros(len(own), np.int64) for _ in range(comm.size)]
    told[comm.rank][:] = own
    if comm.size > 1:
        buffers = [Buffer.of(each) for each in told]
        exchange(comm, ([buffers[comm.rank]] * comm.size, buffers))
    return [each.tolist() for each in told]


def _plain(value: Any, path: str, arrays: list[bytes]) -> Any:
    """A value as JSON has it; arrays go behind the text."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        arrays.append(np.ascontiguousarray(value).tobytes())
        return {"array": [value.dtype.str, *value.shape]}
    if type(value) in (list, tuple):
        own = [_plain(each, f"{path}[{i}]", arrays) for i, each in enumerate(value)]
        return {type(value).__name__: own}
    if type(value) in (dict, OrderedDict, Counter):
        pairs = []
        for key, each in value.items():
            if type(key) not in (int, str):
                raise SpecError(f"{path} has the key {key!r}: only texts and whole numbers travel")
            pairs.append([key, _plain(each, f"{path}[{key!r}]", arrays)])
        return {"Counter" if type(value) is Counter else "dict": pairs}
    raise SpecError(
        f"{path} is {type(value).__name__}: only tensors, numbers, texts, lists and dictionaries "
        "of them travel to other ranks"
    )


def _made(plain: Any, room: memoryview) -> Any:
    """The value of its JSON; arrays are read from `room` in the order of the text."""
    at = 0

    def made(own: Any) -> Any:
        nonlocal at
        if not isinstance(own, dict):
            if type(own) in _PLAIN:
                return own
            raise ValueError(f"{type(own).__name__} without a kind")
        ((kind, content),) = own.items()
        if kind == "array":
            dtype, shape = np.dtype(content[0]), tuple(content[1:])
            if dtype.kind not in "biuf" or any(type(n) is not int or n < 0 for n in shape):
                raise ValueError(f"an array of {dtype} {shape}")
            count = int(np.prod(shape, dtype=object)) if shape else 1
            array = np.frombuffer(room, dtype, count, at) if count else np.empty(0, dtype)
            at += array.nbytes
            return array.reshape(shape).copy()
        if kind in ("list", "tuple"):
            parts = [made(each) for each in content]
            return parts if kind == "list" else tuple(parts)
        pairs = {key: made(each) for key, each in content}
        return {"dict": dict, "Counter": Counter}[kind](pairs)

    tree = made(plain)
    if at != len(room):
        raise ValueError(f"{len(room)} bytes of arrays, {at} of them named")
    return tree
