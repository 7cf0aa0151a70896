"""The common part of MARINA and DASHA: compressed differences of successive gradients."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fewbits.core.operator import Operator
from fewbits.feedback.rule import Array
from fewbits.methods.messages import IDENTITY, RealVector, encode
from fewbits.methods.state import Clients, State, descend
from fewbits.rng import Rng

_UNUSED = Rng.from_seed(0)  # nothing is drawn for a frame without loss
Tell = Callable[[RealVector, Array], RealVector]
"""What a client sends, from its gradient and its memory."""
Keep = Callable[[RealVector, Array, RealVector], Array]
"""What it remembers, from its gradient, its memory and what was decoded of what it sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """The server knows an estimate of the mean gradient, which it learns in full at the start."""

    clients: Clients
    operator: Operator
    step_size: float

    def full_start(self, x: RealVector, *, rows: int) -> State:
        """Every client sends its gradient; memory row 0 holds it, row 1 the server's copy of it."""
        messages, memories = {}, {}
        for client in self.clients.fleet.own():
            own = self.clients.gradient(client, x)
            messages[client] = encode(own, IDENTITY, _UNUSED)
            memories[client] = np.stack([own, messages[client].value][:rows])
        gathered = self.clients.fleet.gather(messages, IDENTITY, x.size)
        return State(x, memories=memories, server=gathered.mean()[None], traffic=gathered.traffic)

    def round(self, state: State, rng: Rng, tell: Tell, keep: Keep, *, full: bool = False) -> State:
        """Step along the estimate, then add the mean of what all tell to it, or replace it."""
        fleet, number = self.clients.fleet, state.number
        operator = IDENTITY if full else self.operator
        state = descend(state, fleet, state.server[0], self.step_size, IDENTITY, rng)
        messages, memories = {}, {}
        for client in fleet.own():
            gradient, memory = self.clients.gradient(client, state.x), state.memories[client]
            sent = encode(tell(gradient, memory), operator, rng.fork(number, client))
            messages[client], memories[client] = sent, keep(gradient, memory, sent.value)
        gathered = fleet.gather(messages, operator, state.x.size)
        mean = gathered.mean()[None]
        return replace(
            state,
            memories=memories,
            server=mean if full else state.server + mean,
            traffic=state.traffic + gathered.traffic,
        )
