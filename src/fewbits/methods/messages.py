"""Messages between clients and the server: frames of float32, and how many bytes they take."""

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from operator import add
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fewbits import codec, registry
from fewbits.core.operator import Operator
from fewbits.errors import DecodeError
from fewbits.reference.formats import FLOAT32
from fewbits.rng import Rng
from fewbits.wire import frame as wire

IDENTITY = registry.operator("identity")
RealVector = npt.NDArray[np.float64]


class Message(NamedTuple):
    """A frame and its decoded vector."""

    frame: bytes
    value: RealVector


def encode(values: RealVector, operator: Operator, rng: Rng) -> Message:
    """Compress the values, rounded to float32, and decode them as the receiver will."""
    frame = bytes(codec.compress(values.astype(np.float32), operator, seed=rng, threads=1))
    return Message(frame, decode(frame, values.size))


def decode(frame: bytes, d: int) -> RealVector:
    """The vector of `d` values in a frame; `DecodeError` if there is none."""
    value = codec.decompress(frame, max_elements=d, threads=1)
    if value.shape != (d,) or value.dtype != np.float32:
        raise DecodeError(f"expected {d} values of float32, got {value.shape} of {value.dtype}")
    return np.asarray(value, np.float64)


def largest(operator: Operator, d: int) -> int:
    return operator.max_frame_bits(d, FLOAT32) // 8


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of whole frames, and of their sections alone, without header and checksum.

    `up` counts what all clients have sent, `down` what all clients have received.
    """

    up: int = 0
    up_sections: int = 0
    down: int = 0
    down_sections: int = 0
    messages: int = 0

    @classmethod
    def sent(cls, frames: Iterable[bytes]) -> "Traffic":
        sizes = [(len(frame), sections(frame)) for frame in frames]
        return cls(sum(a for a, _ in sizes), sum(b for _, b in sizes), messages=len(sizes))

    @classmethod
    def received(cls, frame: bytes, clients: int) -> "Traffic":
        """The traffic of a frame that the server sent to each of `clients`."""
        return cls(down=clients * len(frame), down_sections=clients * sections(frame))

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(*map(add, astuple(self), astuple(other)))


def sections(frame: bytes) -> int:
    return sum(wire.parse(np.frombuffer(frame, np.uint8), 2**62).header.lengths)
