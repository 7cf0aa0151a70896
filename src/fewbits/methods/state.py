"""The state of a method between its steps, as plain arrays, and the interface of methods."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.feedback.rule import Array
from fewbits.methods.fleet import Fleet
from fewbits.methods.messages import RealVector, Traffic, encode
from fewbits.rng import Rng
from fewbits.theory.step_sizes import Smoothness

Gradient = Callable[[int, RealVector], RealVector]
"""Of a client's function at a point; it must not depend on who else is asked."""


@dataclass(frozen=True, slots=True)
class Clients:
    """The clients: their fleet, their gradients, and the constants of their functions.

    Vectors have `d` values.
    """

    fleet: Fleet
    gradient: Gradient
    smoothness: Smoothness
    d: int

    def omega(self, method: str, operator: Operator) -> float:
        """The operator's omega; `SpecError` if it is biased."""
        omega = operator.guarantee(self.d).omega
        if omega is None:
            raise SpecError(
                f"{method} needs an unbiased operator: with {operator} use ef21 or ef14"
            )
        return omega

    def alpha(self, operator: Operator) -> float:
        """The operator's alpha, or that of its output times 1 / (1 + omega) if it has none."""
        promise = operator.guarantee(self.d)
        if promise.error < 1 or promise.omega is None:
            return promise.error
        return promise.omega / (1 + promise.omega)


@dataclass(frozen=True, slots=True)
class State:
    """The point, the number of steps behind it, memories, and all traffic so far.

    `memories` are those of the clients that this rank runs, by number. `server` is the server's,
    the same on every rank.
    """

    x: RealVector
    number: int = 0
    memories: Mapping[int, Array] = field(default_factory=dict)
    server: Array = field(default_factory=lambda: np.zeros((1, 0)))
    traffic: Traffic = field(default_factory=Traffic)


class Method(Protocol):
    """An algorithm as a pair of functions, without state of its own."""

    def init(self, x: RealVector) -> State:
        """The state before the first step."""

    def step(self, state: State, rng: Rng) -> State:
        """One round. `rng` may be the same at every step: its number is in every key."""


def descend(
    state: State, fleet: Fleet, direction: RealVector, step: float, operator: Operator, rng: Rng
) -> State:
    """The server sends the direction to all clients as a frame, and all take the decoded step."""
    message = encode(direction, operator, rng.fork(state.number, "server"))
    return replace(
        state,
        x=state.x - step * message.value,
        number=state.number + 1,
        traffic=state.traffic + Traffic.received(message.frame, fleet.clients),
    )
