"""zstd at two levels."""

from fewbits.lab.peers import lossless
from fewbits.lab.peers.peer import Gradient, Peer


def peers(gradient: Gradient) -> list[Peer]:
    """On the bytes of the vector."""
    return lossless.of("zstandard", gradient)
