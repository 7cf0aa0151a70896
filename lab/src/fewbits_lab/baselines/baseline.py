"""The interface of a baseline, and the size and error of its messages."""

from typing import Protocol

from fewbits_lab.vectors import VectorMeasure, VectorValues, relative_error


class Baseline(Protocol):
    """A quantiser; equal seeds give equal messages. All of them are unbiased, or nearly (EDEN)."""

    @property
    def name(self) -> str:
        """The name in tables and figures."""
        ...

    def encode(self, x: VectorValues, seed: int) -> bytes:
        """The whole message."""
        ...

    def decode(self, message: bytes, d: int) -> VectorValues:
        """The `d` values of a message."""
        ...


def measure(baseline: Baseline, x: VectorValues, seed: int) -> VectorMeasure:
    """Bits and error of one message."""
    message = baseline.encode(x, seed)
    error = relative_error(x, baseline.decode(message, x.size))
    return VectorMeasure(8 * len(message) / x.size, error)
