"""Codecs of others as their packages have them, for the table that compares them with ours.

They are optional: a package that is not installed has a row that says so. Each codec is called as
its package calls it, on one gradient, and what it would send is counted in full.
"""

from fewbits_lab.peers.peer import Family, Peer, PeerInput

FAMILIES: tuple[Family, ...] = (
    Family("fewbits", "ours"),
    Family("torch", "torch_hooks"),
    Family("hivemind", "hivemind", tried="1.1.12"),
    Family("bitsandbytes", "bitsandbytes", tried="0.50.2"),
    Family("zstandard", "zstandard"),
    Family("blosc2", "blosc2"),
)

__all__ = ["FAMILIES", "Family", "Peer", "PeerInput"]
