"""Ridge and logistic regression on real data with real frames: bytes to 10⁻⁴."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import fewbits
from fewbits_lab.experiment import StudySettings, Tick
from fewbits_lab.problems import datasets, descent
from fewbits_lab.problems.datasets import LabelledSet
from fewbits_lab.problems.descent import (
    Compressor,
    DescentProblem,
    DescentRun,
    Float64Vector,
    SentVector,
)
from fewbits_lab.problems.logistic import Logistic
from fewbits_lab.problems.ridge import Ridge

_CONDITION = 101.0
REGRESSIONS_BIASED = "sparse-dithering:nu=0.1,coder=paper"
REGRESSIONS_UNBIASED = "sparse-dithering:nu=0.25,rounding=stochastic,coder=paper"
LIBSVM = ("svmguide1", "splice", "phishing", "mushrooms", "w8a")
KEEPING = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0)  # shares that the best top-k is chosen from
_QUICK_KEEPING = (0.2, 0.5)


class RegressionTask(NamedTuple):
    """A function to be minimised, and spherical compression's parameters for it."""

    kind: str
    data: str
    problem: DescentProblem
    spherical: str


@dataclass(frozen=True, slots=True)
class OcRegressionsRow:
    """Bits in all until the target: of the sections, of keys among them, and of whole frames.

    A key is what both sides could as well derive from a seed that they share, as the paper assumes.
    """

    kind: str
    data: str
    d: int
    operator: str
    spec: str
    steps: int | None
    section_bits: int | None
    key_bits: int | None
    frame_bits: int | None
    times_less_sections: float | None
    times_less_without_key: float | None
    times_less_frames: float | None


def rows(settings: StudySettings, tick: Tick) -> list[OcRegressionsRow]:
    """Every operator on every problem."""
    found = []
    own = list(tasks(settings.data, quick=settings.quick))
    for number, task in enumerate(own, 1):
        found += solved(task, settings.seed, quick=settings.quick)
        tick(number / len(own))
    return found


def tasks(data: str | None, *, quick: bool = False) -> Iterator[RegressionTask]:
    """The data sets of scikit-learn, then the LIBSVM files in the folder."""
    cancer, few = datasets.breast_cancer(), datasets.breast_cancer(10)
    yield RegressionTask(
        "ridge", "diabetes", _ridge(datasets.diabetes()), "spherical:alpha=0.25,block=10"
    )
    yield RegressionTask("ridge", "breast cancer", _ridge(cancer), "spherical:alpha=0.25,block=15")
    yield RegressionTask(
        "logistic", "breast cancer, means", _logistic(few), "spherical:alpha=0.2,block=10"
    )
    yield RegressionTask(
        "logistic", "breast cancer", _logistic(cancer), "spherical:alpha=0.25,block=15"
    )
    for name in LIBSVM[:2] if quick else LIBSVM:
        samples = datasets.libsvm(data, name) if data else None
        if samples:
            block = min(16, samples.features.shape[1])
            yield RegressionTask(
                "logistic", name, _logistic(samples), f"spherical:alpha=0.5,block={block}"
            )


def _ridge(samples: LabelledSet) -> Ridge:
    plain = Ridge(samples.features, samples.targets, 0.0).smoothness
    return Ridge(samples.features, samples.targets, plain / (_CONDITION - 1))


def _logistic(samples: LabelledSet) -> Logistic:
    from scipy import sparse  # slow to import

    signed: Any = samples.features * samples.targets[:, None]
    if np.count_nonzero(signed) < signed.size / 10:
        signed = sparse.csr_array(signed)
    return Logistic(signed, Logistic(signed, 0.0).smoothness / (_CONDITION - 1))


def solved(task: RegressionTask, seed: int, *, quick: bool) -> list[OcRegressionsRow]:
    """Without compression first; of top-k the share that takes the fewest bits of frames."""
    d = task.problem.start.size
    most = descent.patience(descent.plain_steps(task.problem))

    def run(spec: str) -> DescentRun:
        omega = fewbits.operator(spec).guarantee(d).omega or 0.0
        return descent.descend(task.problem, _framed(spec, seed), 1 / (1 + omega), most)

    plain = run("identity")
    found = [_row(task, "none", "identity", plain, plain)]
    named = {
        "biased sparse dithering": REGRESSIONS_BIASED,
        "unbiased sparse dithering": REGRESSIONS_UNBIASED,
    }
    for name, spec in {"spherical": task.spherical, **named}.items():
        found.append(_row(task, name, spec, run(spec), plain))
    tried = {}
    for share in _QUICK_KEEPING if quick else KEEPING:
        spec = f"top-k:fraction={share}|identity"
        tried[spec] = run(spec)
    spec, best = min(tried.items(), key=lambda one: one[1].bits[2] if one[1].steps else np.inf)
    return [*found, _row(task, "best top-k", spec, best, plain)]


def _framed(spec: str, seed: int) -> Compressor:
    operator, rng = fewbits.operator(spec), fewbits.Rng.from_seed(seed)

    def compress(gradient: Float64Vector, number: int) -> SentVector:
        narrow = gradient.astype(np.float32)
        frame = fewbits.compress(narrow, operator, seed=rng.fork(number), threads=1)
        value = fewbits.decompress(frame, threads=1).astype(np.float64)
        own = fewbits.inspect(frame).sections
        bits = 8 * sum(own.values()), 8 * own.get("key", 0), 8 * len(frame)
        return SentVector(value, bits)

    return compress


def _row(
    task: RegressionTask, name: str, spec: str, run: DescentRun, plain: DescentRun
) -> OcRegressionsRow:
    d = task.problem.start.size
    if run.steps is None:
        nothing = (None,) * 7
        return OcRegressionsRow(task.kind, task.data, d, name, spec, *nothing)
    sections, key, frames = (int(bits) for bits in run.bits)
    return OcRegressionsRow(
        task.kind, task.data, d, name, spec, run.steps, sections, key, frames,
        plain.bits[0] / sections, plain.bits[0] / (sections - key), plain.bits[2] / frames,
    )  # fmt: skip
