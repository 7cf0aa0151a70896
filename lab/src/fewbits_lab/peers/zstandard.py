"""zstd at two levels."""

from fewbits_lab.peers import lossless
from fewbits_lab.peers.peer import Peer, PeerInput


def peers(gradient: PeerInput) -> list[Peer]:
    """Codecs that work on the bytes of the vector."""
    return lossless.of("zstandard", gradient)
