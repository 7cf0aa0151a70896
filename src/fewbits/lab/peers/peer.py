"""What a peer is: a codec of some package, with what is known about it."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

from fewbits.lab.vectors import Values

Message = Any  # whatever a package makes of a vector


class Gradient(NamedTuple):
    """A gradient as one vector, and the shapes of the parameters that it is made of."""

    vector: Values
    shapes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Peer:
    """A codec. `size` counts all that must be sent, codes, scales and tables.

    `bias`: "exact", "unbiased" or "biased". `describes`: what a decoder learns from the bytes
    alone, "all", "length" or "nothing". `decodes`: whether `decode` is the package's own.
    """

    name: str
    encode: Callable[[Values], Message]
    decode: Callable[[Message], Values]
    size: Callable[[Message], int]
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

    def make(self, gradient: Gradient) -> list[Peer]:
        """Its codecs; `ImportError` where the package cannot be imported."""
        module = import_module(f"fewbits.lab.peers.{self.module}")
        peers: list[Peer] = module.peers(gradient)
        return peers
