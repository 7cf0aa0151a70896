"""General compressors on the bytes of the vector."""

import numpy as np

from fewbits.bench import coders
from fewbits.bench.coders import Coder
from fewbits.lab.peers.peer import Gradient, Message, Peer
from fewbits.lab.vectors import Values


def of(package: str, gradient: Gradient) -> list[Peer]:
    """The coders of a package; `ImportError` where it cannot be imported."""
    return [_peer(coder, gradient) for coder in coders.LOSSLESS if coder.package == package]


def _peer(coder: Coder, gradient: Gradient) -> Peer:
    package = coder.load()
    if package is None:
        raise ImportError(coder.package)
    decoder = coder.start(package, gradient.vector.view(np.uint8))

    def encode(x: Values) -> Message:
        return coder.start(package, x.view(np.uint8)).encode()

    def decode(message: Message) -> Values:
        values: Values = decoder.decode(message).view(np.float32)
        return values

    return Peer(coder.name, encode, decode, coders.message_size, "exact", "length")
