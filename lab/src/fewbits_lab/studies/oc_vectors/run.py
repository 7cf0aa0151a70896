"""What a vector costs in a spherical frame that holds several: one header, one key, one table.

A matrix of m rows compressed with `block=d` is m vectors of d values. The frame pays its header,
its checksum and its key of 128 bits once. The decoder needs nothing but the frame.
"""

from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np
import numpy.typing as npt

import fewbits
from fewbits.core.operator import Operator
from fewbits.families import caps
from fewbits_lab.experiment import StudySettings, Tick
from fewbits_lab.problems import datasets, descent
from fewbits_lab.problems.descent import Compressor, Float64Vector, SentVector

_NORM = 31.0  # bits, that the paper charges
VECTOR_SEEDS = 5
_STEPS = 336  # of plain descent in the paper's figure for d = 10
OF_SIZES, OF_DESCENT = "size", "descent"
_CASES = ((10, 0.2), (14, 0.15), (20, 0.35), (30, 0.55))  # d and α; the first two are the paper's
_COUNTS = (1, 4, 16, 64, 256)
_QUICK = (1, 16)
_LARGEST_RICE = 40


@dataclass(frozen=True, slots=True)
class OcVectorsRow:
    """Bits of a vector in whole frames; of a descent on average over all its messages.

    `paper_bits` are a norm of 31 bits and the mean of the best Rice code. `times_less` is against
    float32: bits of values for a size, whole frames until the target for a descent.
    """

    what: str
    data: str
    d: int
    vectors: int
    spec: str
    seed: int
    bits: float
    paper_bits: float
    times_less: float
    times_less_paper: float
    steps: int | None = None
    plain_steps: int | None = None


@dataclass(frozen=True)
class ManyTargets:
    """Ridge regression of several targets on the same features; a row of weights for each."""

    moment: Float64Vector
    slopes: Float64Vector  # a row for each target

    @property
    def start(self) -> Float64Vector:
        return np.zeros(self.slopes.size)

    @property
    def solution(self) -> Float64Vector:
        return np.asarray(np.linalg.solve(self.moment, self.slopes.T).T.reshape(-1))

    @property
    def smoothness(self) -> float:
        return float(np.linalg.eigvalsh(self.moment)[-1])

    def gradient(self, x: Float64Vector) -> Float64Vector:
        rows = x.reshape(self.slopes.shape)
        return np.asarray((rows @ self.moment - self.slopes).reshape(-1))

    @classmethod
    def of(cls, features: Float64Vector, targets: Float64Vector, condition: float) -> "ManyTargets":
        """The problem whose λ makes this condition; targets are standardised."""
        plain = features.T @ features / len(features)
        ridge = float(np.linalg.eigvalsh(plain)[-1]) / (condition - 1)
        own = (targets - targets.mean(axis=0)) / targets.std(axis=0)
        return cls(plain + ridge * np.eye(features.shape[1]), own.T @ features / len(features))


def rows(settings: StudySettings, tick: Tick) -> list[OcVectorsRow]:
    """Sizes of random vectors, then descents."""
    seeds = range(settings.seed, settings.seed + (1 if settings.quick else VECTOR_SEEDS))
    found = []
    for part, (d, alpha) in enumerate(_CASES, 1):
        for count in _QUICK if settings.quick else _COUNTS:
            found += [_size(d, alpha, count, seed) for seed in seeds]
        tick(part / (2 * len(_CASES)))
    problems = _problems()
    for part, (data, problem) in enumerate(problems.items(), 1):
        found += _descents(data, problem, seeds)
        tick((1 + part / len(problems)) / 2)
    return found


def _problems() -> dict[str, ManyTargets]:
    """Ten means of the breast cancer data predict the rest; 30 pixels of digits the class."""
    cancer = datasets.breast_cancer().features
    pixels, classes = datasets.digits(30)
    given = {
        "breast cancer, 10 means": (cancer[:, :10], cancer[:, 10:]),
        "digits, 30 pixels": (pixels, classes),
    }
    return {
        name: cast(ManyTargets, descent.conditioned(partial(ManyTargets.of, *own), _STEPS))
        for name, own in given.items()
    }


def paper_bits(alpha: float, d: int) -> float:
    """A message as the paper counts it: the norm, and the mean length of the best Rice code."""
    chance = caps.probability(alpha, d)
    parameter = caps.rice_parameter(chance, _LARGEST_RICE)
    assert parameter is not None
    return _NORM + caps.rice_bits(chance, parameter)


def _size(d: int, alpha: float, count: int, seed: int) -> OcVectorsRow:
    x = np.random.default_rng([seed, d, count]).standard_normal((count, d)).astype(np.float32)
    spec = f"spherical:alpha={alpha},block={d}"
    bits, own = 8 * len(_frame(x, spec, fewbits.Rng.from_seed(seed))) / count, paper_bits(alpha, d)
    return OcVectorsRow(
        OF_SIZES, "Gaussian", d, count, spec, seed, bits, own, 32 * d / bits, 32 * d / own
    )


def _descents(data: str, problem: ManyTargets, seeds: range) -> list[OcVectorsRow]:
    """All vectors in one frame, then each in its own."""
    count, d = problem.slopes.shape
    alpha = next(alpha for own, alpha in _CASES if own == d)
    spec, charged = f"spherical:alpha={alpha},block={d}", paper_bits(alpha, d)
    plain = descent.descend(problem, _framed("identity", (count, d), 1, 0), 1.0, 10**6)
    assert plain.steps is not None
    found = []
    for apart in (1, count):  # frames in a step
        base = descent.descend(problem, _framed("identity", (count, d), apart, 0), 1.0, 10**6)
        for seed in seeds:
            most = descent.patience(plain.steps)
            run = descent.descend(problem, _framed(spec, (count, d), apart, seed), 1.0, most)
            assert run.steps is not None, f"{data}: stalls"
            share = plain.steps / run.steps
            found.append(
                OcVectorsRow(
                    OF_DESCENT, data, d, count // apart, spec, seed,
                    run.bits[0] / run.steps / count, charged, base.bits[0] / run.bits[0],
                    32 * d / charged * share, run.steps, plain.steps,
                )
            )  # fmt: skip
    return found


def _framed(spec: str, shape: tuple[int, int], frames: int, seed: int) -> Compressor:
    """The rows of the matrix in so many frames, each with the same number of rows."""
    operator, rng = fewbits.operator(spec), fewbits.Rng.from_seed(seed)

    def compress(gradient: Float64Vector, number: int) -> SentVector:
        parts = np.split(gradient.reshape(shape).astype(np.float32), frames)
        sent = [_frame(part, operator, rng.fork(number).fork(at)) for at, part in enumerate(parts)]
        values = np.concatenate([fewbits.decompress(frame, threads=1) for frame in sent])
        return SentVector(values.reshape(-1).astype(np.float64), (8.0 * sum(map(len, sent)),))

    return compress


def _frame(x: npt.NDArray[np.float32], spec: str | Operator, rng: fewbits.Rng) -> bytes:
    return bytes(fewbits.compress(x, spec, seed=rng, threads=1))
