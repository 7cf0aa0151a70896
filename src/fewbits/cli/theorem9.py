"""`fewbits bounds --theorem 9`: how many steps of Algorithm 1 are enough, and how long they are."""

import argparse
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import fewbits
from fewbits.cli.console import Parser, about, count, print_json
from fewbits.errors import SpecError
from fewbits.theory import bounds


class _Option(NamedTuple):
    """An option, what it is if it is not given, and what help says of it."""

    name: str
    default: Any
    kind: Callable[[str], Any]
    metavar: str
    text: str


_OPTIONS = (
    _Option("uplink", "natural", str, "SPEC", "the workers' operator"),
    _Option("downlink", "natural", str, "SPEC", "the master's operator; identity for none"),
    _Option("workers", 8, count, "n", "how many workers there are"),
    _Option("smoothness", 1.0, float, "L", "the smoothness of f"),
    _Option("gap", 1.0, float, "F", "f(x⁰) − f*"),
    _Option("variance", 1.0, float, "σ²", "the variance of a worker's gradient"),
    _Option("dissimilarity", 0.0, float, "ζ²", "the mean of |∇f_i − ∇f|²"),
    _Option("target", 0.01, float, "ε", "E|∇f|² that shall be reached"),
)


@dataclass(frozen=True, slots=True)
class TheoremAnswer:
    """What the theorem says of a pair of operators."""

    uplink: str
    downlink: str
    omega_uplink: float
    omega_downlink: float
    noise_floor: float
    noise_slope: float
    steps: int
    step_size: float
    steps_uncompressed: int
    slowdown: float


def add_options(parser: Parser) -> None:
    """The constants of the theorem."""
    group = parser.add_argument_group("with --theorem 9")
    for own in _OPTIONS:
        words = f"{own.text} (default {own.default})"
        group.add_argument(f"--{own.name}", type=own.kind, metavar=own.metavar, help=words)


def given(options: argparse.Namespace) -> list[str]:
    """The options of the theorem that are on the command line."""
    return [own.name for own in _OPTIONS if getattr(options, own.name) is not None]


def run(options: argparse.Namespace) -> None:
    chosen = {own.name: getattr(options, own.name) for own in _OPTIONS}
    values = {own.name: _or(chosen[own.name], own.default) for own in _OPTIONS}
    uplink, downlink, target = (values.pop(name) for name in ("uplink", "downlink", "target"))
    answer = answered(bounds.Problem(**values), (uplink, downlink), target, options.values)
    if options.json:
        settings = {"theorem": 9, "target": target, "values": options.values, **values}
        print_json(settings | asdict(answer))
        return
    print(_text(answer, values["workers"], target))


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def answered(
    problem: bounds.Problem, specs: tuple[str, str], target: float, d: int
) -> TheoremAnswer:
    """Steps and step size for these operators on d values."""
    omegas = [_omega(spec, d) for spec in specs]
    pair = bounds.Pair(*omegas)
    steps = bounds.iterations(problem, pair, target)
    plain = bounds.iterations(problem, bounds.EXACT_PAIR, target)
    return TheoremAnswer(
        uplink=specs[0],
        downlink=specs[1],
        omega_uplink=pair.uplink,
        omega_downlink=pair.downlink,
        noise_floor=bounds.noise_floor(problem, pair),
        noise_slope=bounds.noise_slope(problem.workers, pair),
        steps=steps,
        step_size=bounds.step_size(problem, pair, target),
        steps_uncompressed=plain,
        slowdown=steps / plain,
    )


def _omega(spec: str, d: int) -> float:
    with about(spec):
        guarantee = fewbits.operator(spec).guarantee(d)
        if guarantee.omega is None and guarantee.alpha:
            raise SpecError(
                "Theorem 9 is about unbiased operators, and this one is biased: see docs/theory.md "
                "for biased operators and error feedback"
            )
    return guarantee.omega or 0.0


def _text(answer: TheoremAnswer, workers: int, target: float) -> str:
    lines = [
        "Algorithm 1 of the paper on natural compression (--collective star), Theorem 9:",
        f"  {workers} workers send {answer.uplink} (ω = {answer.omega_uplink:.4g})",
        f"  the master sends {answer.downlink} (ω = {answer.omega_downlink:.4g})",
        f"  step size η = {answer.step_size:.6g}",
        f"  steps     T = {answer.steps:,}, then E|∇f|² ≤ {target:g} at a point picked at random",
        f"  {answer.slowdown:.3f} times the {answer.steps_uncompressed:,} without compression",
        f"  Lemma 13: E|g/n|² ≤ {answer.noise_floor:.4g} + {answer.noise_slope:.4g} |∇f|²",
    ]
    return "\n".join(lines)
