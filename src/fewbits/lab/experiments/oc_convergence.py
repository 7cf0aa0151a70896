r"""The paper's two figures: bytes until the error is 10⁻⁴ of the first, by compressor.

The figures' data sets, regularisation and start are not published with them. Here the problems are
quadratics of the same dimensions, conditioned so that gradient descent takes as many steps as in
the figures. Bits are counted as the paper does: without headers, fields not rounded to bytes.

Spherical compression is simulated by its exact law: the number of directions is geometric, and the
direction is uniform in the cap around the gradient.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import fewbits
from fewbits.coding import enumerative
from fewbits.core import caps
from fewbits.lab import descent, figures
from fewbits.lab.descent import Quadratic, Sent, Vector
from fewbits.lab.experiment import Experiment, Settings, Tick
from fewbits.lab.printed import Comparison, agrees

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NORM_BITS = 31.0
WITHIN = 0.1
_TABLE = 20_001  # points of the law of the angle
_OTHER = "another problem: data, regularisation and start of the figure are not published"
_PLACES = "log₂ C(d, k) bits for the places; the figure most likely charges 32 bits for each"
# (problem, d, steps of gradient descent, alpha of spherical), kB read off the figures
PROBLEMS = (("ridge", 14, 1118, 0.15), ("logistic", 10, 336, 0.2))
PRINTED = {
    ("ridge", "basic"): "62.6",
    ("ridge", "best top-k"): "50.6",
    ("ridge", "best top-k, 32-bit places"): "50.6",
    ("ridge", "spherical"): "8.73",
    ("ridge", "biased sparse dithering"): "9.0",
    ("ridge", "unbiased sparse dithering"): "9.78",
    ("logistic", "basic"): "13.43",
    ("logistic", "best top-k"): "12.0",
    ("logistic", "best top-k, 32-bit places"): "12.0",
    ("logistic", "spherical"): "2.41",
    ("logistic", "biased sparse dithering"): "2.65",
    ("logistic", "unbiased sparse dithering"): "2.74",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Comparison):
    """`ours` and `printed` are kB in all."""

    problem: str
    operator: str
    d: int
    steps: int
    bits_per_step: float


def rows(settings: Settings, tick: Tick) -> list[Row]:
    """Every compressor on both problems."""
    found = []
    for part, (problem, d, steps, alpha) in enumerate(PROBLEMS):
        quadratic = descent.conditioned(d, steps, settings.seed)
        plain = descent.plain_steps(quadratic)
        compressors = {
            "basic": (_basic, 1.0),
            "spherical": (_spherical(alpha, d, settings.seed), 1.0),
            "biased sparse dithering": (_dithering(0.1, "nearest", settings.seed), 1.0),
            "unbiased sparse dithering": (_dithering(0.25, "stochastic", settings.seed), 0.8),
        }
        for number, (name, (compress, step)) in enumerate(compressors.items(), 1):
            run = descent.descend(quadratic, compress, step, descent.patience(plain))
            assert run.steps is not None
            found.append(_row(problem, name, d, run.steps, run.bits[0]))
            tick((part + number / 5) / len(PROBLEMS))
        for name, wide in (("best top-k", False), ("best top-k, 32-bit places", True)):
            best = _best_top_k(quadratic, plain, wide_places=wide)
            found.append(_row(problem, name, d, *best))
        tick((part + 1) / len(PROBLEMS))
    return found


def _row(problem: str, operator: str, d: int, steps: int, bits: float) -> Row:
    printed, ours = PRINTED[problem, operator], bits / 8000
    reproduces = agrees(ours, printed, within=WITHIN)
    reason = _PLACES if operator == "best top-k" else _OTHER
    return Row(
        problem=problem,
        operator=operator,
        d=d,
        printed=printed,
        ours=ours,
        reproduces=reproduces,
        reason="" if reproduces else reason,
        steps=steps,
        bits_per_step=bits / steps,
    )


def _basic(gradient: Vector, _: int) -> Sent:
    return Sent(gradient, (32.0 * gradient.size,))


def _dithering(nu: float, rounding: str, seed: int) -> Callable[[Vector, int], Sent]:
    spec = f"sparse-dithering:nu={nu},rounding={rounding}"

    def compress(gradient: Vector, number: int) -> Sent:
        narrow = gradient.astype(np.float32)
        frame = fewbits.compress(narrow, spec, seed=seed * 2**32 + number)
        value = fewbits.decompress(frame).astype(np.float64)
        unit = 2 * math.sqrt(nu / gradient.size) * float(np.linalg.norm(gradient))
        codes = np.rint(value / unit).astype(np.int64)
        return Sent(value, (enumerative.ideal_bits(codes),))

    return compress


def _spherical(alpha: float, d: int, seed: int) -> Callable[[Vector, int], Sent]:
    """By its law: the density of s = sin² of the angle is s^((d-3)/2) / √(1 - s) up to alpha."""
    chance = caps.probability(alpha, d)
    rice = caps.rice_parameter(chance, 40)
    assert rice is not None
    # With s = alpha u^(2/(d-1)) only 1/√(1 - s) is left of the density, on a uniform u.
    u = np.linspace(0, 1, _TABLE)
    s = alpha * u ** (2 / (d - 1))
    mass = np.concatenate([[0.0], np.cumsum(np.diff(u) * (1 / np.sqrt(1 - s))[1:])])
    rng = np.random.default_rng([seed, d])

    def compress(gradient: Vector, _: int) -> Sent:
        sine2 = float(np.interp(rng.random() * mass[-1], mass, s))
        norm = float(np.linalg.norm(gradient))
        unit = gradient / norm
        across = rng.standard_normal(d)
        across -= (across @ unit) * unit
        across /= np.linalg.norm(across)
        direction = math.sqrt(1 - sine2) * unit + math.sqrt(sine2) * across
        tried = int(rng.geometric(chance))
        bits = NORM_BITS + rice + 1 + (tried - 1 >> rice)
        return Sent(math.sqrt(1 - alpha) * norm * direction, (bits,))

    return compress


def _best_top_k(quadratic: Quadratic, plain: int, *, wide_places: bool) -> tuple[int, float]:
    """The k in 1..d that takes the fewest bits."""
    d = quadratic.start.size

    def keeping(k: int) -> Callable[[Vector, int], Sent]:
        bits = 32 * k + (32.0 * k if wide_places else math.log2(math.comb(d, k)))

        def compress(gradient: Vector, _: int) -> Sent:
            value = np.zeros(d)
            places = np.argsort(-np.abs(gradient), kind="stable")[:k]
            value[places] = gradient[places]
            return Sent(value, (bits,))

        return compress

    runs = [
        descent.descend(quadratic, keeping(k), 1.0, descent.patience(plain))
        for k in range(1, d + 1)
    ]
    best = min((run for run in runs if run.steps), key=lambda run: run.bits[0])
    assert best.steps is not None
    return best.steps, best.bits[0]


def draw(table: Sequence[Row]) -> "Figure":
    """Bars of kilobytes, and marks where the figures have them."""
    drawn, plots = figures.panels("Bytes to 10⁻⁴ of the first error", 2, width=11.5, height=4)
    order = tuple(dict.fromkeys(operator for _, operator in PRINTED))
    for plot, (problem, d, steps, _) in zip(plots, PROBLEMS, strict=True):
        for at, operator in enumerate(order):
            (row,) = (r for r in table if r.problem == problem and r.operator == operator)
            plot.barh(at, row.ours, color=figures.BLUE, alpha=0.6, height=0.6)
            text = f"{row.ours:.2f} kB, {row.steps:,} steps"
            end = max(row.ours, float(row.printed or 0))
            plot.annotate(text, (end, at), (7, 0), textcoords="offset points", va="center",
                          fontsize=9)  # fmt: skip
            plot.plot(float(row.printed or "nan"), at, "|", color="black", ms=20, mew=2)
        figures.names(plot, order)
        plot.set_title(f"d = {d}, {steps:,} steps of gradient descent, as the {problem} figure",
                       fontsize=10)  # fmt: skip
        plot.set_xlabel("kB")
        plot.set_xlim(0, 1.55 * max(float(text) for key, text in PRINTED.items()
                                    if key[0] == problem))  # fmt: skip
    plots[1].set_yticklabels([])
    plots[0].plot([], [], "s", color=figures.BLUE, alpha=0.6, label="ours, on a quadratic")
    plots[0].plot([], [], "|", color="black", ms=12, mew=2, label="read off the paper's figure")
    drawn.legend(*plots[0].get_legend_handles_labels(), loc="outside lower left", ncols=2)
    return drawn


EXPERIMENT = Experiment(
    name="oc-convergence",
    title="Optimal compression, both figures",
    about="Bytes that one worker sends until the squared error is 10⁻⁴ of the first. Problems of "
    "the figures' dimensions and numbers of steps stand in for their data, which are not "
    "published; within 10 % a value counts as reproduced. The norm costs 31 bits everywhere.",
    row=Row,
    compute=rows,
    draw=draw,
)
