"""The jobs of the codec benchmark, each with a check of its result."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from fewbits.backend import cpu, parallel
from fewbits.backend.buffers import Buffer
from fewbits.bench.timing import TimedJob
from fewbits.bench.workload import SEED, AnyFloats, Workload, equal_bits, expect
from fewbits.codec import compress, decompress, largest_frame
from fewbits.core.operator import Operator
from fewbits.core.vector import Vector
from fewbits.reference import natural as natural_reference
from fewbits.reference.checksum import crc32c
from fewbits.reference.formats import FLOAT32
from fewbits.wire import frame as wire

MEMCPY, CHECKSUM, HALF_CAST = "memcpy", "crc32c", "torch float16 cast"
ENCODE, DECODE = "natural kernel encode", "natural kernel decode"
ACCUMULATE = "natural kernel accumulate"
_NATURAL = "natural"
_SAMPLE = 4096  # values compared with the NumPy reference, which is slow


def compress_name(spec: str, target: str = "out") -> str:
    """The name of `compress` with `out=`, or to a new frame."""
    return f"compress({target}) {spec}"


def decompress_name(spec: str, target: str = "out") -> str:
    """The name of `decompress` with `out=`, or to a new array."""
    return f"decompress({target}) {spec}"


def candidates(
    work: Workload, natural: Operator, operators: Sequence[Operator], threads: int, *, torch: Any
) -> list[TimedJob]:
    """All jobs with one thread, and with more threads those whose scaling is reported."""
    facade = [compress_into(work, natural, threads), decompress_into(work, natural, threads)]
    if threads != 1:
        return [memcpy(work, threads), encode(work, natural, threads), *facade]
    others = [operator for operator in operators if operator != natural]
    return [
        memcpy(work, 1),
        *([] if torch is None else [half_cast(work, torch)]),
        checksum(work),
        encode(work, natural, 1),
        decode(work, natural),
        accumulate(work, natural),
        *facade,
        compress_new(work, natural),
        decompress_new(work, natural),
        *(job(work, own, 1) for own in others for job in (compress_into, decompress_into)),
    ]


@contextmanager
def one_torch_thread(torch: Any) -> Iterator[None]:
    """Let torch compute in the calling thread for a while, then as before."""
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def memcpy(work: Workload, threads: int) -> TimedJob:
    """The yardstick: a copy of the vector to warm memory."""

    def copy(part: slice) -> None:
        np.copyto(work.copy[part], work.x[part])

    def run() -> None:
        parallel.run(copy, work.elements, threads)

    def check() -> None:
        expect(equal_bits(work.copy, work.x), MEMCPY)

    return TimedJob(MEMCPY, threads, run, check)


def half_cast(work: Workload, torch: Any) -> TimedJob:
    """The cast of torch's float16 gradient hook, without its allocation."""
    half = np.zeros(work.elements, np.float16)
    source, target = torch.from_numpy(work.x), torch.from_numpy(half)

    def check() -> None:
        expect(np.array_equal(half, work.x.astype(np.float16)), HALF_CAST)

    return TimedJob(HALF_CAST, 1, lambda: target.copy_(source), check)


def checksum(work: Workload) -> TimedJob:
    """The frame's checksum, over the bytes of the vector."""
    data = Buffer.of(work.x)
    head = data[:_SAMPLE]

    def check() -> None:
        expect(cpu.crc32c(head) == crc32c(head.tobytes()), CHECKSUM)

    return TimedJob(CHECKSUM, 1, lambda: cpu.crc32c(data), check)


def encode(work: Workload, natural: Operator, threads: int) -> TimedJob:
    """The natural kernel alone, vector to codes."""
    x = Vector(work.bits, FLOAT32)

    def check() -> None:
        head = natural_reference.rounded(work.bits[:_SAMPLE], FLOAT32, work.rng).exponents
        expect(np.array_equal(work.planes[0][:_SAMPLE], head), ENCODE)  # a code is a byte here
        sections = wire.parse(work.frames[_NATURAL], work.elements).sections
        for own, section in zip(work.planes, sections, strict=True):
            expect(np.array_equal(own, section), ENCODE)

    def run() -> None:
        natural.encode(x, work.rng, work.planes, threads=threads)

    return TimedJob(ENCODE, threads, run, check)


def decode(work: Workload, natural: Operator) -> TimedJob:
    """The natural kernel alone, codes to vector."""
    out = Vector(work.out.view(FLOAT32.bits), FLOAT32)

    def run() -> None:
        natural.decode(work.planes, out)

    return TimedJob(DECODE, 1, run, lambda: _check_out(work, run, _NATURAL, DECODE))


def accumulate(work: Workload, natural: Operator) -> TimedJob:
    """The natural kernel alone, codes added to a vector."""

    def run() -> None:
        natural.accumulate(work.planes, FLOAT32, work.totals)

    def check() -> None:
        work.totals[:] = 0
        run()
        expect(np.array_equal(work.totals, work.decoded[_NATURAL]), ACCUMULATE)

    return TimedJob(ACCUMULATE, 1, run, check)


def compress_into(work: Workload, operator: Operator, threads: int) -> TimedJob:
    """`compress` to a warm buffer, header and checksum included."""
    expected, name = work.frames[operator.spec], compress_name(operator.spec)
    buffer = np.zeros(largest_frame(work.x, operator), np.uint8)
    frame = buffer[: expected.size]

    def run() -> None:
        compress(work.x, operator, seed=SEED, out=buffer, threads=threads)

    return TimedJob(name, threads, run, lambda: expect(np.array_equal(frame, expected), name))


def compress_new(work: Workload, operator: Operator) -> TimedJob:
    """`compress` to a new frame, whose memory comes from the system and goes back to it."""
    expected, name = work.frames[operator.spec], compress_name(operator.spec, "new")

    def run() -> bytes | memoryview:
        return compress(work.x, operator, seed=SEED, threads=1)

    def check() -> None:
        expect(np.array_equal(np.frombuffer(run(), np.uint8), expected), name)

    return TimedJob(name, 1, run, check)


def decompress_into(work: Workload, operator: Operator, threads: int) -> TimedJob:
    """`decompress` to a warm array, checksum included."""
    frame, name = work.frames[operator.spec], decompress_name(operator.spec)

    def run() -> None:
        decompress(frame, max_elements=work.elements, out=work.out, threads=threads)

    return TimedJob(name, threads, run, lambda: _check_out(work, run, operator.spec, name))


def decompress_new(work: Workload, operator: Operator) -> TimedJob:
    """`decompress` to a new array, whose memory comes from the system and goes back to it."""
    frame, name = work.frames[operator.spec], decompress_name(operator.spec, "new")

    def run() -> AnyFloats:
        values: AnyFloats = decompress(frame, max_elements=work.elements, threads=1)
        return values

    def check() -> None:
        expect(equal_bits(run(), work.decoded[operator.spec]), name)

    return TimedJob(name, 1, run, check)


def _check_out(work: Workload, run: Callable[[], None], spec: str, name: str) -> None:
    """Clear `out`, which several jobs share, run once more and check the result."""
    work.out[:] = np.nan
    run()
    expect(equal_bits(work.out, work.decoded[spec]), name)
