"""A sender and a receiver with memory, each an `(init, step)` pair without state of its own.

>>> import numpy as np, fewbits
>>> from fewbits.feedback import Sender
>>> sender = Sender.of("ef14", "top-k:fraction=0.5|natural", d=2)
>>> memory = sender.init(2)
>>> frame, memory = sender.step(np.float32([1.0, 4.0]), memory, fewbits.Rng.from_seed(1))
>>> memory[0]
array([1., 0.], dtype=float32)
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fewbits import codec, registry
from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.feedback.method import Feedback, feedback
from fewbits.feedback.rule import Array, Rule
from fewbits.rng import Rng

_SHORT = 1 << 18
_FLOAT32: "np.dtype[Any]" = np.dtype(np.float32)


class Sent(NamedTuple):
    """A frame, its decoded vector, and the memory after it."""

    frame: bytes
    value: Array
    memory: Array


@dataclass(frozen=True, slots=True)
class Sender:
    """Compresses vectors one after the other with a memory.

    Frames hold float32. With a memory of float64 (`precision`) a method can converge far below the
    rounding of float32, because the messages shrink and only they are rounded.
    """

    operator: Operator
    rule: Rule
    d: int
    precision: "np.dtype[Any]" = _FLOAT32

    @classmethod
    def of(
        cls,
        method: str | Feedback,
        operator: str | Operator,
        *,
        d: int,
        senders: int = 1,
        precision: Any = np.float32,
    ) -> "Sender":
        """One of `senders` whose messages are averaged, for vectors of `d` values."""
        for name, value in (("d", d), ("senders", senders)):
            if not isinstance(value, int) or value < 1:
                raise SpecError(f"{name} must be a positive whole number, got {value!r}")
        chosen = registry.operator(operator)
        return cls(chosen, feedback(method).rule(chosen, d, senders), d, np.dtype(precision))

    def init(self, d: int) -> Array:
        if d != self.d:
            raise SpecError(f"this sender was made for {self.d} values, got {d}")
        return np.zeros((self.rule.rows, d), self.precision)

    def step(self, g: Array, memory: Array, rng: Rng) -> tuple[bytes, Array]:
        """A frame, and the memory after it; neither argument is changed.

        Give another stream at every step, for instance `rng.fork(step)`: with equal draws errors do
        not average out.
        """
        sent = self.send(g, memory, rng)
        return sent.frame, sent.memory

    def send(self, g: Array, memory: Array, rng: Rng) -> Sent:
        """The same as `step`, with the vector that the receiver will decode."""
        message, then = _vector(g, memory), np.zeros_like(memory)
        self.rule.message(message, memory, then)
        narrow = np.asarray(message, np.float32)
        frame = bytes(codec.compress(narrow, self.operator, seed=rng, threads=self._threads))
        value: Array = codec.decompress(frame, threads=self._threads)
        then[0] = value
        self.rule.keep(message, memory, then)
        return Sent(frame, value, then)

    @property
    def _threads(self) -> int | None:
        """1 for short vectors, else None; asking for the number of processors takes time."""
        return 1 if self.d < _SHORT else None


@dataclass(frozen=True, slots=True)
class Receiver:
    """Turns decoded messages, or means of them, into estimates of the senders' vectors."""

    rule: Rule
    precision: "np.dtype[Any]" = _FLOAT32

    def init(self, d: int) -> Array:
        return np.zeros((1, d), self.precision)

    def step(self, message: Array, memory: Array) -> tuple[Array, Array]:
        """An estimate, and the memory after it; neither argument is changed."""
        estimate, then = _vector(message, memory), memory.copy()
        self.rule.receive(estimate, memory, then)
        return estimate, then


def _vector(x: Array, memory: Array) -> Array:
    """A copy, in the memory's precision, of as many values as it has."""
    if isinstance(x, bytes | bytearray | memoryview):
        raise SpecError("expected a vector, got bytes: decompress the frame first")
    vector = np.array(x, memory.dtype).reshape(-1)
    if vector.size != memory.shape[1]:
        raise SpecError(f"expected {memory.shape[1]} values, got {vector.size}")
    return vector
