"""Measures calls on few values, where what surrounds the kernel is most of the time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fewbits import registry
from fewbits.bench import jobs
from fewbits.bench.machine import torch_or_none
from fewbits.bench.timing import Plan, TimedJob, measured, part_of
from fewbits.bench.workload import expect
from fewbits.codec import compress, decompress, largest_frame
from fewbits.many import compress_many, decompress_many

SMALL_SPECS = (
    "natural",
    "natural:coder=rans",
    "float16",
    "bfloat16",
    "identity",
    "sign",
    "natural-dithering",
    "top-k|natural",
)
_SIZES = 1000, 10_000
_CALLS = 50  # in a round
_TENSORS = 200
_PARTS = 3  # of the progress


@dataclass(frozen=True, slots=True)
class SmallRow:
    """Microseconds of processor time for one call on `elements` float32 values, warm, the median.

    `compress` is given the spec as text and makes a frame, `compress_out` an operator and `out=`;
    `decompress` makes an array, `decompress_out` is given one. `cast` is torch's cast to float16
    into a tensor that is there, in the same rounds.
    """

    spec: str
    elements: int
    compress: float
    compress_out: float
    decompress: float
    decompress_out: float
    cast: float | None


@dataclass(frozen=True, slots=True)
class ManyRow:
    """Microseconds of processor time a tensor, for a list in single calls and in one call."""

    spec: str
    tensors: int
    elements: int
    compress_single: float
    compress_many: float
    decompress_single: float
    decompress_many: float


def run(plan: Plan, progress: Callable[[float], None]) -> tuple[list[SmallRow], list[ManyRow]]:
    """Single calls, and a list of tensors."""
    torch, rows = torch_or_none(), []
    with jobs.one_torch_thread(torch):
        for number, size in enumerate(_SIZES):
            x = np.random.default_rng(1).standard_normal(size, np.float32)
            chosen = [job for spec in SMALL_SPECS for job in _single(x, spec)]
            if torch is not None:
                chosen.append(_cast(x, torch))
            found = _microseconds(chosen, plan, part_of(progress, number, _PARTS))
            cast = None if torch is None else found[-1]
            for at, spec in enumerate(SMALL_SPECS):
                rows.append(_row(spec, size, found[4 * at : 4 * at + 4], cast))
    return rows, _many(plan, part_of(progress, _PARTS - 1, _PARTS))


def _row(spec: str, size: int, found: list[float], cast: float | None) -> SmallRow:
    new, given, back, back_given = found
    return SmallRow(spec, size, new, given, back, back_given, cast)


def _single(x: Any, spec: str) -> list[TimedJob]:
    operator = registry.operator(spec)
    room, out = bytearray(largest_frame(x, operator)), np.zeros_like(x)
    frame = compress(x, operator, seed=1)
    values = decompress(frame)

    def check() -> None:
        expect(compress(x, operator, seed=1, out=room) == frame, spec)
        expect(np.array_equal(decompress(frame, out=out), values), spec)

    works: tuple[Callable[[], object], ...] = (
        lambda: compress(x, spec),
        lambda: compress(x, operator, out=room),
        lambda: decompress(frame),
        lambda: decompress(frame, out=out),
    )
    return [TimedJob(spec, 1, _repeated(work, _CALLS), check) for work in works]


def _cast(x: Any, torch: Any) -> TimedJob:
    half, source = torch.zeros(x.size, dtype=torch.float16), torch.from_numpy(x)

    def check() -> None:
        expect(np.array_equal(half.numpy(), x.astype(np.float16)), jobs.HALF_CAST)

    return TimedJob(jobs.HALF_CAST, 1, _repeated(lambda: half.copy_(source), _CALLS), check)


def _many(plan: Plan, progress: Callable[[float], None]) -> list[ManyRow]:
    size = _SIZES[0]
    arrays = list(np.random.default_rng(2).standard_normal((_TENSORS, size), np.float32))
    chosen = [job for spec in SMALL_SPECS for job in _lists(arrays, spec)]
    found = [_CALLS * own / _TENSORS for own in _microseconds(chosen, plan, progress)]
    return [
        ManyRow(spec, _TENSORS, size, *found[4 * at : 4 * at + 4])
        for at, spec in enumerate(SMALL_SPECS)
    ]


def _lists(arrays: list[Any], spec: str) -> list[TimedJob]:
    operator = registry.operator(spec)
    frames = compress_many(arrays, operator, seed=1)
    values = [decompress(frame) for frame in frames]

    def check() -> None:
        expect(compress_many(arrays, operator, seed=1) == frames, spec)
        found = decompress_many(frames)
        expect(all(map(np.array_equal, found, values)), spec)

    works: tuple[Callable[[], object], ...] = (
        lambda: [compress(x, operator) for x in arrays],
        lambda: compress_many(arrays, operator),
        lambda: [decompress(frame) for frame in frames],
        lambda: decompress_many(frames),
    )
    return [TimedJob(spec, 1, work, check) for work in works]


def _repeated(work: Callable[[], object], times: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(times):
            work()

    return run


def _microseconds(
    chosen: list[TimedJob], plan: Plan, progress: Callable[[float], None]
) -> list[float]:
    """The processor time of a job, for one call of those that it makes."""
    samples = measured(chosen, Plan(3 * plan.rounds, plan.seconds), progress)
    return [1e6 * float(np.median(own.cpu)) / _CALLS for own in samples]
