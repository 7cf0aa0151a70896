"""Every method with every operator that suits it, on workers that have little in common."""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import fewbits
from fewbits import methods
from fewbits.errors import SpecError
from fewbits_lab.experiment import StudySettings, Tick
from fewbits_lab.problems import datasets
from fewbits_lab.problems.workers import CONDITION, Workers

RESULT = Path(__file__).with_name("result-mushrooms.json")
TARGET, END = 1e-4, 1e-10
METHODS_WORKERS, BUNDLED_WORKERS = 20, 10
_MOST, _QUICK = 2500, 400  # rounds
_EVERY = 20  # rounds between points of a curve
_NATURAL, DITHERING = "natural", "natural-dithering"
_SPARSE = "sparse-dithering:nu=0.25,rounding=stochastic"
METHODS_TOP, _RANDOM = "top-k:fraction=0.1|natural", "rand-k:fraction=0.25|natural"
OPERATORS = (_NATURAL, DITHERING, _SPARSE, _RANDOM, METHODS_TOP)


class MethodCase(NamedTuple):
    """A method, an operator, and the operator of the way back."""

    method: str
    operator: str
    master: str = "identity"

    @property
    def label(self) -> str:
        """The method's name on figures and in tables."""
        if self.operator == "identity":
            return "none"
        return f"{self.method}, both ways" if self.master != "identity" else self.method


@dataclass(frozen=True, slots=True)
class MethodsRow:
    """A point of a run: bytes are those of all workers together, in whole frames.

    `up_sections` are the bytes without headers and checksums. `reached` marks the first round with
    an excess of 1e-4 of the start's; `last` the end of the run.
    """

    problem: str
    method: str
    operator: str
    round: int
    excess: float
    up_bytes: int
    up_sections: int
    down_bytes: int
    reached: bool = False
    last: bool = False


def cases() -> list[MethodCase]:
    """The cases: unbiased operators for all but EF14 and EF21, which take every one."""
    found = [MethodCase("dcgd", "identity"), MethodCase("dcgd", _NATURAL, _NATURAL)]
    found += [MethodCase(name, spec) for spec in OPERATORS for name in methods.METHODS]
    return [case for case in found if _suits(case)]


def _suits(case: MethodCase) -> bool:
    fleet, even = methods.Fleet.alone(2), methods.Smoothness.equal(1.0)
    try:
        methods.build(case.method, methods.Clients(fleet, lambda _, x: x, even, 100), case.operator)
    except SpecError:
        return False
    # With one that is biased EF-BV is EF21.
    biased = fewbits.operator(case.operator).guarantee(100).omega is None
    return not (case.method == "ef-bv" and biased)


def rows(settings: StudySettings, tick: Tick) -> list[MethodsRow]:
    """All cases, on mushrooms where there is a folder that has it."""
    samples = datasets.libsvm(settings.data, "mushrooms") if settings.data else None
    number = METHODS_WORKERS if samples else BUNDLED_WORKERS
    workers = Workers.sorted_by_label(samples or datasets.breast_cancer(), number)
    name = samples.name if samples else "breast cancer"
    most, own = _QUICK if settings.quick else _MOST, cases()
    found: list[MethodsRow] = []
    for part, case in enumerate(own, 1):
        found += course(case, workers, name, settings.seed, most)
        tick(part / len(own))
    return found


def course(
    case: MethodCase, workers: Workers, problem: str, seed: int, most: int
) -> Iterator[MethodsRow]:
    """The points of one run with theory's step size, until the excess is 1e-10 of the start's."""
    options = {"downlink": case.master} if case.master != "identity" else {}
    start = workers.whole.start
    fleet = methods.Fleet.alone(len(workers.parts))
    clients = methods.Clients(fleet, workers.gradient, workers.smoothness, start.size)
    method = methods.build(case.method, clients, case.operator, **options)
    state, rng, reached = method.init(start), fewbits.Rng.from_seed(seed), False
    while True:
        excess = workers.excess(state.x)
        first = excess <= TARGET and not reached
        reached = reached or first
        last = excess <= END or state.number == most
        if first or last or state.number % _EVERY == 0:
            sent = state.traffic
            yield MethodsRow(
                problem, case.label, case.operator, state.number, max(excess, 1e-17),
                sent.up, sent.up_sections, sent.down, first, last,
            )  # fmt: skip
        if last:
            return
        state = method.step(state, rng)


class MethodSummary(NamedTuple):
    """A summary of one run: when 1e-4 was reached, and the level at the end."""

    method: str
    operator: str
    reached: MethodsRow | None
    rounds: int
    end: float


def summaries(table: Sequence[MethodsRow]) -> list[MethodSummary]:
    """One for each run; the end is the median of the last ten points, where a run stalls."""
    found = []
    for method, operator in dict.fromkeys((row.method, row.operator) for row in table):
        own = [row for row in table if (row.method, row.operator) == (method, operator)]
        hit = next((row for row in own if row.reached), None)
        end = own[-1].excess
        if end > END:
            end = median(row.excess for row in own[-10:])
        found.append(MethodSummary(method, operator, hit, own[-1].round, end))
    return found


def main() -> None:
    """Run the cases on mushrooms that `result-mushrooms.json` does not have yet, and add them."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--data", required=True, help="a folder of LIBSVM files")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no case after these")
    options = parser.parse_args()
    samples = datasets.libsvm(options.data, "mushrooms")
    assert samples is not None, "no mushrooms"
    workers = Workers.sorted_by_label(samples, METHODS_WORKERS)
    found = _recorded(workers)
    done = {(run["method"], run["operator"]) for run in found["runs"]}
    began = time.monotonic()
    for case in cases():
        if (case.label, case.operator) in done or time.monotonic() - began > options.seconds:
            continue
        found["runs"].append(_summed_up(case, workers))
        RESULT.write_text(json.dumps(found, indent=1) + "\n")
        print(case.label, case.operator, found["runs"][-1]["end"], flush=True)


def _recorded(workers: Workers) -> dict[str, Any]:
    """The content of the file, or a new head."""
    if RESULT.exists():
        return dict(json.loads(RESULT.read_text()))
    return {
        "problem": "logistic regression on mushrooms, workers sorted by label",
        "workers": METHODS_WORKERS, "d": int(workers.whole.start.size), "condition": CONDITION,
        "seed": StudySettings().seed, "most_rounds": _MOST, "runs": [],
    }  # fmt: skip


def _summed_up(case: MethodCase, workers: Workers) -> dict[str, Any]:
    """One case on mushrooms, without the curve."""
    (own,) = summaries(list(course(case, workers, "mushrooms", StudySettings().seed, _MOST)))
    hit = own.reached
    return {
        "method": case.label, "operator": case.operator, "rounds": own.rounds, "end": own.end,
        "reached": None if hit is None else {
            "round": hit.round, "up_bytes": hit.up_bytes, "up_sections": hit.up_sections,
            "down_bytes": hit.down_bytes,
        },
    }  # fmt: skip


if __name__ == "__main__":
    main()
