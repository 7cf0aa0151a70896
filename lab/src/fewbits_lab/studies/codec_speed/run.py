"""Speed of every codec against memcpy, beside torch's float16 cast, zstd and blosc2."""

from dataclasses import dataclass

import numpy as np

import fewbits
from fewbits import registry
from fewbits.bench import codec
from fewbits.bench.jobs import HALF_CAST, MEMCPY, compress_name, decompress_name
from fewbits.bench.timing import Plan, TimedJob
from fewbits.bench.workload import FrameBytes, Workload
from fewbits_lab.coders import comparison as coding
from fewbits_lab.coders.candidates import LOSSLESS, Coder, message_size
from fewbits_lab.experiment import StudySettings, Tick

ELEMENTS, _QUICK_ELEMENTS = 1 << 22, 1 << 19
PLAN, _QUICK_PLAN = Plan(rounds=15, seconds=75), Plan(rounds=5, seconds=8)
MORE = (
    "natural:rounding=nearest",
    "natural:coder=rans",
    "natural-dithering:coder=rans",
    "standard-dithering:coder=rans",
    "sparse-dithering:rounding=stochastic",
    "sparse-dithering:rounding=subtractive",
)
YARDSTICK, SPEED_OPERATOR, LOSSLESS_KIND = "yardstick", "operator", "lossless"
SPEED_ENCODE, SPEED_DECODE = "encode", "decode"


@dataclass(frozen=True, slots=True)
class CodecSpeedRow:
    """One direction of a codec, one thread. `memcpy_ratio` is a speed: 2 is twice as fast.

    It is the median over rounds of ratios of processor times within a round; `wall_seconds` and
    `cpu_seconds` are medians too. `gigabytes_per_second` are bytes of the vector in wall time.
    """

    codec: str
    kind: str
    direction: str
    d: int
    bits_per_value: float
    memcpy_ratio: float
    wall_seconds: float
    cpu_seconds: float
    gigabytes_per_second: float
    rounds: int
    machine: str


def rows(settings: StudySettings, tick: Tick) -> list[CodecSpeedRow]:
    """Yardsticks, then operators, then what loses nothing."""
    elements = _QUICK_ELEMENTS if settings.quick else ELEMENTS
    operators = [fewbits.operator(spec) for spec in specs(elements)]
    sizes: dict[str, int] = {}

    def others(work: Workload) -> list[TimedJob]:
        return _lossless(work.x.view(np.uint8), sizes)

    plan = _QUICK_PLAN if settings.quick else PLAN
    report = codec.run(elements, operators, (1,), plan, tick, others)
    bits = {size.spec: size.bits_per_value for size in report.sizes}
    timed = {row.name: row for row in report.rows}

    def row(name: str, kind: str, direction: str, job: str, width: float) -> CodecSpeedRow:
        own = timed[job]
        return CodecSpeedRow(
            codec=name,
            kind=kind,
            direction=direction,
            d=elements,
            bits_per_value=width,
            memcpy_ratio=own.memcpy_ratio_median,
            wall_seconds=own.seconds_median,
            cpu_seconds=own.cpu_median,
            gigabytes_per_second=own.gigabytes_per_second,
            rounds=report.rounds,
            machine=report.machine.cpu,
        )

    found = [row(MEMCPY, YARDSTICK, SPEED_ENCODE, MEMCPY, 32.0)]
    if HALF_CAST in timed:
        found.append(row(HALF_CAST, YARDSTICK, SPEED_ENCODE, HALF_CAST, 16.0))
    for spec, width in bits.items():
        found.append(row(spec, SPEED_OPERATOR, SPEED_ENCODE, compress_name(spec), width))
        found.append(row(spec, SPEED_OPERATOR, SPEED_DECODE, decompress_name(spec), width))
    for coder in LOSSLESS:
        if coder.name in sizes:
            width = 8 * sizes[coder.name] / elements
            for direction, job in _jobs(coder):
                found.append(row(coder.name, LOSSLESS_KIND, direction, job, width))
    return found


def specs(d: int) -> list[str]:
    """All operators with their defaults, some with a coder or another rounding."""
    return list(dict.fromkeys([*registry.all_example_specs(d), *MORE]))


def _jobs(coder: Coder) -> tuple[tuple[str, str], tuple[str, str]]:
    return (SPEED_ENCODE, coding.encode_name(coder)), (SPEED_DECODE, coding.decode_name(coder))


def _lossless(data: FrameBytes, sizes: dict[str, int]) -> list[TimedJob]:
    """Candidates of those that are installed; what they make of the vector goes to `sizes`."""
    found: list[TimedJob] = []
    for coder in LOSSLESS:
        job = coding.started(coder, data)
        if job is not None:
            sizes[coder.name] = message_size(job.encode())
            found += coding.coder_candidates(coder, job, data)
    return found
