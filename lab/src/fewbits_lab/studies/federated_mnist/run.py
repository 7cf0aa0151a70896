"""FedAvg on MNIST over ten clients that have little in common, with and without compression.

    python -m fewbits_lab.studies.federated_mnist.run --data MNIST-DIR [--seconds 400]

splits the training set by a Dirichlet law with parameter 0.3 over the classes, and trains the same
network from the same start with every configuration and seed. Clients train one after the other in
this process; their updates are real frames, and bytes are those of the frames. Runs are added to
`result.json`; what is there is not run again.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import nn

from fewbits import Rng
from fewbits.methods import FedAvg, Fleet
from fewbits.train import data

_RESULTS = Path(__file__).with_name("result.json")
SETTINGS: dict[str, Any] = {
    "clients": 10, "dirichlet": 0.3, "hidden": 128, "rounds": 60, "local_steps": 20,
    "batch_size": 32, "rate": 0.1, "seeds": [0, 1, 2],
}  # fmt: skip
CONFIGURATIONS = {
    "none": ("identity", None),
    "natural": ("natural:coder=rans", None),
    "natural-dithering": ("natural-dithering", None),
    "sparse-dithering": ("sparse-dithering:nu=0.25,rounding=stochastic", None),
    "top-k": ("top-k:fraction=0.05|natural", "ef14"),
}


def split(targets: np.ndarray, seed: int) -> list[np.ndarray]:
    """Divides each class among the clients by a draw of the Dirichlet law."""
    rng = np.random.default_rng([seed, 10])
    parts: list[list[np.ndarray]] = [[] for _ in range(SETTINGS["clients"])]
    for label in range(10):
        own = rng.permutation(np.flatnonzero(targets == label))
        shares = rng.dirichlet([SETTINGS["dirichlet"]] * SETTINGS["clients"])
        cuts = (np.cumsum(shares)[:-1] * len(own)).astype(int)
        for part, mine in zip(parts, np.split(own, cuts), strict=True):
            part.append(mine)
    return [np.concatenate(part) for part in parts]


class MnistClients:
    """Trains the clients' models, one after the other, in one network."""

    def __init__(self, dataset: data.Dataset, seed: int) -> None:
        self.dataset, self.seed = dataset, seed
        self.parts = split(dataset.train.targets, seed)
        torch.manual_seed(seed)
        self.net = nn.Sequential(
            nn.Flatten(), nn.Linear(784, SETTINGS["hidden"]), nn.ReLU(),
            nn.Linear(SETTINGS["hidden"], 10),
        )  # fmt: skip
        self.start = self.model()

    def model(self) -> np.ndarray:
        """All parameters as one vector."""
        return nn.utils.parameters_to_vector(self.net.parameters()).detach().numpy().astype("f8")

    def load(self, x: np.ndarray) -> None:
        """Put a vector's values into the network."""
        vector = torch.from_numpy(x.astype(np.float32))
        nn.utils.vector_to_parameters(vector, self.net.parameters())

    def train(self, clients: Sequence[int], x: np.ndarray, number: int) -> np.ndarray:
        """A few steps of SGD from the same model; batches depend on client and round alone."""
        found = np.empty((len(clients), x.size))
        for row, client in zip(found, clients, strict=True):
            self.load(x)
            rng = np.random.default_rng([self.seed, client, number])
            for _ in range(SETTINGS["local_steps"]):
                chosen = rng.choice(self.parts[client], SETTINGS["batch_size"])
                inputs, targets = self.dataset.batch(self.dataset.train, chosen)
                loss = nn.functional.cross_entropy(
                    self.net(torch.from_numpy(inputs)), torch.from_numpy(targets)
                )
                self.net.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                with torch.no_grad():
                    for own in self.net.parameters():
                        own -= SETTINGS["rate"] * own.grad  # type: ignore[misc]
            row[:] = self.model()
        return found

    @torch.no_grad()
    def accuracy(self, x: np.ndarray) -> float:
        """The share of the test set that the model gets right."""
        self.load(x)
        count = len(self.dataset.test.targets)
        inputs, targets = self.dataset.batch(self.dataset.test, np.arange(count))
        right = self.net(torch.from_numpy(inputs)).argmax(1) == torch.from_numpy(targets)
        return float(right.float().mean())


def run(dataset: data.Dataset, name: str, seed: int) -> dict[str, Any]:
    """One configuration; the accuracy is the mean of the last five rounds."""
    operator, feedback = CONFIGURATIONS[name]
    clients = MnistClients(dataset, seed)
    method = FedAvg.of(
        Fleet.alone(SETTINGS["clients"]), clients.train, operator, clients.start.size,
        feedback=feedback, weights=[len(part) for part in clients.parts],
    )  # fmt: skip
    state, rng, curve = method.init(clients.start), Rng.from_seed(seed), []
    for number in range(1, SETTINGS["rounds"] + 1):
        state = method.step(state, rng)
        if number > SETTINGS["rounds"] - 5 or number % 10 == 0:
            curve.append((number, clients.accuracy(state.x)))
    sent = state.traffic
    return {
        "name": name, "operator": operator, "feedback": feedback, "seed": seed,
        "accuracy": fmean(own for _, own in curve[-5:]), "curve": curve, "up_bytes": sent.up,
        "up_sections": sent.up_sections, "down_bytes": sent.down, "messages": sent.messages,
        "elements": clients.start.size,
        "samples": [len(part) for part in clients.parts],
    }  # fmt: skip


def main() -> None:
    """Run what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--seconds", type=float, default=1e9)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dataset = data.load(options.data)
    fresh: dict[str, Any] = {"settings": SETTINGS, "runs": []}
    found = json.loads(_RESULTS.read_text()) if _RESULTS.exists() else fresh
    assert found["settings"] == SETTINGS, "other settings: remove the file to begin anew"
    done = {(own["name"], own["seed"]) for own in found["runs"]}
    began = time.monotonic()
    for seed in SETTINGS["seeds"]:
        for name in CONFIGURATIONS:
            if (name, seed) in done or time.monotonic() - began > options.seconds:
                continue
            own = run(dataset, name, seed)
            found["runs"].append(own)
            _RESULTS.write_text(json.dumps(found, indent=1) + "\n")
            print(f"{name:18} seed {seed} {100 * own['accuracy']:.2f} % {own['up_bytes']:,} up")


if __name__ == "__main__":
    main()
