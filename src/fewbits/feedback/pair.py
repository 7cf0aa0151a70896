"""A sender and a receiver with memory, each an `(init, step)` pair that keeps nothing itself.

>>> import numpy as np, fewbits
>>> from fewbits.feedback import Sender
>>> sender = Sender.of("ef14", "top-k:fraction=0.5|natural", d=2)
>>> memory = sender.init(2)
>>> frame, memory = sender.step(np.float32([1.0, 4.0]), memory, fewbits.Rng.from_seed(1))
>>> memory[0]
array([1., 0.], dtype=float32)
"""

from dataclasses import dataclass

import numpy as np

from fewbits import codec, registry
from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.feedback.method import Feedback, feedback
from fewbits.feedback.rule import Array, Rule
from fewbits.rng import Rng


@dataclass(frozen=True, slots=True)
class Sender:
    """Compresses vectors one after the other, in the light of its memory."""

    operator: Operator
    rule: Rule
    d: int

    @classmethod
    def of(
        cls, method: str | Feedback, operator: str | Operator, *, d: int, senders: int = 1
    ) -> "Sender":
        """For vectors of `d` values, one of `senders` whose messages are averaged."""
        for name, value in (("d", d), ("senders", senders)):
            if not isinstance(value, int) or value < 1:
                raise SpecError(f"{name} must be a positive whole number, got {value!r}")
        chosen = registry.operator(operator)
        return cls(chosen, feedback(method).rule(chosen, d, senders), d)

    def init(self, d: int) -> Array:
        """The memory before the first step."""
        if d != self.d:
            raise SpecError(f"this sender was made for {self.d} values, got {d}")
        return np.zeros((self.rule.rows, d), np.float32)

    def step(self, g: Array, memory: Array, rng: Rng) -> tuple[bytes, Array]:
        """A frame, and the memory after it; neither argument is changed.

        `rng` must be another stream at every step, for instance `rng.fork(step)`: with equal draws
        errors do not average out.
        """
        message, then = _vector(g, memory), np.zeros_like(memory)
        self.rule.message(message, memory, then)
        frame = bytes(codec.compress(message, self.operator, seed=rng))
        codec.decompress(frame, out=then[0])
        self.rule.keep(message, memory, then)
        return frame, then


@dataclass(frozen=True, slots=True)
class Receiver:
    """Turns decoded messages, or means of them, into estimates of what the senders have."""

    rule: Rule

    def init(self, d: int) -> Array:
        """The memory before the first step."""
        return np.zeros((1, d), np.float32)

    def step(self, message: Array, memory: Array) -> tuple[Array, Array]:
        """An estimate, and the memory after it; neither argument is changed."""
        estimate, then = _vector(message, memory), memory.copy()
        self.rule.receive(estimate, memory, then)
        return estimate, then


def _vector(x: Array, memory: Array) -> Array:
    """A float32 copy of as many values as the memory has."""
    if isinstance(x, bytes | bytearray | memoryview):
        raise SpecError("expected a vector, got bytes: decompress the frame first")
    vector = np.array(x, np.float32).reshape(-1)
    if vector.size != memory.shape[1]:
        raise SpecError(f"expected {memory.shape[1]} values, got {vector.size}")
    return vector
