"""Which mutants of compiled code the emulator sees, with the vectors that kernels are tested on."""

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from fewbits import registry
from fewbits.backend.buffers import CPU
from fewbits.errors import DecodeError
from fewbits.reference.formats import FLOAT32
from fewbits.rng import Rng
from fewbits.verify import cases, checksums, tables
from fewbits.verify.places import DevicePlaces
from fewbits_lab.devices.driver import EMULATED, Emulation, Recording, emulating
from fewbits_lab.devices.equivalence import proof
from fewbits_lab.devices.mutation import Mutant, mutants
from fewbits_lab.devices.ptx import PtxError
from fewbits_lab.devices.spoiling import LEVELLED, levelled, lonely_place, powers
from fewbits_lab.devices.workload import labelled

# The sharpest first: what is seen once is not run again.
_KINDS = ("brink", "edges", "bits", "huge", "subnormal", "normal")
# A thread has 16 values of a block: 256 apart, or 4 or 8 neighbours. Tails end at each of them.
_TAILS = tuple(272 * part + 1 + part % 7 for part in range(15))
_COUNTS = (4096, 4096, 8193, *_TAILS)
# Vectors of which one value is unlike the others, at each of a thread's values.
_LONELY_COUNTS = (4096,) * 32 + (4093,) * 32 + _TAILS
_ORDINARY = 0x3F800000
# A zero with a sign, a NaN, the largest float among ones; a NaN among zeros.
_LONELY = (
    (0x80000000, _ORDINARY), (0x7FC00001, _ORDINARY), (0x7F7FFFFF, _ORDINARY), (0x7FC00001, 0),
)  # fmt: skip
CHECKSUMS = "checksums"
MUTATED_SPECS = ("natural", LEVELLED, CHECKSUMS)
_TARGET = "sm_80"
_MOST = 40  # launches of a kernel that a mutant meets
_LIMIT = 8  # times as many instructions as the unbroken kernel takes


class Judged(NamedTuple):
    """The mutants of one kernel; equivalent ones are proved to be no other program."""

    kernel: str
    made: int
    seen: int
    equivalent: list[dict[str, str]]
    survivors: list[dict[str, str]]


def recorded(spec: str) -> dict[str, list[Recording]]:
    """Launches of whole blocks and tails of float32, by the compiled kernel's name."""
    found: dict[str, list[Recording]] = {}
    if spec == CHECKSUMS:
        with emulating(_TARGET, records=True) as emulation:
            checksums.compared(DevicePlaces(EMULATED, emulation.lend))
        _sorted_in(emulation, found)
        return found
    for kind in _KINDS:
        with emulating(_TARGET, records=True) as emulation:
            case = cases.Case(spec, "float32", _COUNTS, kind)
            _, difference = cases.compared(case, DevicePlaces(EMULATED, emulation.lend))
        if difference is not None:
            raise PtxError(str(difference))
        _sorted_in(emulation, found)
        if kind == _KINDS[0]:
            for more in (_encoding(spec), _refusing(spec)):
                _sorted_in(more, found)
    return found


def _lonely_rows(spec: str) -> tuple[tables.VerifyRows, list[bytes]]:
    rows = tables.VerifyRows(registry.operator(spec), FLOAT32, _LONELY_COUNTS)
    return rows, [Rng.from_seed(number).key for number in range(len(_LONELY_COUNTS))]


def _encoding(spec: str) -> Emulation:
    """Launches that encode vectors with one unlike value."""
    rows, keys = _lonely_rows(spec)
    with emulating(_TARGET, records=True) as emulation:
        places = DevicePlaces(EMULATED, emulation.lend)
        for lonely, others in _LONELY:
            vectors = [np.full(count, others, np.uint32) for count in _LONELY_COUNTS]
            for row, own in enumerate(vectors):
                own[min(lonely_place(row), own.size - 1)] = lonely
            got, expected = (
                tables.encode(rows, own, vectors, keys) for own in (places, DevicePlaces(CPU))
            )
            if not np.array_equal(got.written, expected.written) or got.tally != expected.tally:
                raise PtxError(f"{spec}: other bytes than the CPU's with one {lonely:#x}")
    return emulation


def _refusing(spec: str) -> Emulation:
    """Launches that meet what no writer makes, and NaN, once at each of a thread's values."""
    rows, keys = _lonely_rows(spec)
    vectors = [np.full(count, _ORDINARY, np.uint32) for count in _LONELY_COUNTS]
    payload = tables.encode(rows, DevicePlaces(CPU), vectors, keys)
    spoil = levelled if spec == LEVELLED else powers
    with emulating(_TARGET, records=True) as emulation:
        places = DevicePlaces(EMULATED, emulation.lend)
        for other in spoil(rows, payload.written):
            bad = payload._replace(written=other)
            with suppress(DecodeError):
                tables.decode(rows, places, bad)
            with suppress(DecodeError):
                tables.accumulate(rows, places, bad, _zeros(rows))
            with suppress(DecodeError):
                tables.relay(rows, places, [payload, bad, payload], Rng.from_seed(5))
    return emulation


def _zeros(rows: tables.VerifyRows) -> tables.WrittenBytes:
    return np.zeros(rows.values_size(4), np.uint8)


def _sorted_in(emulation: Emulation, found: dict[str, list[Recording]]) -> None:
    for own in emulation.recordings:
        kept = found.setdefault(labelled(own.started), [])
        if len(kept) < _MOST:
            kept.append(own)


def judged(kernel: str, recordings: list[Recording], count: int) -> Judged:
    """Run `count` mutants of a kernel on its recorded launches."""
    first = recordings[0].started.ptx
    same = [own for own in recordings if own.started.ptx == first]
    made, equivalent, survivors = 0, [], []
    for own in mutants(first, count):
        made += 1
        if is_seen(own, same):
            continue
        told = {"line": own.line, "becomes": own.becomes}
        why = proof(first, own.text, _TARGET)
        if why is None:
            survivors.append(told)
        else:
            equivalent.append(told | {"proof": why})
    seen = made - len(equivalent) - len(survivors)
    return Judged(kernel, made, seen, equivalent, survivors)


def is_seen(own: Mutant, recordings: list[Recording]) -> bool:
    """Whether the mutant is refused, does not end, or leaves other bytes."""
    for recording in recordings:
        limit = _LIMIT * max(recording.longest, 100)
        try:
            if not recording.gives_the_same(own.text, limit):
                return True
        except (PtxError, KeyError, ValueError, IndexError, OverflowError):
            return True
    return False
