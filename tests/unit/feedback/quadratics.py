"""Workers that disagree about the optimum, and the methods as their papers write them."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

import fewbits
from fewbits import Rng
from fewbits.feedback import Receiver, Sender
from fewbits.theory.step_sizes import Smoothness

Vector = np.ndarray
Compressor = Callable[[Vector, int, int], Vector]
"""The decoded message of a vector that worker `i` sends in step `t`."""

WORKERS, SIZE = 4, 512
LEFT = np.float32(4 / 3)  # every worker's gradient at the optimum, up to its sign


@dataclass(frozen=True)
class Quadratic:
    r"""$f_i(x) = \frac12 \sum_j a_{ij} (x_j - b_{ij})^2$, with gradients of ±4/3 at the optimum."""

    curvature: Vector
    centre: Vector
    optimum: Vector

    def gradient(self, worker: int, x: Vector) -> Vector:
        return self.curvature[worker] * (x - self.centre[worker])

    def excess(self, x: Vector) -> float:
        """How far the value is above the least one: a quadratic form, without cancellation."""
        mean = self.curvature.astype(np.float64).mean(axis=0)
        return float(0.5 * (mean * (x.astype(np.float64) - self.optimum) ** 2).sum())

    @property
    def smoothness(self) -> Smoothness:
        each = self.curvature.max(axis=1)
        mean = self.curvature.mean(axis=0).max()
        square = float(np.sqrt((each.astype(np.float64) ** 2).mean()))
        return Smoothness(float(mean), square, float(each.max()))

    @property
    def convexity(self) -> float:
        return float(self.curvature.mean(axis=0).min())


def problem(seed: int = 0) -> Quadratic:
    source = np.random.default_rng([seed, 17])
    curvature = source.choice(np.float32([0.5, 1, 2]), (WORKERS, SIZE))
    optimum = source.standard_normal(SIZE).astype(np.float32)
    signs = source.permuted(np.tile(np.float32([[1], [1], [-1], [-1]]), SIZE), axis=0)
    return Quadratic(curvature, optimum - LEFT * signs / curvature, optimum)


def compressor(spec: str) -> Compressor:
    """An operator, with a stream of its own for every step and worker."""

    def compress(values: Vector, step: int, worker: int) -> Vector:
        frame = fewbits.compress(values, spec, seed=Rng.from_seed(5).fork(step, worker))
        return fewbits.decompress(frame)

    return compress


@dataclass
class Run:
    """The points of a run, and what workers and server remembered at its end."""

    points: list[Vector] = field(default_factory=list)
    workers: list[Vector] = field(default_factory=list)
    server: Vector | None = None


def ef14(
    f: Quadratic,
    c: Compressor,
    gamma: float,
    steps: int,
    *,
    factor: float = 1,
    beta: float = 0,
    decay: float = 1,
    masks: bool = False,
) -> Run:
    """e = v - s C(v) for v = decay e + u, u = beta u + g (Lin et al. without beta: Seide et al.).

    Lin et al. also mask: u = 0 where a value was sent.
    """
    x = np.zeros(SIZE, np.float32)
    errors = [np.zeros(SIZE, np.float32) for _ in range(WORKERS)]
    momenta = [np.zeros(SIZE, np.float32) for _ in range(WORKERS)]
    run = Run()
    for step in range(steps):
        total = np.zeros(SIZE, np.float32)
        for i in range(WORKERS):
            momenta[i] = np.float32(beta) * momenta[i] + f.gradient(i, x)
            v = np.float32(decay) * errors[i] + momenta[i]
            sent = c(v, step, i)
            if masks:
                momenta[i] = np.where(sent == 0, momenta[i], np.float32(0))
            errors[i] = v - np.float32(factor) * sent
            total = total + sent
        x = x - np.float32(gamma) * (np.float32(factor) * (total / np.float32(WORKERS)))
        run.points.append(x)
    rows = [[e, u] if beta else [e] for e, u in zip(errors, momenta, strict=True)]
    run.workers = [np.stack(own) for own in rows]
    return run


def ef_bv(
    f: Quadratic, c: Compressor, gamma: float, steps: int, *, shift: float, scale: float
) -> Run:
    """d = C(g - h), h += lambda d, G = h + nu mean d: EF21 (1, 1), DIANA (1 / (1 + omega), 1)."""
    x, own = np.zeros(SIZE, np.float32), np.zeros(SIZE, np.float32)
    shifts = [np.zeros(SIZE, np.float32) for _ in range(WORKERS)]
    run = Run()
    for step in range(steps):
        total = np.zeros(SIZE, np.float32)
        for i in range(WORKERS):
            sent = c(f.gradient(i, x) - shifts[i], step, i)
            shifts[i] = shifts[i] + np.float32(shift) * sent
            total = total + sent
        mean = total / np.float32(WORKERS)
        estimate = own + np.float32(scale) * mean
        own = own + np.float32(shift) * mean
        x = x - np.float32(gamma) * estimate
        run.points.append(x)
    run.workers, run.server = [shift[None] for shift in shifts], own[None]
    return run


def dcgd(f: Quadratic, c: Compressor, gamma: float, steps: int) -> Run:
    """No memory."""
    x = np.zeros(SIZE, np.float32)
    run = Run()
    for step in range(steps):
        total = sum(c(f.gradient(i, x), step, i).astype(np.float64) for i in range(WORKERS))
        x = (x - gamma * total / WORKERS).astype(np.float32)
        run.points.append(x)
    return run


def ours(f: Quadratic, method: str, spec: str, gamma: float, steps: int) -> Run:
    """The same with senders and a receiver of the library."""
    sender = Sender.of(method, spec, d=SIZE, senders=WORKERS)
    receiver = Receiver(sender.rule)
    memories = [sender.init(SIZE) for _ in range(WORKERS)]
    own = receiver.init(SIZE)
    x = np.zeros(SIZE, np.float32)
    run = Run()
    for step in range(steps):
        total = np.zeros(SIZE, np.float32)
        for i in range(WORKERS):
            rng = Rng.from_seed(5).fork(step, i)
            frame, memories[i] = sender.step(f.gradient(i, x), memories[i], rng)
            total = total + fewbits.decompress(frame)
        estimate, own = receiver.step(total / np.float32(WORKERS), own)
        x = x - np.float32(gamma) * estimate
        run.points.append(x)
    run.workers, run.server = memories, own
    return run
