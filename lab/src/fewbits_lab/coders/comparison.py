"""Entropy coders on the exponents that `natural` sends, and `natural` with and without one.

The symbols are the 8-bit exponent codes of one rounding of a vector. Sizes are set against the
empirical entropy of single symbols, of the whole message and of its blocks of 65,536: a coder that
adapts from block to block may be below the first, one that knows nothing but frequencies cannot be
below the second. Speeds are the best processor times of interleaved rounds, one thread.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from fewbits import registry
from fewbits.backend import parallel
from fewbits.bench.jobs import MEMCPY
from fewbits.bench.machine import Machine, this_machine
from fewbits.bench.timing import Plan, Samples, TimedJob, measured
from fewbits.bench.workload import SEED, Float32s, FrameBytes, equal_bits, expect
from fewbits.codec import compress, decompress, largest_frame
from fewbits.core.vector import Vector
from fewbits.errors import SpecError
from fewbits.reference.formats import FLOAT32
from fewbits.rng import Rng
from fewbits_lab.coders.candidates import CODER_BOUND, CODERS, Coder, CoderJob, message_size

CODER_MANY = Plan(rounds=200, seconds=8)
CODER_QUICK = Plan(rounds=5, seconds=1)
CODER_SMALL = 10_000  # values of the vector that shows what tables and headers cost
CODER_ZEROS = 95, 99  # percent of the values of sparse vectors
COMPARED_BLOCK = 65_536
CODER_PACKED, CODER_CODED = "natural", "natural:coder=rans"
COMPRESS, DECOMPRESS = "compress", "decompress"
MEASURED, NOT_INSTALLED = "measured", "not installed"


@dataclass(frozen=True, slots=True)
class VectorSource:
    """A vector by name, read or made when its turn comes."""

    name: str
    load: Callable[[], Float32s]


@dataclass(frozen=True, slots=True)
class Input:
    """One vector's exponents; entropies are in bits for each of them."""

    name: str
    elements: int
    distinct: int
    zeros: float
    entropy: float
    block_entropy: float


@dataclass(frozen=True, slots=True)
class CoderRow:
    """One coder on one input; figures are None where it is not installed.

    `over_entropy` and `over_block_entropy` are sizes as multiples of the entropies (None at 0).
    """

    input: str
    coder: str
    status: str
    bytes: int | None = None
    bits_per_symbol: float | None = None
    over_entropy: float | None = None
    over_block_entropy: float | None = None
    encode_gigasymbols: float | None = None
    decode_gigasymbols: float | None = None
    rounds: int | None = None
    round_trip: bool | None = None


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """A whole call, checksum included, against a copy of the vector with as many threads.

    `ratio` is bytes of the vector over bytes of the frame; `gigabytes_per_second` are bytes of the
    vector in wall time.
    """

    input: str
    spec: str
    job: str
    threads: int
    frame_bytes: int
    ratio: float
    memcpy_ratio_median: float
    memcpy_ratio_best: float
    gigabytes_per_second: float


@dataclass(frozen=True, slots=True)
class CodersReport:
    """All that one run measured."""

    machine: Machine
    inputs: list[Input]
    coders: list[CoderRow]
    operators: list[OperatorRow]


def gaussian(elements: int) -> VectorSource:
    """A standard normal vector."""

    def make() -> Float32s:
        return np.random.default_rng(0).standard_normal(elements, np.float32)

    return VectorSource(f"gaussian {elements:,}", make)


def sparse(elements: int, percent: int) -> VectorSource:
    """A standard normal vector in which so many percent of the values are 0, here and there."""

    def make() -> Float32s:
        rng = np.random.default_rng(0)
        x = rng.standard_normal(elements, np.float32)
        x[rng.random(elements) < percent / 100] = 0
        return x

    return VectorSource(f"sparse {elements:,} {percent}%", make)


def recorded(folder: Path) -> list[VectorSource]:
    """The vectors that `fewbits_lab.recordings` left in `folder`, in order of name."""
    files = sorted(folder.glob("*.npy"))
    if not files:
        raise SpecError(
            f"no gradients in {folder}: python -m fewbits_lab.recordings --out {folder}"
        )
    return [VectorSource(file.stem, partial(_read, file)) for file in files]


def run(
    sources: Sequence[VectorSource],
    plan: Plan,
    threads: Sequence[int] = (1,),
    progress: Callable[[float], None] = lambda _: None,
) -> CodersReport:
    """Measure; `FewbitsError` if a coder gives back other symbols than it got."""
    report = CodersReport(this_machine(), [], [], [])
    parts = _parts(2 * len(sources), progress)
    for source in sources:
        x = source.load()
        symbols = exponents(x)
        own = described(source.name, symbols)
        report.inputs.append(own)
        report.coders.extend(_coder_rows(own, symbols, plan, next(parts)))
        report.operators.extend(_operator_rows(source.name, x, threads, plan, next(parts)))
    return report


def exponents(x: Float32s) -> FrameBytes:
    """The exponents that `compress(x, "natural")` sends with the benchmark's seed."""
    natural = registry.operator("natural")
    codes, signs = (np.zeros(part.size, np.uint8) for part in natural.layout(x.size, FLOAT32))
    rng = Rng.from_seed(SEED).fork(0)
    natural.encode(Vector(x.view(FLOAT32.bits), FLOAT32), rng, (codes, signs))
    return codes  # a code is a byte here


def described(name: str, symbols: FrameBytes) -> Input:
    """What there is to know of the symbols before anything codes them."""
    counts = np.bincount(symbols, minlength=CODER_BOUND)
    blocks = [symbols[at : at + COMPARED_BLOCK] for at in range(0, symbols.size, COMPARED_BLOCK)]
    return Input(
        name=name,
        elements=symbols.size,
        distinct=int(np.count_nonzero(counts)),
        zeros=float(counts[0] / symbols.size),
        entropy=entropy(symbols),
        block_entropy=sum(entropy(block) * block.size for block in blocks) / symbols.size,
    )


def entropy(symbols: FrameBytes) -> float:
    """Bits for a symbol when each costs minus the logarithm of its share."""
    counts = np.bincount(symbols)
    shares = counts[counts > 0] / symbols.size
    return max(0.0, -float(shares @ np.log2(shares)))


def _read(file: Path) -> Float32s:
    try:
        x = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise SpecError(f"{file} is not a NumPy array: {error}") from error
    if x.dtype != np.float32 or x.ndim != 1 or not x.size or not np.isfinite(x).all():
        raise SpecError(f"{file}: expected a vector of finite float32 values")
    return np.ascontiguousarray(x)


def _parts(count: int, progress: Callable[[float], None]) -> Iterator[Callable[[float], None]]:
    """The progress of each of `count` equal parts of the work."""

    def of(place: int, part: float) -> None:
        progress((place + part) / count)

    return (partial(of, place) for place in range(count))


# ---- coders ----


def _coder_rows(
    own: Input, symbols: FrameBytes, plan: Plan, progress: Callable[[float], None]
) -> list[CoderRow]:
    jobs = [started(coder, symbols) for coder in CODERS]
    candidates = [
        candidate
        for coder, job in zip(CODERS, jobs, strict=True)
        if job is not None
        for candidate in coder_candidates(coder, job, symbols)
    ]
    samples = iter(measured(candidates, plan, progress))
    return [
        CoderRow(own.name, coder.name, NOT_INSTALLED)
        if job is None
        else _coder_row(own, coder, job, symbols, (next(samples), next(samples)))
        for coder, job in zip(CODERS, jobs, strict=True)
    ]


def started(coder: Coder, symbols: FrameBytes) -> CoderJob | None:
    """The coder at work on these symbols, or None where it is not installed."""
    found = coder.load()
    return None if found is None else coder.start(found, symbols)


def encode_name(coder: Coder) -> str:
    """The name of its first candidate."""
    return f"{coder.name} encode"


def decode_name(coder: Coder) -> str:
    """The name of its second candidate."""
    return f"{coder.name} decode"


def coder_candidates(coder: Coder, job: CoderJob, symbols: FrameBytes) -> tuple[TimedJob, TimedJob]:
    """A coder's two directions, each with a check that the symbols come back."""
    message = job.encode()

    def check() -> None:
        expect(np.array_equal(job.decode(job.encode()), symbols), coder.name)

    return (
        TimedJob(encode_name(coder), 1, job.encode, check),
        TimedJob(decode_name(coder), 1, lambda: job.decode(message), check),
    )


def _coder_row(
    own: Input, coder: Coder, job: CoderJob, symbols: FrameBytes, samples: tuple[Samples, Samples]
) -> CoderRow:
    encode, decode = (own.elements / times.cpu.min() / 1e9 for times in samples)
    message = job.encode()
    size = message_size(message)
    bits = 8 * size / own.elements
    return CoderRow(
        input=own.name,
        coder=coder.name,
        status=MEASURED,
        bytes=size,
        bits_per_symbol=bits,
        over_entropy=bits / own.entropy if own.entropy else None,
        over_block_entropy=bits / own.block_entropy if own.block_entropy else None,
        encode_gigasymbols=float(encode),
        decode_gigasymbols=float(decode),
        rounds=samples[0].cpu.size,
        round_trip=np.array_equal(job.decode(message), symbols),
    )


# ---- whole operators ----


def _operator_rows(
    name: str, x: Float32s, threads: Sequence[int], plan: Plan, progress: Callable[[float], None]
) -> list[OperatorRow]:
    memory = _Memory(x)
    jobs = [
        (spec, job, count)
        for count in threads
        for spec in memory.frames
        for job in (COMPRESS, DECOMPRESS)
    ]
    copies = [memory.copying(count) for count in threads]
    candidates = [memory.candidate(spec, job, count) for spec, job, count in jobs]
    samples = measured([*copies, *candidates], plan, progress)
    memcpy = dict(zip(threads, samples, strict=False))
    return [
        OperatorRow(
            input=name,
            spec=spec,
            job=job,
            threads=count,
            frame_bytes=memory.frames[spec].size,
            ratio=x.nbytes / memory.frames[spec].size,
            memcpy_ratio_median=float(np.median(times.speed_against(memcpy[count]))),
            memcpy_ratio_best=float(memcpy[count].compared.min() / times.compared.min()),
            gigabytes_per_second=x.nbytes / float(np.median(times.wall)) / 1e9,
        )
        for (spec, job, count), times in zip(jobs, samples[len(copies) :], strict=True)
    ]


class _Memory:
    """A vector, its frames, and warm memory for both directions."""

    def __init__(self, x: Float32s) -> None:
        self.x = x
        self.copy, self.out = np.zeros_like(x), np.zeros_like(x)
        self.room = np.zeros(
            max(largest_frame(x, spec) for spec in (CODER_PACKED, CODER_CODED)), np.uint8
        )
        self.frames = {
            spec: np.frombuffer(compress(x, spec, seed=SEED, threads=1), np.uint8)
            for spec in (CODER_PACKED, CODER_CODED)
        }
        # Coding loses nothing: whatever the coder, the vector is the packed one's.
        self.expected = decompress(self.frames[CODER_PACKED], max_elements=x.size)

    def copying(self, threads: int) -> TimedJob:
        """The yardstick."""

        def copy(part: slice) -> None:
            np.copyto(self.copy[part], self.x[part])

        def check() -> None:
            expect(equal_bits(self.copy, self.x), MEMCPY)

        return TimedJob(MEMCPY, threads, lambda: parallel.run(copy, self.x.size, threads), check)

    def candidate(self, spec: str, job: str, threads: int) -> TimedJob:
        """`compress` or `decompress` with `out=`."""
        frame, operator, name = self.frames[spec], registry.operator(spec), f"{job} {spec}"

        def compressed() -> bytes | memoryview:
            return compress(self.x, operator, seed=SEED, out=self.room, threads=threads)

        def decompressed() -> Float32s:
            values: Float32s = decompress(
                frame, max_elements=self.x.size, out=self.out, threads=threads
            )
            return values

        def check() -> None:
            if job == COMPRESS:
                expect(np.array_equal(np.frombuffer(compressed(), np.uint8), frame), name)
            else:
                self.out[:] = np.nan
                expect(equal_bits(decompressed(), self.expected), name)

        return TimedJob(name, threads, compressed if job == COMPRESS else decompressed, check)
