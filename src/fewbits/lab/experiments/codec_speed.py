"""Speed of every codec against memcpy, beside torch's float16 cast, zstd and blosc2."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import fewbits
from fewbits import registry
from fewbits.bench import codec, coding
from fewbits.bench.coders import LOSSLESS, Coder, message_size
from fewbits.bench.jobs import HALF_CAST, MEMCPY, compress_name, decompress_name
from fewbits.bench.timing import Candidate, Plan
from fewbits.bench.workload import Bytes, Workload
from fewbits.lab import figures
from fewbits.lab.experiment import Experiment, Settings, Tick

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
YARDSTICK, OPERATOR, LOSSLESS_KIND = "yardstick", "operator", "lossless"
ENCODE, DECODE = "encode", "decode"


@dataclass(frozen=True, slots=True)
class Row:
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


def rows(settings: Settings, tick: Tick) -> list[Row]:
    """Yardsticks, then operators, then what loses nothing."""
    elements = _QUICK_ELEMENTS if settings.quick else ELEMENTS
    operators = [fewbits.operator(spec) for spec in specs(elements)]
    sizes: dict[str, int] = {}

    def others(work: Workload) -> list[Candidate]:
        return _lossless(work.x.view(np.uint8), sizes)

    plan = _QUICK_PLAN if settings.quick else PLAN
    report = codec.run(elements, operators, (1,), plan, tick, others)
    bits = {size.spec: size.bits_per_value for size in report.sizes}
    timed = {row.name: row for row in report.rows}

    def row(name: str, kind: str, direction: str, job: str, width: float) -> Row:
        own = timed[job]
        return Row(
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
        )

    found = [row(MEMCPY, YARDSTICK, ENCODE, MEMCPY, 32.0)]
    if HALF_CAST in timed:
        found.append(row(HALF_CAST, YARDSTICK, ENCODE, HALF_CAST, 16.0))
    for spec, width in bits.items():
        found.append(row(spec, OPERATOR, ENCODE, compress_name(spec), width))
        found.append(row(spec, OPERATOR, DECODE, decompress_name(spec), width))
    for coder in LOSSLESS:
        if coder.name in sizes:
            width = 8 * sizes[coder.name] / elements
            for direction, job in _jobs(coder):
                found.append(row(coder.name, LOSSLESS_KIND, direction, job, width))
    return found


def specs(d: int) -> list[str]:
    """All operators with their defaults, some with a coder or another rounding."""
    return list(dict.fromkeys([*registry.all_offered(d), *MORE]))


def _jobs(coder: Coder) -> tuple[tuple[str, str], tuple[str, str]]:
    return (ENCODE, coding.encode_name(coder)), (DECODE, coding.decode_name(coder))


def _lossless(data: Bytes, sizes: dict[str, int]) -> list[Candidate]:
    """Candidates of those that are installed; what they make of the vector goes to `sizes`."""
    found: list[Candidate] = []
    for coder in LOSSLESS:
        job = coding.started(coder, data)
        if job is not None:
            sizes[coder.name] = message_size(job.encode())
            found += coding.coder_candidates(coder, job, data)
    return found


def findings(table: Sequence[Row]) -> list[str]:
    """What is faster than zstd, and what is slow."""
    speeds = {(row.codec, row.direction): row.memcpy_ratio for row in table}
    ours = [row for row in table if row.kind == OPERATOR]
    packed, coded = (
        f"{spec} {speeds[spec, ENCODE]:.2f} and {speeds[spec, DECODE]:.2f}"
        for spec in ("natural", "natural:coder=rans")
    )
    found = [f"Times the speed of memcpy, encoding and decoding: {packed}; {coded}."]
    lossless = [row for row in table if row.kind == LOSSLESS_KIND]
    if lossless:
        best = max((row for row in lossless if row.direction == ENCODE),
                   key=lambda row: row.memcpy_ratio)  # fmt: skip
        least = min(lossless, key=lambda row: row.bits_per_value)
        slower = [row.codec for row in ours
                  if row.direction == ENCODE and row.memcpy_ratio < best.memcpy_ratio]  # fmt: skip
        found.append(
            f"Without loss nothing gets below {least.bits_per_value:.1f} of 32 bits ({least.codec})"
            f"; the fastest, {best.codec}, encodes at {best.memcpy_ratio:.2f} times memcpy. Slower "
            f"than that: {', '.join(slower) or 'none of ours'}."
        )
    slow = sorted((row for row in ours if row.memcpy_ratio < 0.1), key=lambda row: row.memcpy_ratio)
    names = ", ".join(f"{row.codec} ({row.direction}, {row.memcpy_ratio:.3g})" for row in slow)
    found.append(f"Below a tenth of memcpy: {names or 'none'}.")
    return found


def draw(table: Sequence[Row]) -> "Figure":
    """Ratios as bars, encoding and decoding side by side."""
    order = list(dict.fromkeys(row.codec for row in table))
    drawn, plots = figures.panels(
        "Speed against memcpy of the same vector, one thread", 2, width=11.5, height=8
    )
    for plot, direction in zip(plots, (ENCODE, DECODE), strict=True):
        _bars(plot, [row for row in table if row.direction == direction], order)
        plot.set_title(f"{direction} (log scale)", fontsize=10)
    plots[1].set_yticklabels([])
    for kind, colour in _COLOURS.items():
        plots[0].plot([], [], "s", color=colour, label=_NAMES[kind])
    drawn.legend(*plots[0].get_legend_handles_labels(), loc="outside lower left", ncols=3)
    return drawn


_COLOURS = {YARDSTICK: figures.GREY, OPERATOR: figures.BLUE, LOSSLESS_KIND: figures.ORANGE}
_NAMES = {
    YARDSTICK: "yardsticks",
    OPERATOR: "whole compress and decompress calls",
    LOSSLESS_KIND: "lossless, on the bytes of the vector",
}


def _bars(plot: "Axes", own: Sequence[Row], order: Sequence[str]) -> None:
    for row in own:
        at = order.index(row.codec)
        plot.barh(at, row.memcpy_ratio, color=_COLOURS[row.kind], height=0.65, alpha=0.8)
        plot.annotate(f"{row.memcpy_ratio:.2g}", (row.memcpy_ratio, at), (4, 0), va="center",
                      textcoords="offset points", fontsize=8)  # fmt: skip
    figures.names(plot, order)
    plot.axvline(1, color="black", lw=1)
    plot.set_xscale("log")
    plot.set_xlim(1e-4, 6)
    plot.set_xlabel("times the speed of memcpy")


EXPERIMENT = Experiment(
    name="codec-speed",
    title="Speed of every codec against memcpy",
    about="A Gaussian float32 vector, one thread, warm memory; operators as whole calls to a given "
    "buffer, header and checksum included. All candidates run in turn, round after round, and "
    "ratios are taken within a round, of processor times, so that what else runs on the machine "
    "hardly matters. Seconds are of this machine. Results differ from run to run: this is the one "
    "experiment, with peers, that equal settings do not repeat.",
    row=Row,
    compute=rows,
    draw=draw,
    findings=findings,
)
