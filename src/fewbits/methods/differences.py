"""How methods begin that compress differences of successive gradients."""

import numpy as np

from fewbits import registry
from fewbits.methods.messages import Vector, encode
from fewbits.methods.state import Clients, State
from fewbits.rng import Rng

IDENTITY = registry.operator("identity")
_UNUSED = Rng.from_seed(0)  # nothing is drawn for a frame without loss


def full_start(clients: Clients, x: Vector, *, rows: int) -> State:
    """Everybody sends the gradient at the start: row 0 is it, a row 1 what the server has of it."""
    messages, memories = {}, {}
    for client in clients.fleet.own():
        own = clients.gradient(client, x)
        messages[client] = encode(own, IDENTITY, _UNUSED)
        memories[client] = np.stack([own, messages[client].value][:rows])
    gathered = clients.fleet.gather(messages, IDENTITY, x.size)
    return State(x, memories=memories, server=gathered.mean()[None], traffic=gathered.traffic)
