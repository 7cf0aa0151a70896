"""Work that starts every kernel of the device backend, in every variant that a target compiles."""

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import triton
from triton.compiler import ASTSource

from fewbits import registry
from fewbits.backend.buffers import CPU
from fewbits.errors import DecodeError, DisagreementError
from fewbits.reference.formats import BY_NAME, Format
from fewbits.rng import Rng
from fewbits.verify import cases, checksums, damage, tables
from fewbits.verify.places import DevicePlaces
from fewbits.verify.vectors import vector
from fewbits_lab.devices.driver import EMULATED, TARGETS, Started, emulating
from fewbits_lab.devices.machine_code import measured
from fewbits_lab.devices.pieces import FORMAT_NAMES, MESSAGES

KERNEL_FORMATS = tuple(BY_NAME[name] for name in FORMAT_NAMES)
WHOLE_BLOCK = 4096  # values of a block
_Shapes = tuple[tuple[tuple[int, ...], int], ...]
_SHAPES: _Shapes = (
    ((WHOLE_BLOCK,), 0),
    ((WHOLE_BLOCK, WHOLE_BLOCK - 1), 0),
    ((WHOLE_BLOCK, WHOLE_BLOCK - 1), 1),
)
# Arguments by which a kernel leaves out what a block without rare values and tails does not need.
_HOT = {"TAILS": False, "RARE": False}


class Variant(NamedTuple):
    """A kernel as it is compiled for a target."""

    name: str
    target: str
    started: Started

    @property
    def key(self) -> str:
        return str(self.started.compiled.hash)


def variants(
    target: str,
    specs: tuple[str, ...] = (*cases.VERIFIED_SPECS, MESSAGES),
    formats: tuple[Format, ...] = KERNEL_FORMATS,
    *, quick: bool = False,
) -> list[Variant]:  # fmt: skip
    """Every kernel that the device backend starts, compiled for a target and not run.

    `quick` leaves out tails and what is not aligned.
    """
    with emulating(target, runs=False) as emulation:
        places = DevicePlaces(EMULATED, emulation.lend)
        for spec in specs:
            for format in formats if spec != MESSAGES else ():
                if cases.supported(spec, format) is None:
                    _start(places, spec, format, _SHAPES[:1] if quick else _SHAPES)
        if MESSAGES in specs:
            _tried(lambda: checksums.compared(places))
            if not quick:
                _tried(lambda: damage.injected(places))
    found = {
        str(own.compiled.hash): Variant(labelled(own), target, own) for own in emulation.started
    }
    return list(found.values())


def _start(places: DevicePlaces, spec: str, format: Format, shapes: _Shapes) -> None:
    for counts, shift in shapes:
        _start_rows(places, tables.VerifyRows(registry.operator(spec), format, counts, shift))


def _start_rows(places: DevicePlaces, rows: tables.VerifyRows) -> None:
    rng, format = Rng.from_seed(1), rows.format
    vectors = [
        vector("normal", rows.kernel(count, format), format, count, rng) for count in rows.counts
    ]
    keys = [rng.key] * len(vectors)
    payload = tables.encode(rows, DevicePlaces(CPU), vectors, keys)
    totals = np.zeros(rows.values_size(4), np.uint8)
    _tried(lambda: tables.encode(rows, places, vectors, keys))
    _tried(lambda: tables.decode(rows, places, payload))
    _tried(lambda: tables.accumulate(rows, places, payload, totals))
    for terms in (2, 3):
        _tried(lambda terms=terms: tables.relay(rows, places, [payload] * terms, rng))


def _tried(job: Any) -> None:
    """Nothing is run, so what is read back may be refused; a kernel must be there, and compile."""
    with suppress(DecodeError, DisagreementError):
        job()


def labelled(own: Started) -> str:
    """A kernel's name and the constants that tell its variants apart."""
    words = [own.name]
    for name, value in sorted(own.constants.items()):
        if name != "BLOCK" and value is not None:
            words.append(name.lower() if value is True else f"{name.lower()}={value}")
    return " ".join(word for word in words if not word.endswith("=False"))


def hot(own: Started, target: str) -> Any:
    """The same kernel without the code of rare values and tails, so that instructions count."""
    source = own.source
    names = source.fn.arg_names
    constants = source.constants | {
        (names.index(name),): value for name, value in _HOT.items() if name in names
    }
    lean = ASTSource(source.fn, source.signature, constants, source.attrs)
    options = {"num_warps": own.compiled.metadata.num_warps, "enable_fp_fusion": False}
    return triton.compile(lean, target=TARGETS[target], options=options)


def described(own: Variant) -> dict[str, Any]:
    """Figures of a kernel's machine code, and those of its hot path."""
    started = own.started
    row = {"kernel": own.name, "target": own.target, **measured(started.compiled)._asdict()}
    if is_hot(started):
        threads = started.compiled.metadata.num_warps * TARGETS[own.target].warp_size
        lean = measured(hot(started, own.target))._asdict()
        row["hot"] = lean | {"values_per_thread": values_of(started) / threads}
    return row


def values_of(own: Started) -> int:
    """The values that a program takes, or the bytes of a checksum in one turn of its loop."""
    constants = own.constants
    if "LANES" in constants:
        return 4 * int(constants["LANES"])
    return int(constants.get("BLOCK", 1))


def is_hot(own: Started) -> bool:
    """Whether whole aligned blocks run this variant."""
    constants = own.constants
    whole = not constants.get("TAILS", False) or "LANES" in constants
    return bool(constants.get("ALIGNED", True)) and whole and values_of(own) > 1
