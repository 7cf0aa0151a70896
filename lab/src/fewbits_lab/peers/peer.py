"""The interface of a peer: a codec of another package."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

from fewbits_lab.vectors import VectorValues

PeerMessage = Any  # whatever a package makes of a vector


class PeerInput(NamedTuple):
    """A gradient as one vector, and the shapes of the parameters that it is made of."""

    vector: VectorValues
    shapes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Peer:
    """A codec. `size` counts all that must be sent, codes, scales and tables.

    `bias`: "exact", "unbiased" or "biased". `describes`: what a decoder learns from the bytes
    alone, "all", "length" or "nothing". `decodes`: whether `decode` is the package's own.
    """

    name: str
    encode: Callable[[VectorValues], PeerMessage]
    decode: Callable[[PeerMessage], VectorValues]
    size: Callable[[PeerMessage], int]
    bias: str
    describes: str
    checksum: bool = False
    decodes: bool = True
    note: str = ""


class Family(NamedTuple):
    """The codecs of a package, made by a module here; `tried` is the version it was written for."""

    package: str
    module: str
    tried: str = ""

    def make(self, gradient: PeerInput) -> list[Peer]:
        """The codecs of the package; `ImportError` if it cannot be imported."""
        module = import_module(f"fewbits_lab.peers.{self.module}")
        peers: list[Peer] = module.peers(gradient)
        return peers
