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
from fewbits_lab.devices.mutation import Mutant, mutants
from fewbits_lab.devices.ptx import PtxError
from fewbits_lab.devices.workload import labelled

# The sharpest first: what is seen once is not run again.
_KINDS = ("brink", "edges", "bits", "huge", "subnormal", "normal")
# A thread has 16 values of a block: 256 apart, or 4 or 8 neighbours. Tails end at each of them.
_TAILS = tuple(272 * part + 1 + part % 7 for part in range(15))
_COUNTS = (4096, 4096, *_TAILS)
CHECKSUMS = "checksums"
MUTATED_SPECS = ("natural", "natural-dithering:block=96", CHECKSUMS)
_MOST = 12  # launches of a kernel that a mutant meets
_LIMIT = 8  # times as many instructions as the unbroken kernel takes


class Judged(NamedTuple):
    """The mutants of one kernel."""

    kernel: str
    made: int
    seen: int
    survivors: list[dict[str, str]]


def recorded(target: str, spec: str) -> dict[str, list[Recording]]:
    """Launches of whole blocks and tails of float32, by the compiled kernel's name."""
    found: dict[str, list[Recording]] = {}
    if spec == CHECKSUMS:
        with emulating(target, records=True) as emulation:
            checksums.compared(DevicePlaces(EMULATED, emulation.lend))
        _sorted_in(emulation, found)
        return found
    for kind in _KINDS:
        with emulating(target, records=True) as emulation:
            case = cases.Case(spec, "float32", _COUNTS, kind)
            _, difference = cases.compared(case, DevicePlaces(EMULATED, emulation.lend))
        if difference is not None:
            raise PtxError(str(difference))
        _sorted_in(emulation, found)
        if kind == _KINDS[0]:
            _sorted_in(_refusing(target, spec), found)
    return found


def _refusing(target: str, spec: str) -> Emulation:
    """Launches that meet what no writer makes, once at each of a thread's values.

    Of natural compression these are zeros with a sign and signs behind the end; then NaN.
    """
    counts = (4096,) * 128 + (4093,) * 128 + _TAILS
    rows = tables.VerifyRows(registry.operator(spec), FLOAT32, counts)
    vectors = [np.full(count, 0x3F800000, np.uint32) for count in counts]
    keys = [Rng.from_seed(number).key for number in range(len(counts))]
    payload = tables.encode(rows, DevicePlaces(CPU), vectors, keys)
    offsets, sizes = (own.astype(np.int64) for own in rows.sections(FLOAT32))
    signed, missing = payload.written.copy(), payload.written.copy()
    for row in range(len(counts)):
        place = row // 8 % 16 * 256 + 5 * row % 31 * 8 + row % 8
        if row >= 256:
            signed[offsets[row, 1] + sizes[row, 1] - 1] |= 0x80
        elif sizes[row, 1] * 8 > place:
            signed[offsets[row, 0] + min(place, sizes[row, 0] - 1)] = 0
            signed[offsets[row, 1] + place // 8] |= 1 << place % 8
            missing[offsets[row, 0] + min(place, sizes[row, 0] - 1)] = 0xFF
    with emulating(target, records=True) as emulation:
        places = DevicePlaces(EMULATED, emulation.lend)
        for other in (signed, missing):
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
    made, survivors = 0, []
    for own in mutants(first, count):
        made += 1
        if not is_seen(own, same):
            survivors.append({"line": own.line, "becomes": own.becomes})
    return Judged(kernel, made, made - len(survivors), survivors)


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
