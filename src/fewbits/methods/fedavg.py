r"""FedAvg and LocalSGD with compressed updates.

$$ x^+ = x + \gamma_s \sum_i p_i\, C(x_i^\tau - x) $$
where client $i$ gets $x_i^\tau$ from $x$ by $\tau$ steps of its own. Some or all clients take part
in a round. With feedback clients keep a memory of the errors of their updates. Sources: McMahan et
al. (2017), Reisizadeh et al. (2020, FedPAQ), Haddadpour et al. (2021, FedCOM).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fewbits import registry
from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.feedback import Feedback, Receiver, Sender
from fewbits.feedback.rule import Array, Rule
from fewbits.methods.fleet import Fleet
from fewbits.methods.messages import IDENTITY, Message, RealVector, Traffic, encode
from fewbits.methods.state import Gradient, State
from fewbits.rng import Rng

_WITHOUT = Rule(shifts=False)

Train = Callable[[Sequence[int], RealVector, int], Array]
"""Clients, the model, the round's number: what each of them makes of it, one row each.

A row must not depend on which others are asked.
"""


def local_descent(gradient: Gradient, rate: float, steps: int) -> Train:
    """Training by `steps` steps of gradient descent, which makes FedAvg LocalSGD."""

    def train(clients: Sequence[int], x: RealVector, _: int) -> Array:
        models = np.empty((len(clients), x.size))
        for row, client in zip(models, clients, strict=True):
            row[:] = x
            for _ in range(steps):
                row -= rate * gradient(client, row)
        return models

    return train


@dataclass(frozen=True, slots=True, kw_only=True)
class FedAvg:
    """Clients send compressed updates; `weights` are their shares of the mean, equal if None.

    The server sends the model as a frame of float32 to those who take part.
    """

    fleet: Fleet
    train: Train
    sender: Sender
    feedback: bool
    server_step: float = 1.0
    weights: Sequence[float] | None = None

    @classmethod
    def of(
        cls,
        fleet: Fleet,
        train: Train,
        operator: str | Operator,
        d: int,
        *,
        feedback: str | Feedback | None = None,
        server_step: float = 1.0,
        weights: Sequence[float] | None = None,
    ) -> "FedAvg":
        if weights is not None and (len(weights) != fleet.clients or min(weights) <= 0):
            raise SpecError(f"weights must be {fleet.clients} positive numbers, one a client")
        if feedback is None:
            sender = Sender(registry.operator(operator), _WITHOUT, d, np.dtype(np.float64))
        else:
            sender = Sender.of(feedback, operator, d=d, senders=fleet.clients, precision=np.float64)
        return cls(
            fleet=fleet,
            train=train,
            sender=sender,
            feedback=feedback is not None,
            server_step=server_step,
            weights=weights,
        )

    @property
    def receiver(self) -> Receiver:
        return Receiver(self.sender.rule, self.sender.precision)

    def init(self, x: RealVector) -> State:
        """The state without memories: a client gets its own in its first round."""
        return State(x, server=self.receiver.init(x.size))

    def step(self, state: State, rng: Rng, present: Sequence[int] | None = None) -> State:
        """One round with the clients `present`, which must be the same on all ranks."""
        chosen = self.fleet.checked(present)
        shares = self._shares(chosen)
        model = encode(state.x, IDENTITY, rng)  # nothing is drawn for a frame without loss
        messages, memories = self._up(state, model.value, chosen, rng)
        gathered = self.fleet.gather(messages, self.sender.operator, state.x.size, chosen)
        update, server = self.receiver.step(gathered.total(shares), state.server)
        return replace(
            state,
            x=state.x + self.server_step * update,
            number=state.number + 1,
            memories={**state.memories, **memories},
            server=server,
            traffic=state.traffic + gathered.traffic + Traffic.received(model.frame, len(chosen)),
        )

    def _up(
        self, state: State, model: RealVector, chosen: Sequence[int], rng: Rng
    ) -> tuple[dict[int, Message], dict[int, Array]]:
        messages, memories = {}, {}
        own = self.fleet.own(chosen)
        nothing = self.sender.init(state.x.size)
        updates = self.train(own, model, state.number) - model if own else ()
        for client, update in zip(own, updates, strict=True):
            before = state.memories.get(client, nothing)
            sent = self.sender.send(
                update, before if self.feedback else nothing, rng.fork(state.number, client)
            )
            messages[client] = Message(sent.frame, np.asarray(sent.value, np.float64))
            if self.feedback:
                memories[client] = sent.memory
        return messages, memories

    def _shares(self, chosen: Sequence[int]) -> list[float]:
        """Shares of the mean; the server already has the shifts of absent clients."""
        rule, clients = self.sender.rule, self.fleet.clients
        weights = [1.0] * clients if self.weights is None else self.weights
        if len(chosen) < clients and rule.shifts and rule.step != rule.scale:
            raise SpecError(
                "with shifts that move by less than estimates all clients must take part: "
                "use ef21 or ef14, or no feedback"
            )
        counted = range(clients) if rule.shifts else chosen
        total = sum(weights[client] for client in counted)
        return [weights[client] / total for client in chosen]
