"""Is it bias that hurts? Means of many draws, and what rounding does to the end of training.

    python benchmarks/bias.py [DIRECTORY OF RECORDED GRADIENTS]

writes `benchmarks/results/bias.json`.

**Draws.** The relative length of (mean of R draws of C(g)) - g for `natural`, on 65,536 values of
recorded gradients (`record_gradients.py` makes them), beside what nearest rounding to E4M3 leaves,
of which every draw is the same. The mean of R independent draws without bias still is sqrt(omega/R)
away; `without_noise` takes that off: the root of half of the draws' mean error times the other
half's, which cannot see a bias below `resolution`.

**Training.** A small model on digits, four ranks, both directions compressed, everything of the
model in one vector, 300 steps; the mean loss of the last 100 minus that of plain training from the
same start with the same batches, over many seeds. All seeds are trained at once.
"""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

import fewbits
from fewbits.train import data

RESULTS = Path(__file__).parent / "results" / "bias.json"
DRAWS, VALUES = 20_000, 1 << 16
BLOCK = 256
SEEDS, AT_ONCE = 512, 64
STEPS, TAIL = 300, 100
RANKS, BATCH, HIDDEN, RATE, MOMENTUM = 4, 64, 32, 0.05, 0.9
Array = npt.NDArray[Any]
Rounding = Callable[[Array, int], Array]


def e4m3(x: Array) -> Array:
    """The nearest E4M3 numbers, ties to even; blocks of 256 scaled so that the largest is 448."""
    blocks, scale = scaled(x, 448.0)
    _, exponent = np.frexp(np.abs(blocks))
    step = np.ldexp(np.float32(1), np.maximum(exponent - 1, -6) - 3)
    rounded = np.clip(np.round(blocks / step) * step, -448, 448)
    return unscaled(rounded, scale, x)


def int8(x: Array) -> Array:
    """The nearest whole numbers; blocks of 256 scaled so that the largest is 127."""
    blocks, scale = scaled(x, 127.0)
    return unscaled(np.round(blocks), scale, x)


def natural(x: Array, seed: int) -> Array:
    """A draw of the library's operator."""
    return fewbits.decompress(fewbits.compress(x, "natural", seed=seed))


def scaled(x: Array, largest: float) -> tuple[Array, Array]:
    """Blocks of the last axis, each divided by its scale."""
    padded = np.zeros((*x.shape[:-1], -(-x.shape[-1] // BLOCK) * BLOCK), np.float32)
    padded[..., : x.shape[-1]] = x
    blocks = padded.reshape(*x.shape[:-1], -1, BLOCK)
    scale = np.abs(blocks).max(-1, keepdims=True) / np.float32(largest)
    return blocks / np.where(scale == 0, np.float32(1), scale), scale


def unscaled(blocks: Array, scale: Array, like: Array) -> Array:
    """The other way round."""
    return (blocks * scale).reshape(*like.shape[:-1], -1)[..., : like.shape[-1]]


def of_draws(g: Array) -> dict[str, float]:
    """What averaging leaves of natural's error, and E4M3's error, which stays."""
    sums = np.zeros((2, g.size))
    for seed in range(DRAWS):
        sums[seed % 2] += natural(g, seed)
    norm = float(np.linalg.norm(g.astype(np.float64)))
    halves = sums / (DRAWS // 2) - g
    one = natural(g, DRAWS) - g.astype(np.float64)
    product = float(halves[0] @ halves[1])
    return {
        "natural": float(np.linalg.norm(halves.mean(0))) / norm,
        "without_noise": math.sqrt(max(product, 0.0)) / norm,
        "floor": float(np.linalg.norm(one)) / norm / math.sqrt(DRAWS),
        "resolution": resolution(g) / norm,
        "e4m3": float(np.linalg.norm(e4m3(g) - g)) / norm,
    }


def resolution(g: Array) -> float:
    """The length of a bias at two standard errors of `without_noise`'s square."""
    size = np.abs(g.astype(np.float64))
    low = np.ldexp(0.5, np.frexp(size)[1]) * (size > 0)
    variance = (size - low) * (2 * low - size) / (DRAWS // 2)
    return math.sqrt(2 * float(np.linalg.norm(variance)))


class Models:
    """One hidden layer, one model for each seed: parameters are rows of one matrix."""

    def __init__(self, seeds: range, inputs: int, classes: int) -> None:
        self.shapes = ((inputs, HIDDEN), (1, HIDDEN), (HIDDEN, classes), (1, classes))
        rows = []
        for seed in seeds:
            draw = torch.Generator().manual_seed(seed)
            parts = [
                torch.randn(shape, generator=draw) * math.sqrt(2 / shape[0]) * (shape[0] > 1)
                for shape in self.shapes
            ]
            rows.append(torch.cat([part.reshape(-1) for part in parts]))
        self.values = torch.stack(rows)
        self.momentum = torch.zeros_like(self.values)

    def gradients(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Losses (seeds) and gradients (seeds, ranks, values) of batches (seeds, ranks, size)."""
        first, shift, last, shift_2 = self._parts(self.values)
        hidden = (x @ first + shift).relu()
        log = (hidden @ last + shift_2).log_softmax(-1)
        losses = -log.gather(-1, y[..., None]).mean((1, 2, 3))
        error = log.exp()
        error.scatter_add_(-1, y[..., None], -torch.ones_like(error[..., :1]))
        error /= y.shape[-1]
        back = (error @ last.mT) * (hidden > 0)
        found = (x.mT @ back, back.sum(-2), hidden.mT @ error, error.sum(-2))
        return losses, torch.cat([part.flatten(2) for part in found], -1)

    def step(self, gradient: Tensor) -> None:
        """Momentum SGD."""
        self.momentum.mul_(MOMENTUM).add_(gradient)
        self.values.sub_(self.momentum, alpha=RATE)

    def _parts(self, values: Tensor) -> list[Tensor]:
        sizes = [a * b for a, b in self.shapes]
        return [
            part.view(-1, 1, *shape)
            for part, shape in zip(values.split(sizes, 1), self.shapes, strict=True)
        ]


def tail_losses(seeds: range, rounding: Rounding | None, *, feedback: bool) -> Array:
    """The mean loss of the last steps, for each seed."""
    x, y = standardised()
    model = Models(seeds, x.shape[1], int(y.max()) + 1)
    errors = [np.float32(0), np.float32(0)]  # of the ranks and of the way back
    tail = torch.zeros(len(seeds))
    orders = [batches(seed, len(x)) for seed in seeds]
    for step in range(STEPS):
        chosen = np.stack([order[step].reshape(RANKS, -1) for order in orders])
        losses, gradients = model.gradients(x[chosen], y[chosen])
        message = gradients.numpy()
        for hop in range(2):
            if hop:
                message = message.mean(1)
            if rounding is not None:
                message = message + errors[hop] if feedback else message
                sent = rounding(message, (step * 2 + hop) << 32 | seeds.start)
                errors[hop] = message - sent
                message = sent
        model.step(torch.from_numpy(message))
        if step >= STEPS - TAIL:
            tail += losses / TAIL
    return tail.numpy().astype(np.float64)


def standardised() -> tuple[Tensor, Tensor]:
    """All training digits, as rows of mean 0 and variance 1."""
    train = data.load("digits").train
    rows = train.inputs.reshape(len(train.inputs), -1).astype(np.float32)
    return torch.from_numpy((rows - rows.mean()) / rows.std()), torch.from_numpy(train.targets)


def batches(seed: int, count: int) -> Array:
    """The samples of every step."""
    epochs = -(-STEPS // (count // BATCH))
    return np.concatenate([data.order(seed, epoch, count, BATCH) for epoch in range(epochs)])


def of_training() -> dict[str, Any]:
    """Signed differences to plain training, with 95 % intervals."""
    roundings: dict[str, Rounding] = {
        "natural": natural,
        "nearest fp8": lambda x, _: e4m3(x),
        "nearest int8": lambda x, _: int8(x),
    }
    groups = [range(start, start + AT_ONCE) for start in range(0, SEEDS, AT_ONCE)]
    plain = np.concatenate([tail_losses(group, None, feedback=False) for group in groups])
    rows = []
    for name, rounding in roundings.items():
        for feedback in (False, True):
            own = [tail_losses(group, rounding, feedback=feedback) for group in groups]
            difference = np.concatenate(own) - plain
            mean = float(difference.mean())
            error = float(difference.std(ddof=1)) / math.sqrt(SEEDS)
            half = NormalDist().inv_cdf(0.975) * error
            rows.append(
                {
                    "rounding": name,
                    "feedback": feedback,
                    "difference": mean,
                    "low": mean - half,
                    "high": mean + half,
                    "percent": 100 * mean / float(plain.mean()),
                    "percent_half_width": 100 * half / float(plain.mean()),
                }
            )
            print(rows[-1], flush=True)
    return {"plain_tail_loss": float(plain.mean()), "seeds": SEEDS, "rows": rows}


def main(folder: str | None = None) -> None:
    """Measure, print and write."""
    torch.set_num_threads(1)
    training = of_training()
    draws: dict[str, dict[str, float]] = {}
    for path in sorted(Path(folder).glob("*-step0040.npy")) if folder else ():
        g = np.load(path).ravel()
        start = (g.size - VALUES) // 2
        draws[path.stem] = of_draws(g[start : start + VALUES])
        print(path.stem, draws[path.stem], flush=True)
    result = {
        "draws": {"number": DRAWS, "values": VALUES, "gradients": draws},
        "training": {
            "steps": STEPS, "tail": TAIL, "ranks": RANKS, "batch_size": BATCH, "lr": RATE,
            "momentum": MOMENTUM, "hidden": HIDDEN, **training,
        },
    }  # fmt: skip
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:2])
