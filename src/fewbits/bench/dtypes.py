"""Measures operators on every dtype, with one thread and with more, against memcpy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fewbits import registry
from fewbits.bench import jobs, small
from fewbits.bench.machine import Machine, this_machine
from fewbits.bench.processors import bound
from fewbits.bench.small import ManyRow, SmallRow
from fewbits.bench.timing import Plan, Samples, TimedJob, measured, part_of
from fewbits.bench.workload import Workload
from fewbits.core.operator import Operator
from fewbits.errors import DecodeError
from fewbits.reference.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, Format

DTYPE_ELEMENTS, QUICK_ELEMENTS = 1 << 24, 1 << 19
EACH = Plan(rounds=15, seconds=6)  # for one operator
QUICK_EACH = Plan(rounds=3, seconds=0.2)
DTYPES = (FLOAT32, BFLOAT16, FLOAT16, FLOAT64)
# At one and two bits, nearest and unbiased, as they are spelt in results.
TRELLIS_SPECS = (
    "trellis:scale=least-squares,bits=1",
    "trellis:bits=2",
    "trellis:rounding=subtractive,bits=1",
    "trellis:rounding=subtractive,bits=2",
)
DTYPE_SPECS = (
    "natural",
    "natural:coder=rans",
    "identity",
    "float16",
    "bfloat16",
    "natural-dithering",
    "natural-dithering:coder=rans",
    "standard-dithering",
    "standard-dithering:coder=rans",
    "sparse-dithering",
    "sign",
    "spherical",
    "top-k|natural",
    "top-k:fraction=0.01|natural",
    "rand-k|natural",
    "rand-k:fraction=0.01|natural",
    "hadamard|natural",
    "scale|natural",
    "trellis",
    *TRELLIS_SPECS,
)


@dataclass(frozen=True, slots=True)
class DtypeSpeed:
    """One direction. `memcpy_ratio` is a speed: 2 is twice as fast.

    It is the median over rounds of ratios of processor times within a round, one thread, to a copy
    of the float32 vector with as many values, whatever the dtype. `speedup` is how many times as
    fast more threads are, by the best wall times; None where only one was measured.
    """

    memcpy_ratio: float
    cpu_median: float
    seconds_median: float
    speedup: float | None


@dataclass(frozen=True, slots=True)
class DtypeRow:
    """An operator on a dtype."""

    spec: str
    dtype: str
    bits_per_value: float
    rounds: int
    compress: DtypeSpeed
    decompress: DtypeSpeed


@dataclass(frozen=True, slots=True)
class DtypeReport:
    """The results of one run. `memcpy_speedup` is what more threads gain in copying."""

    machine: Machine
    elements: int
    threads: int
    memcpy_gigabytes_per_second: float
    memcpy_speedup: float | None
    rows: list[DtypeRow]
    small: list[SmallRow]
    many: list[ManyRow]


def default_specs() -> list[Operator]:
    return [registry.operator(spec) for spec in DTYPE_SPECS]


def run(
    elements: int,
    operators: Sequence[Operator],
    threads: int,
    plan: Plan,
    progress: Callable[[float], None] = lambda _: None,
) -> DtypeReport:
    """Measure all; `FewbitsError` if a result is wrong. `threads` is the larger number of two."""
    works = [work for format in DTYPES if (work := _workload(elements, format)) is not None]
    steps, rows, copies = len(operators) + 1, [], []
    for number, operator in enumerate(operators):
        own, copied = _measure(works, operator, threads, plan, part_of(progress, number, steps))
        rows += own
        copies.append(copied)
    alone = np.concatenate([pair[0].wall for pair in copies])
    short, many = small.run(plan, part_of(progress, steps - 1, steps))
    return DtypeReport(
        machine=this_machine(),
        elements=elements,
        threads=threads,
        memcpy_gigabytes_per_second=4 * elements / float(np.median(alone)) / 1e9,
        memcpy_speedup=max(filter(None, map(_speedup, copies)), default=None),
        rows=rows,
        small=short,
        many=many,
    )


def _workload(elements: int, format: Format) -> Workload | None:
    try:
        return Workload(elements, format)
    except DecodeError:  # NumPy has no bfloat16 without ml_dtypes
        return None


def _measure(
    works: Sequence[Workload],
    operator: Operator,
    threads: int,
    plan: Plan,
    progress: Callable[[float], None],
) -> tuple[list[DtypeRow], list[Samples]]:
    """An operator on all dtypes, in the same rounds; and the copies."""
    counts = [1, threads] if threads > 1 else [1]
    chosen: list[TimedJob] = [jobs.memcpy(works[0], count) for count in counts]
    for work in works:
        work.prepare(operator)
        for job in (jobs.compress_into, jobs.decompress_into):
            chosen += [job(work, operator, count) for count in counts]
    with bound(threads):
        samples = measured(chosen, plan, progress)
    copies, rest = samples[: len(counts)], samples[len(counts) :]
    rows = []
    for at, work in enumerate(works):
        first = 2 * at * len(counts)
        there = rest[first : first + len(counts)]
        back = rest[first + len(counts) : first + 2 * len(counts)]
        size = work.frames[operator.spec].size
        rows.append(
            DtypeRow(
                spec=operator.spec,
                dtype=work.format.name,
                bits_per_value=8 * size / work.elements,
                rounds=copies[0].wall.size,
                compress=_speed(there, copies[0]),
                decompress=_speed(back, copies[0]),
            )
        )
        work.forget(operator)
    return rows, copies


def _speedup(own: Sequence[Samples]) -> float | None:
    """A program beside this one makes some rounds slow, and none fast."""
    return float(own[0].wall.min() / own[1].wall.min()) if len(own) > 1 else None


def _speed(own: Sequence[Samples], copy: Samples) -> DtypeSpeed:
    alone = own[0]
    return DtypeSpeed(
        memcpy_ratio=float(np.median(alone.speed_against(copy))),
        cpu_median=float(np.median(alone.cpu)),
        seconds_median=float(np.median(alone.wall)),
        speedup=_speedup(own),
    )
