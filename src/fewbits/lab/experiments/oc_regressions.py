"""Ridge and logistic regression on real data with real frames: bytes to 10⁻⁴."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import fewbits
from fewbits.lab import datasets, descent, figures
from fewbits.lab.datasets import Samples
from fewbits.lab.descent import Compressor, Problem, Run, Sent, Vector
from fewbits.lab.experiment import Experiment, Settings, Tick
from fewbits.lab.logistic import Logistic
from fewbits.lab.ridge import Ridge
from fewbits.train.extras import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONDITION = 101.0
BIASED = "sparse-dithering:nu=0.1,coder=paper"
UNBIASED = "sparse-dithering:nu=0.25,rounding=stochastic,coder=paper"
LIBSVM = ("svmguide1", "splice", "phishing", "mushrooms", "w8a")
KEEPING = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0)  # shares that the best top-k is chosen from
_QUICK_KEEPING = (0.2, 0.5)


class Task(NamedTuple):
    """A function to be minimised, and spherical compression's parameters for it."""

    kind: str
    data: str
    problem: Problem
    spherical: str


@dataclass(frozen=True, slots=True)
class Row:
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


def rows(settings: Settings, tick: Tick) -> list[Row]:
    """Every operator on every problem."""
    found = []
    own = list(tasks(settings.data, quick=settings.quick))
    for number, task in enumerate(own, 1):
        found += solved(task, settings.seed, quick=settings.quick)
        tick(number / len(own))
    return found


def tasks(data: str | None, *, quick: bool = False) -> Iterator[Task]:
    """What comes with scikit-learn, then the LIBSVM files that the folder has."""
    cancer, few = datasets.breast_cancer(), datasets.breast_cancer(10)
    yield Task("ridge", "diabetes", _ridge(datasets.diabetes()), "spherical:alpha=0.25,block=10")
    yield Task("ridge", "breast cancer", _ridge(cancer), "spherical:alpha=0.25,block=15")
    yield Task("logistic", "breast cancer, means", _logistic(few), "spherical:alpha=0.2,block=10")
    yield Task("logistic", "breast cancer", _logistic(cancer), "spherical:alpha=0.25,block=15")
    for name in LIBSVM[:2] if quick else LIBSVM:
        samples = datasets.libsvm(data, name) if data else None
        if samples:
            block = min(16, samples.features.shape[1])
            yield Task("logistic", name, _logistic(samples), f"spherical:alpha=0.5,block={block}")


def _ridge(samples: Samples) -> Ridge:
    plain = Ridge(samples.features, samples.targets, 0.0).smoothness
    return Ridge(samples.features, samples.targets, plain / (CONDITION - 1))


def _logistic(samples: Samples) -> Logistic:
    signed: Any = samples.features * samples.targets[:, None]
    if np.count_nonzero(signed) < signed.size / 10:
        signed = require("scipy.sparse", "lab", package="scipy").csr_array(signed)
    return Logistic(signed, Logistic(signed, 0.0).smoothness / (CONDITION - 1))


def solved(task: Task, seed: int, *, quick: bool) -> list[Row]:
    """Without compression first; of top-k the share that takes the fewest bits of frames."""
    d = task.problem.start.size
    most = descent.patience(descent.plain_steps(task.problem))

    def run(spec: str) -> Run:
        omega = fewbits.operator(spec).guarantee(d).omega or 0.0
        return descent.descend(task.problem, _framed(spec, seed), 1 / (1 + omega), most)

    plain = run("identity")
    found = [_row(task, "none", "identity", plain, plain)]
    named = {"biased sparse dithering": BIASED, "unbiased sparse dithering": UNBIASED}
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

    def compress(gradient: Vector, number: int) -> Sent:
        narrow = gradient.astype(np.float32)
        frame = fewbits.compress(narrow, operator, seed=rng.fork(number), threads=1)
        value = fewbits.decompress(frame, threads=1).astype(np.float64)
        own = fewbits.inspect(frame).sections
        bits = 8 * sum(own.values()), 8 * own.get("key", 0), 8 * len(frame)
        return Sent(value, bits)

    return compress


def _row(task: Task, name: str, spec: str, run: Run, plain: Run) -> Row:
    d = task.problem.start.size
    if run.steps is None:
        nothing = (None,) * 7
        return Row(task.kind, task.data, d, name, spec, *nothing)
    sections, key, frames = (int(bits) for bits in run.bits)
    return Row(
        task.kind, task.data, d, name, spec, run.steps, sections, key, frames,
        plain.bits[0] / sections, plain.bits[0] / (sections - key), plain.bits[2] / frames,
    )  # fmt: skip


def findings(table: Sequence[Row]) -> list[str]:
    """How many times fewer bits, by problem."""
    found = []
    for kind, data in dict.fromkeys((row.kind, row.data) for row in table):
        own = [row for row in table if (row.kind, row.data) == (kind, data)]
        parts = [
            f"{row.operator} {row.times_less_sections:.1f} times fewer in sections "
            f"({row.times_less_without_key:.1f} without the key), {row.times_less_frames:.1f} in "
            "frames"
            for row in own[1:]
            if row.steps
        ]
        found.append(f"{kind} regression on {data}, d = {own[0].d}: {'; '.join(parts)}.")
    return found


def draw(table: Sequence[Row]) -> "Figure":
    """Bars of how many times fewer bits, sections and frames."""
    problems = list(dict.fromkeys((row.kind, row.data, row.d) for row in table))
    drawn, (plot,) = figures.panels(
        "Bits of one worker until the squared error is 10⁻⁴ of the first, real frames",
        width=9, height=1.2 + 0.8 * len(problems),
    )  # fmt: skip
    names = list(dict.fromkeys(row.operator for row in table))[1:]
    for at, name in enumerate(names):
        own = [row for row in table if row.operator == name]
        places = [place + 0.2 * at - 0.3 for place in range(len(own))]
        frames = [row.times_less_frames or 0 for row in own]
        sections = [row.times_less_without_key or 0 for row in own]
        colour = figures.COLOURS[at]
        plot.barh(places, sections, 0.18, color=colour, alpha=0.3)
        plot.barh(places, frames, 0.18, color=colour, label=name)
        for place, row, end in zip(places, own, sections, strict=True):
            text = (
                "stalls" if row.steps is None else f"{end:.1f}, frames {row.times_less_frames:.1f}"
            )
            plot.annotate(text, (end, place), (4, 0), textcoords="offset points", va="center",
                          fontsize=7.5)  # fmt: skip
    figures.names(plot, [f"{kind}, {data}\n(d = {d})" for kind, data, d in problems])
    plot.axvline(1, color="black", lw=1)
    plot.set_xlim(0, 1.25 * max(row.times_less_without_key or 0 for row in table))
    plot.set_xlabel("times fewer bits than 32 a value: whole frames (dark), sections without keys")
    drawn.legend(*plot.get_legend_handles_labels(), loc="outside lower left", ncols=4, fontsize=9)
    return drawn


EXPERIMENT = Experiment(
    name="oc-regressions",
    title="Optimal compression, regressions with real frames",
    about="Gradient descent with one worker until the squared distance from the solution is 10⁻⁴ "
    "of the first, condition 101. Ridge regression on scikit-learn's diabetes data (10 features "
    "and their squares) and on its breast cancer data, logistic regression on the latter, and with "
    "--data on LIBSVM files. The paper's own sets, Body-Fat and the older Breast-Cancer, are not "
    "among them: see oc-convergence. Compressed gradients are frames: sections are what a "
    "compressor has to say, frames have a header and a checksum besides, and spherical "
    "compression a key of 128 bits among its sections.",
    row=Row,
    compute=rows,
    draw=draw,
    findings=findings,
)
