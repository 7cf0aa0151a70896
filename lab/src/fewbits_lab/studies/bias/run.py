"""Measures bias: means of many draws, and the effect of rounding on the end of training.

    python -m fewbits_lab.studies.bias.run [DIRECTORY OF RECORDED GRADIENTS]

writes `result.json`.

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

_RESULTS = Path(__file__).with_name("result.json")
DRAWS, VALUES = 20_000, 1 << 16
_BLOCK = 256
SEEDS, AT_ONCE = 512, 64
_STEPS, TAIL = 300, 100
_RANKS, _BATCH, HIDDEN, RATE, MOMENTUM = 4, 64, 32, 0.05, 0.9
_Array = npt.NDArray[Any]
Rounding = Callable[[_Array, int], _Array]


def e4m3(x: _Array) -> _Array:
    """The nearest E4M3 numbers, ties to even; blocks of 256 scaled so that the largest is 448."""
    blocks, scale = scaled(x, 448.0)
    _, exponent = np.frexp(np.abs(blocks))
    step = np.ldexp(np.float32(1), np.maximum(exponent - 1, -6) - 3)
    rounded = np.clip(np.round(blocks / step) * step, -448, 448)
    return unscaled(rounded, scale, x)


def int8(x: _Array) -> _Array:
    """The nearest whole numbers; blocks of 256 scaled so that the largest is 127."""
    blocks, scale = scaled(x, 127.0)
    return unscaled(np.round(blocks), scale, x)


def natural(x: _Array, seed: int) -> _Array:
    """A draw of the library's operator."""
    return np.asarray(fewbits.decompress(fewbits.compress(x, "natural", seed=seed)))


def scaled(x: _Array, largest: float) -> tuple[_Array, _Array]:
    """Blocks of the last axis, each divided by its scale."""
    padded = np.zeros((*x.shape[:-1], -(-x.shape[-1] // _BLOCK) * _BLOCK), np.float32)
    padded[..., : x.shape[-1]] = x
    blocks = padded.reshape(*x.shape[:-1], -1, _BLOCK)
    scale = np.abs(blocks).max(-1, keepdims=True) / np.float32(largest)
    return blocks / np.where(scale == 0, np.float32(1), scale), scale


def unscaled(blocks: _Array, scale: _Array, like: _Array) -> _Array:
    """The other way round."""
    return (blocks * scale).reshape(*like.shape[:-1], -1)[..., : like.shape[-1]]


def of_draws(g: _Array) -> dict[str, float]:
    """The error of natural's mean over draws, and E4M3's error, which stays."""
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


def resolution(g: _Array) -> float:
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
            for part, shape in zip(torch.split(values, sizes, 1), self.shapes, strict=True)
        ]


def tail_losses(seeds: range, rounding: Rounding | None, *, feedback: bool) -> _Array:
    """The mean loss of the last steps, for each seed."""
    x, y = standardised()
    model = Models(seeds, x.shape[1], int(y.max()) + 1)
    errors: list[Any] = [np.float32(0), np.float32(0)]  # of the ranks and of the way back
    tail = torch.zeros(len(seeds))
    orders = [batches(seed, len(x)) for seed in seeds]
    for step in range(_STEPS):
        chosen = np.stack([order[step].reshape(_RANKS, -1) for order in orders])
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
        if step >= _STEPS - TAIL:
            tail += losses / TAIL
    return tail.numpy().astype(np.float64)


def standardised() -> tuple[Tensor, Tensor]:
    """All training digits, as rows of mean 0 and variance 1."""
    train = data.load("digits").train
    rows = train.inputs.reshape(len(train.inputs), -1).astype(np.float32)
    return torch.from_numpy((rows - rows.mean()) / rows.std()), torch.from_numpy(train.targets)


def batches(seed: int, count: int) -> _Array:
    """The samples of every step."""
    epochs = -(-_STEPS // (count // _BATCH))
    return np.concatenate([data.order(seed, epoch, count, _BATCH) for epoch in range(epochs)])


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
            "steps": _STEPS, "tail": TAIL, "ranks": _RANKS, "batch_size": _BATCH, "lr": RATE,
            "momentum": MOMENTUM, "hidden": HIDDEN, **training,
        },
    }  # fmt: skip
    _RESULTS.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:2])
