"""A network of two layers in NumPy, and every client's part of scikit-learn's digits."""

import numpy as np
from sklearn.datasets import load_digits

Weights = dict[str, np.ndarray]
HIDDEN, TEST = 256, 360


def initial() -> Weights:
    """Random weights."""
    rng = np.random.default_rng(0)
    return {
        "hidden.weight": (rng.standard_normal((64, HIDDEN)) / 8).astype(np.float32),
        "hidden.bias": np.zeros(HIDDEN, np.float32),
        "out.weight": (rng.standard_normal((HIDDEN, 10)) / 16).astype(np.float32),
        "out.bias": np.zeros(10, np.float32),
    }


def digits(partition: int, parts: int) -> tuple[np.ndarray, np.ndarray]:
    """A client's images and labels."""
    x, y = _all()
    return x[TEST:][partition::parts], y[TEST:][partition::parts]


def test_digits() -> tuple[np.ndarray, np.ndarray]:
    """What no client trains with."""
    x, y = _all()
    return x[:TEST], y[:TEST]


def _all() -> tuple[np.ndarray, np.ndarray]:
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(x))
    return (x[order] / 16).astype(np.float32), y[order]


def forward(w: Weights, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Activations of the hidden layer, and probabilities."""
    hidden = np.maximum(x @ w["hidden.weight"] + w["hidden.bias"], 0)
    scores = hidden @ w["out.weight"] + w["out.bias"]
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, scores / scores.sum(axis=1, keepdims=True)


def train(w: Weights, x: np.ndarray, y: np.ndarray, *, epochs: int, rate: float) -> Weights:
    """SGD with batches of 32; the given weights stay as they are."""
    w, rng = {name: value.copy() for name, value in w.items()}, np.random.default_rng(2)
    for _ in range(epochs):
        for batch in np.array_split(rng.permutation(len(x)), max(1, len(x) // 32)):
            hidden, p = forward(w, x[batch])
            p[np.arange(len(batch)), y[batch]] -= 1
            p /= len(batch)
            back = (p @ w["out.weight"].T) * (hidden > 0)
            w["out.weight"] -= rate * hidden.T @ p
            w["out.bias"] -= rate * p.sum(axis=0)
            w["hidden.weight"] -= rate * x[batch].T @ back
            w["hidden.bias"] -= rate * back.sum(axis=0)
    return w


def accuracy(w: Weights, x: np.ndarray, y: np.ndarray) -> float:
    """The part of images whose digit is found."""
    return float(np.mean(forward(w, x)[1].argmax(axis=1) == y))
