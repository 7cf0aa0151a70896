"""Comparisons of a device with the CPU: each is a few vectors through all four directions."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fewbits import registry
from fewbits.backend.buffers import CPU
from fewbits.errors import DecodeError
from fewbits.reference.formats import BFLOAT16, BY_NAME, FLOAT16, FLOAT32, Format
from fewbits.rng import Rng
from fewbits.verify import tables
from fewbits.verify.places import DevicePlaces
from fewbits.verify.tables import RunOutcome, VerifyRows
from fewbits.verify.vectors import VECTOR_KINDS, vector

VERIFIED_SPECS = (
    "identity", "float16", "bfloat16", "natural", "natural:rounding=nearest", "natural-dithering",
    "standard-dithering", "qsgd", "terngrad", "top-k:fraction=0.05|natural",
)  # fmt: skip
_FORMATS = (FLOAT32, BFLOAT16, FLOAT16)
# Nothing, one value, around a byte of signs, around a block of the kernels, several blocks.
CASE_LENGTHS = ((1, 7, 8, 9), (31, 4096, 4095), (4097, 333), (8192, 1000))
# The interpreter takes its time for every row, and its blocks are longer than all of these.
INTERPRETED_LENGTHS = ((1, 8), (31, 4095), (4097,), (1000,))
_RANKS = 3
# Kinds of vectors that a quick run takes at each of the lengths.
_QUICK = {
    FLOAT32: (("edges",), ("brink",), ("bits",), ()),
    BFLOAT16: ((), ("brink",), (), ()),
    FLOAT16: ((), (), ("bits",), ()),
}
_DAMAGED = 1


@dataclass(frozen=True, slots=True)
class Case:
    """Vectors of one kind through one operator."""

    spec: str
    format: str
    counts: tuple[int, ...]
    kind: str
    shift: int = 0

    def __str__(self) -> str:
        place = " unaligned" if self.shift else ""
        return f"{self.spec} {self.format} {self.kind} {'+'.join(map(str, self.counts))}{place}"


class BitDifference(NamedTuple):
    """The first place at which a device has other bits than the CPU."""

    kernel: str
    case: str
    what: str
    place: int
    cpu_bits: str
    device_bits: str

    def __str__(self) -> str:
        return (
            f"{self.kernel}: {self.what} {self.place} is {self.device_bits}, the CPU has"
            f" {self.cpu_bits} ({self.case})"
        )


def supported(spec: str, format: Format) -> str | None:
    """Why a device refuses an operator, or None."""
    from fewbits.backend import device

    return device.refusal(registry.operator(spec).kernel(4096, format), format)


def every_case(*, thorough: bool, on_device: bool = True) -> Iterator[Case]:
    """All cases of the operators that a device runs; few of them unless it is `thorough`."""
    lengths = CASE_LENGTHS if on_device or thorough else INTERPRETED_LENGTHS
    for spec in VERIFIED_SPECS:
        for format in _FORMATS:
            if supported(spec, format) is not None:
                continue
            for place, counts in enumerate(lengths):
                for number, kind in enumerate(VECTOR_KINDS):
                    if thorough or kind in _QUICK[format][place]:
                        yield Case(spec, format.name, counts, kind, shift=(number + place) % 2)


def compared(case: Case, device: DevicePlaces) -> tuple[int, BitDifference | None]:
    """How many runs were compared, and the first difference if there is one."""
    host, format = DevicePlaces(CPU), BY_NAME[case.format]
    rows = VerifyRows(registry.operator(case.spec), format, case.counts, case.shift)
    streams = [Rng.from_seed(number).fork(0) for number in range(len(case.counts))]
    count = 0
    payloads = []
    for rank in range(_RANKS):
        own = [stream.fork(rank) for stream in streams]
        vectors = [
            vector(case.kind, rows.kernel(size, format), format, size, rng)
            for size, rng in zip(case.counts, own, strict=True)
        ]
        keys = [rng.key for rng in own]
        payloads.append(tables.encode(rows, host, vectors, keys))
        if rank == 0:
            got = tables.encode(rows, device, vectors, keys)
            count += 1
            if found := different("encode", case, payloads[0], got):
                return count, found
    totals = _totals(rows)
    jobs: dict[str, Callable[[DevicePlaces], RunOutcome]] = {
        "decode": lambda places: tables.decode(rows, places, payloads[0]),
        "accumulate": lambda places: tables.accumulate(rows, places, payloads[0], totals),
        "relay": lambda places: tables.relay(rows, places, payloads, streams[0]),
    }
    for name, job in jobs.items():
        count += 1
        if found := different(name, case, job(host), job(device)):
            return count, found
    return _refused(rows, case, payloads[0], device, count)


def damaged(rows: VerifyRows, payload: RunOutcome) -> Iterator[RunOutcome]:
    """The payload with one other byte, at places that no writer may leave so, or may."""
    offsets, _ = rows.sections(rows.format)
    random = np.random.default_rng(payload.written.size)
    for _ in range(_DAMAGED):
        row, column = (int(random.integers(size)) for size in offsets.shape)
        size = int(payload.sizes[row, column])
        if size:
            other = payload.written.copy()
            place = int(offsets[row, column]) + int(random.integers(size))
            other[place] ^= np.uint8(1 << int(random.integers(8)))
            yield payload._replace(written=other)


def _refused(
    rows: VerifyRows, case: Case, payload: RunOutcome, device: DevicePlaces, count: int
) -> tuple[int, BitDifference | None]:
    """Whether the device refuses the same payloads, with the same words and the same row."""
    for other in damaged(rows, payload):
        count += 1
        expected, got = (_decoded(rows, places, other) for places in (DevicePlaces(CPU), device))
        if isinstance(expected, str) or isinstance(got, str):
            if expected != got:
                kernel = f"{case.spec} {case.format} decode"
                words = [own if isinstance(own, str) else "accepted" for own in (expected, got)]
                return count, BitDifference(kernel, str(case), "damaged payload", count, *words)
        elif found := different("decode", case, expected, got):
            return count, found
    return count, None


def _decoded(rows: VerifyRows, places: DevicePlaces, payload: RunOutcome) -> RunOutcome | str:
    try:
        return tables.decode(rows, places, payload)
    except DecodeError as error:
        return f"row {error.row}: {error}"


def _totals(rows: VerifyRows) -> tables.WrittenBytes:
    size = rows.values_size(4)
    random = np.random.default_rng(size)
    found = np.zeros(size, np.uint8)
    values = random.standard_normal(size // 4).astype(np.float32)
    values[::5], values[::7], values[::11] = np.nan, np.inf, 0
    found[: values.nbytes] = values.view(np.uint8)
    return found


def different(job: str, case: Case, expected: RunOutcome, got: RunOutcome) -> BitDifference | None:
    """The first difference of two outcomes; which NaN a sum gives is the processor's choice."""
    kernel = f"{case.spec} {case.format} {job}"
    if job == "accumulate" or (job == "relay" and case.spec == "identity"):
        start = case.shift if job == "relay" else 0
        expected, got = (_one_nan(own, start) for own in (expected, got))
    found = np.flatnonzero(expected.written != got.written)
    if found.size:
        index, what = _named(job, case, int(found[0]))
        wide = 4 if what == "value" else 1
        if what == "value" and job == "decode":
            wide = BY_NAME[case.format].itemsize
        start = int(found[0]) // wide * wide
        bits = [_bits(own.written, start, wide) for own in (expected, got)]
        return BitDifference(kernel, str(case), what, index, bits[0], bits[1])
    for what, a, b in (("size of row", expected.sizes.tolist(), got.sizes.tolist()),
                       ("tally of row", expected.tally, got.tally)):  # fmt: skip
        for row, (own, other) in enumerate(zip(a, b, strict=True)):
            if own != other:
                return BitDifference(kernel, str(case), what, row, str(own), str(other))
    return None


def _one_nan(totals: RunOutcome, start: int) -> RunOutcome:
    written = totals.written.copy()
    values = written[start : start + (written.size - start) // 4 * 4].view(np.float32)
    values[np.isnan(values)] = np.nan
    return totals._replace(written=written)


def _named(job: str, case: Case, byte: int) -> tuple[int, str]:
    if job in ("encode", "relay"):
        return byte, "payload byte"
    item = 4 if job == "accumulate" else BY_NAME[case.format].itemsize
    return byte // item, "value"


def _bits(data: tables.WrittenBytes, start: int, wide: int) -> str:
    own = data[start : start + wide]
    return f"0x{int.from_bytes(own.tobytes(), 'little'):0{2 * own.size}x}"
