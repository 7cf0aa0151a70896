"""Methods that converge with compression, each an `(init, step)` pair over a `Comm`.

`Fleet.alone(clients)` runs all clients in this process, even thousands. `Fleet(clients,
TorchComm())` spreads them over the ranks of torch.distributed, and every rank gets the same bits as
the single process. Messages are frames, and their bytes are measured. Points and memories are
float64, frames float32: the messages shrink, so their relative precision is enough.

>>> import numpy as np, fewbits
>>> from fewbits.methods import Clients, EfBv, Fleet, Smoothness
>>> centres = np.array([[1.0, 3.0], [5.0, -1.0]])
>>> clients = Clients(Fleet.alone(2), lambda i, x: x - centres[i], Smoothness.equal(1), d=2)
>>> method = EfBv.of(clients, "natural")
>>> state, rng = method.init(np.zeros(2)), fewbits.Rng.from_seed(1)
>>> for _ in range(60):
...     state = method.step(state, rng)
>>> bool(np.abs(state.x - centres.mean(axis=0)).max() < 1e-9)
True
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from fewbits.core.operator import Operator
from fewbits.errors import SpecError
from fewbits.methods.dasha import Dasha
from fewbits.methods.dcgd import Dcgd
from fewbits.methods.ef14 import Ef14
from fewbits.methods.ef_bv import EfBv
from fewbits.methods.fedavg import FedAvg, local_descent
from fewbits.methods.fleet import Fleet
from fewbits.methods.marina import Marina
from fewbits.methods.messages import Traffic
from fewbits.methods.state import Clients, Gradient, Method, State
from fewbits.theory.step_sizes import Smoothness

METHODS: dict[str, Callable[..., Any]] = {
    "dcgd": Dcgd.of,
    "ef14": Ef14.of,
    "ef21": partial(EfBv.of, kind="ef21"),
    "diana": partial(EfBv.of, kind="diana"),
    "ef-bv": EfBv.of,
    "marina": Marina.of,
    "dasha": Dasha.of,
}
"""Gradient methods by name, with theory's step sizes."""


def build(name: str, clients: Clients, operator: str | Operator, **options: Any) -> Method:
    """The method of this name; `SpecError` if the operator does not suit it."""
    if name not in METHODS:
        raise SpecError(f"method must be {', '.join(METHODS)}, got {name!r}")
    made: Method = METHODS[name](clients, operator, **options)
    return made


__all__ = [
    "METHODS", "Clients", "Dasha", "Dcgd", "Ef14", "EfBv", "FedAvg", "Fleet", "Gradient", "Marina",
    "Method", "Smoothness", "State", "Traffic", "build", "local_descent",
]  # fmt: skip
