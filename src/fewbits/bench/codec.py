"""Measures every operator against a copy of the same vector, in the same run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fewbits import codec, registry
from fewbits.bench import jobs
from fewbits.bench.dtypes import TRELLIS_SPECS
from fewbits.bench.jobs import HALF_CAST, MEMCPY
from fewbits.bench.machine import Machine, this_machine, torch_or_none
from fewbits.bench.processors import bound
from fewbits.bench.timing import Plan, Samples, TimedJob, measured
from fewbits.bench.workload import Workload
from fewbits.core.operator import Operator

MANY = Plan(rounds=30, seconds=22)
QUICK = Plan(rounds=7, seconds=1.2)
_VALUES = 65_536  # of a vector for which all operators make sense
_ALSO = (
    "natural:coder=rans",
    "top-k:fraction=0.01|natural",
    "rand-k:fraction=0.01|natural",
    *TRELLIS_SPECS,
)


@dataclass(frozen=True, slots=True)
class CodecRow:
    """One job. Ratios are speeds: 2 is twice as fast. torch's cast is timed with one thread only.

    `gigabytes_per_second` are bytes of the float32 vector, in wall time, whatever the job writes.
    """

    name: str
    threads: int
    seconds_median: float
    seconds_best: float
    cpu_median: float
    memcpy_ratio_median: float
    memcpy_ratio_best: float
    fp16_ratio_median: float | None
    gigabytes_per_second: float


@dataclass(frozen=True, slots=True)
class Scaling:
    """The speed-up of a job by more threads, and its ratio to that of memcpy."""

    name: str
    threads: int
    speedup: float
    memcpy_speedup: float
    quotient: float


@dataclass(frozen=True, slots=True)
class Size:
    """The measured size of an operator's frame."""

    spec: str
    frame_bytes: int
    overhead_bytes: int
    bits_per_value: float


@dataclass(frozen=True, slots=True)
class CodecReport:
    """The results of one run."""

    machine: Machine
    elements: int
    rounds: int
    rows: list[CodecRow]
    scaling: list[Scaling]
    sizes: list[Size]


def default_operators() -> list[Operator]:
    """What is measured if nobody says what."""
    return [registry.operator(spec) for spec in default_specs()]


def default_specs() -> list[str]:
    """Operators and stages that need no parameter, by name, and what the documents show beside."""
    classes = registry.catalogue().classes().values()
    examples = [registry.example_specs(cls, _VALUES) for cls in classes]
    free = [specs[0] for specs in examples if specs]
    return [*free, *_ALSO]


def run(
    elements: int,
    operators: Sequence[Operator],
    threads: Sequence[int],
    plan: Plan,
    progress: Callable[[float], None] = lambda _: None,
    others: Callable[[Workload], list[TimedJob]] = lambda _: [],
) -> CodecReport:
    """Measure all jobs; `FewbitsError` if one is wrong. `others` run in the same rounds."""
    torch = torch_or_none()
    natural = registry.operator("natural")
    work = Workload(elements)
    for operator in {natural, *operators}:
        work.prepare(operator)
    with jobs.one_torch_thread(torch):
        chosen = [
            candidate
            for count in threads
            for candidate in jobs.candidates(work, natural, operators, count, torch=torch)
        ]
        chosen += others(work)
        with bound(max(threads)):
            samples = measured(chosen, plan, progress)
    return CodecReport(
        machine=this_machine(),
        elements=elements,
        rounds=samples[0].wall.size,
        rows=_rows(chosen, samples, work.x.nbytes),
        scaling=_scaling(chosen, samples),
        sizes=[_size(work, operator) for operator in operators],
    )


def _rows(chosen: Sequence[TimedJob], samples: Sequence[Samples], size: int) -> list[CodecRow]:
    yardsticks = {
        (own.name, own.threads): times for own, times in zip(chosen, samples, strict=True)
    }
    half = yardsticks.get((HALF_CAST, 1))
    rows = []
    for own, times in zip(chosen, samples, strict=True):
        memcpy = yardsticks[MEMCPY, own.threads]
        row = CodecRow(
            name=own.name,
            threads=own.threads,
            seconds_median=float(np.median(times.wall)),
            seconds_best=float(times.wall.min()),
            cpu_median=float(np.median(times.cpu)),
            memcpy_ratio_median=float(np.median(times.speed_against(memcpy))),
            memcpy_ratio_best=float(memcpy.compared.min() / times.compared.min()),
            fp16_ratio_median=None
            if half is None or own.threads != 1
            else float(np.median(times.speed_against(half))),
            gigabytes_per_second=size / float(np.median(times.wall)) / 1e9,
        )
        rows.append(row)
    return rows


def _scaling(chosen: Sequence[TimedJob], samples: Sequence[Samples]) -> list[Scaling]:
    """Wall time with one thread over wall time with more, round by round."""
    alone = {
        own.name: times.wall for own, times in zip(chosen, samples, strict=True) if own.threads == 1
    }
    several = [
        (own, float(np.median(alone[own.name] / times.wall)))
        for own, times in zip(chosen, samples, strict=True)
        if own.threads != 1 and own.name in alone
    ]
    memcpy = {own.threads: speedup for own, speedup in several if own.name == MEMCPY}
    return [
        Scaling(own.name, own.threads, speedup, memcpy[own.threads], speedup / memcpy[own.threads])
        for own, speedup in several
    ]


def _size(work: Workload, operator: Operator) -> Size:
    info = codec.inspect(work.frames[operator.spec])
    return Size(operator.spec, info.bytes, info.overhead, info.bits_per_value)
