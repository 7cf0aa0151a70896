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
from fewbits.feedback.method import Feedback, feedback
from fewbits.feedback.rule import Array, Rule
from fewbits.rng import Rng


@dataclass(frozen=True, slots=True)
class Sender:
    """Compresses vectors one after the other, in the light of its memory."""

    operator: Operator
    rule: Rule

    @classmethod
    def of(
        cls, method: str | Feedback, operator: str | Operator, *, d: int, senders: int = 1
    ) -> "Sender":
        """For vectors of `d` values, one of `senders` whose messages are averaged."""
        chosen = registry.operator(operator)
        return cls(chosen, feedback(method).rule(chosen, d, senders))

    def init(self, d: int) -> Array:
        """The memory before the first step."""
        return np.zeros((self.rule.rows, d), np.float32)

    def step(self, g: Array, memory: Array, rng: Rng) -> tuple[bytes, Array]:
        """A frame, and the memory after it; neither argument is changed."""
        message, then = np.array(g, np.float32).reshape(-1), np.zeros_like(memory)
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
        estimate, then = np.array(message, np.float32).reshape(-1), memory.copy()
        self.rule.receive(estimate, memory, then)
        return estimate, then
