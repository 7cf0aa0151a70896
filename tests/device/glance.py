"""A glance at compiled kernels, in a process that compiles: prints one line of JSON.

Triton interprets or compiles as it was told when it was first imported, so tests that interpret
start this program for the rest.
"""

import json
import os
import sys

os.environ["TRITON_INTERPRET"] = "0"

from fewbits.backend import device
from fewbits.reference.formats import FLOAT32
from fewbits.verify import cases, checksums
from fewbits.verify.places import DevicePlaces
from fewbits_lab.devices import surviving, workload
from fewbits_lab.devices.budget import applies, over_budget
from fewbits_lab.devices.driver import EMULATED, Recording, emulating
from fewbits_lab.devices.lint import faults
from fewbits_lab.devices.pieces import MESSAGES
from fewbits_lab.studies.device.show import HOT

MUTANTS = 12
HOT_KERNELS = {kernel for kernel, *_ in HOT.values()}
SPECS = ("natural", "natural-dithering", MESSAGES)
CASES = (
    cases.Case("natural", "float32", (4096, 4093, 9), "brink"),
    cases.Case("natural", "float32", (4096, 4093, 9), "edges"),
)


def emulated() -> dict:
    """Launches of PTX against the CPU, and mutants of what encodes."""
    launches, differences = 0, []
    recorded: list[Recording] = []
    for case in CASES:
        with emulating("sm_80", records=True) as emulation:
            _, found = cases.compared(case, DevicePlaces(EMULATED, emulation.lend))
        launches += len(emulation.started)
        differences += [] if found is None else [str(found)]
        recorded += emulation.recordings
    with emulating("sm_80") as emulation:
        told = checksums.compared(DevicePlaces(EMULATED, emulation.lend))
    launches += len(emulation.started)
    first = [own for own in recorded if own.started.name == "natural_encode"]
    judged = surviving.judged("natural_encode", first, MUTANTS)
    return {
        "launches": launches, "differences": differences + told["differences"],
        "mutants": judged.made, "seen": judged.seen,
    }  # fmt: skip


def compiled() -> dict:
    """Hot paths of natural compression, and of dithering."""
    found = {}
    for target in ("sm_80",):
        for own in workload.variants(target, specs=SPECS, formats=(FLOAT32,), quick=True):
            asm = own.started.compiled.asm
            # Hot paths are compiled again: here only those for which the prototypes have figures.
            is_known = own.name.split()[0] in HOT_KERNELS and applies(own.name)
            row = workload.described(own) if is_known else {}
            found[f"{target} {own.name}"] = {
                "faults": faults(asm.get("ptx") or asm["amdgcn"]), "over": over_budget(row),
            }  # fmt: skip
    return found


def main() -> None:
    assert device.refusal is not None
    sys.stdout.write(json.dumps({"emulated": emulated(), "compiled": compiled()}) + "\n")


if __name__ == "__main__":
    main()
