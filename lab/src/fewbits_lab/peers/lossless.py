"""General compressors on the bytes of the vector."""

import numpy as np

from fewbits_lab.coders import candidates as coders
from fewbits_lab.coders.candidates import Coder
from fewbits_lab.peers.peer import Peer, PeerInput, PeerMessage
from fewbits_lab.vectors import VectorValues


def of(package: str, gradient: PeerInput) -> list[Peer]:
    """The coders of a package; `ImportError` where it cannot be imported."""
    return [_peer(coder, gradient) for coder in coders.LOSSLESS if coder.package == package]


def _peer(coder: Coder, gradient: PeerInput) -> Peer:
    package = coder.load()
    if package is None:
        raise ImportError(coder.package)
    decoder = coder.start(package, gradient.vector.view(np.uint8))

    def encode(x: VectorValues) -> PeerMessage:
        return coder.start(package, x.view(np.uint8)).encode()

    def decode(message: PeerMessage) -> VectorValues:
        values: VectorValues = decoder.decode(message).view(np.float32)
        return values

    name = coder.name.removeprefix(f"{coder.package} ")
    return Peer(name, encode, decode, coders.message_size, "exact", "length")
