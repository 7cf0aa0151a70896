"""hivemind's codecs, each as the bytes of its protobuf message.

hivemind 1.1.12 reads lengths in a way that NumPy 2.4 and later refuse, so its codecs of 8 bits
encode and cannot decode there. They are then decoded here by the table that their message holds,
and the note says so; that decoding is not timed.
"""

from importlib import import_module
from typing import Any

import numpy as np
import torch

from fewbits_lab.peers.peer import Peer, PeerInput, PeerMessage
from fewbits_lab.vectors import VectorValues

CODECS = ("FLOAT16", "MEANSTD_16BIT", "UNIFORM_8BIT", "QUANTILE_8BIT", "BLOCKWISE_8BIT")
_LENGTH = 8  # bytes of a length in a message


def peers(_: PeerInput) -> list[Peer]:
    """All of its codecs that lose something."""
    compression = import_module("hivemind.compression")
    wire = import_module("hivemind.proto.runtime_pb2")
    return [_peer(name, compression, wire) for name in CODECS]


def _peer(name: str, compression: Any, wire: Any) -> Peer:
    kind = getattr(wire, name)

    def encode(x: VectorValues) -> PeerMessage:
        own = compression.serialize_torch_tensor(torch.from_numpy(x), kind)
        return own.SerializeToString()

    def decode(message: PeerMessage) -> VectorValues:
        values: VectorValues = compression.deserialize_torch_tensor(
            wire.Tensor.FromString(message)
        ).numpy()
        return values

    def looked_up(message: PeerMessage) -> VectorValues:
        return _by_table(wire.Tensor.FromString(message).buffer)

    if name in ("UNIFORM_8BIT", "QUANTILE_8BIT") and not _decodes(encode, decode):
        note = "its own decoder fails with this NumPy; decoded by the table in its message"
        return Peer(name, encode, looked_up, len, "biased", "all", decodes=False, note=note)
    return Peer(name, encode, decode, len, "biased", "all")


def _decodes(encode: Any, decode: Any) -> bool:
    try:
        decode(encode(np.linspace(-1, 1, 1024, dtype=np.float32)))
    except TypeError:
        return False
    return True


def _by_table(buffer: bytes) -> VectorValues:
    """A length, so many float32 values, and for each value of the vector its place among them."""
    length = int.from_bytes(buffer[:_LENGTH], "little")
    table = np.frombuffer(buffer, np.float32, length, _LENGTH)
    values: VectorValues = table[np.frombuffer(buffer, np.uint8, offset=_LENGTH + table.nbytes)]
    return values
