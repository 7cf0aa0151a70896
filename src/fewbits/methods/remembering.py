"""One round with memories of `fewbits.feedback`, which EF14 and EF-BV share."""

from dataclasses import dataclass, replace

import numpy as np

from fewbits.core.operator import Operator
from fewbits.feedback import Receiver, Sender
from fewbits.methods.messages import IDENTITY, Message, RealVector
from fewbits.methods.state import Clients, State, descend
from fewbits.rng import Rng


def sender_of(method: str, clients: Clients, operator: str | Operator) -> Sender:
    return Sender.of(
        method, operator, d=clients.d, senders=clients.fleet.clients, precision=np.float64
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembering:
    """Clients send gradients corrected by memories; the server steps along its estimate."""

    clients: Clients
    sender: Sender
    step_size: float

    @property
    def receiver(self) -> Receiver:
        return Receiver(self.sender.rule, self.sender.precision)

    def init(self, x: RealVector) -> State:
        memories = {client: self.sender.init(x.size) for client in self.clients.fleet.own()}
        return State(x, memories=memories, server=self.receiver.init(x.size))

    def step(self, state: State, rng: Rng) -> State:
        messages, memories = {}, {}
        for client in self.clients.fleet.own():
            sent = self.sender.send(
                self.clients.gradient(client, state.x),
                state.memories[client],
                rng.fork(state.number, client),
            )
            memories[client] = sent.memory
            messages[client] = Message(sent.frame, np.asarray(sent.value, np.float64))
        gathered = self.clients.fleet.gather(messages, self.sender.operator, state.x.size)
        direction, server = self.receiver.step(gathered.mean(), state.server)
        traffic = state.traffic + gathered.traffic
        state = replace(state, memories=memories, server=server, traffic=traffic)
        return descend(state, self.clients.fleet, direction, self.step_size, IDENTITY, rng)
