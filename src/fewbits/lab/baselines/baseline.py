"""What a baseline is, and what a message of one takes and loses."""

from typing import Protocol

from fewbits.lab.vectors import Measured, Values, relative_error


class Baseline(Protocol):
    """A quantiser; equal seeds give equal messages. All of them are unbiased, or nearly (EDEN)."""

    @property
    def name(self) -> str:
        """As tables and figures have it."""
        ...

    def encode(self, x: Values, seed: int) -> bytes:
        """The whole message."""
        ...

    def decode(self, message: bytes, d: int) -> Values:
        """The `d` values of a message."""
        ...


def measure(baseline: Baseline, x: Values, seed: int) -> Measured:
    """Of one message."""
    message = baseline.encode(x, seed)
    error = relative_error(x, baseline.decode(message, x.size))
    return Measured(8 * len(message) / x.size, error)
