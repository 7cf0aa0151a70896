"""A short run of every method, for one process or several: a digest of all its points."""

import hashlib

import numpy as np

from fewbits import Rng, methods
from fewbits.methods import Clients, FedAvg, Fleet, Smoothness, local_descent

CLIENTS, SIZE, STEPS = 5, 40, 6


def gradient(client: int, x: np.ndarray) -> np.ndarray:
    """Of a quadratic around the client's own point."""
    rng = np.random.default_rng([client, 9])
    return rng.uniform(0.5, 1, SIZE) * (x - rng.standard_normal(SIZE))


def points(name: str, fleet: Fleet) -> str:
    """A digest of the points of the method's first steps."""
    rng, digest = Rng.from_seed(4), hashlib.sha256()
    if name == "fedavg":
        train = local_descent(gradient, 0.1, 2)
        method = FedAvg.of(
            fleet, train, "sparse-dithering:nu=0.5", SIZE, feedback="ef14", server_step=0.9
        )
    else:
        clients = Clients(fleet, gradient, Smoothness.equal(1.0), SIZE)
        method = methods.build(name, clients, "natural")
    state = method.init(np.zeros(SIZE))
    for _ in range(STEPS):
        state = method.step(state, rng)
        digest.update(state.x.tobytes())
    digest.update(repr(state.traffic).encode())
    return digest.hexdigest()
