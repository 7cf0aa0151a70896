"""Compiles every device kernel, reads its machine code, runs its PTX, and changes it.

    python -m fewbits_lab.studies.device.run PART [--target sm_80 ...] [--spec natural ...]

Parts: compiled and emulated, for each target apart; mutants, for the kernels of each spec apart;
interpreted. Each writes its own part of `result.json` and leaves the others. No device is needed,
and nothing here says how fast one would be.
"""

import argparse
import fcntl
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("TRITON_INTERPRET", "0")

from fewbits.reference.formats import BY_NAME, Format
from fewbits.verify import cases, checksums, damage
from fewbits.verify.places import DevicePlaces
from fewbits_lab.devices import surviving, workload
from fewbits_lab.devices.budget import over_budget
from fewbits_lab.devices.driver import EMULATED, TARGETS, emulating
from fewbits_lab.devices.lint import faults
from fewbits_lab.store import write

DEVICE = Path(__file__).with_name("result.json")
PTX_TARGETS = tuple(name for name in TARGETS if name.startswith("sm_"))
PARTS = ("compiled", "emulated", "mutants", "interpreted")
_FORMATS = tuple(own.name for own in workload.KERNEL_FORMATS)
DeviceFound = dict[str, Any]


def compiled(target: str, specs: tuple[str, ...], formats: tuple[Format, ...]) -> DeviceFound:
    """Registers, spills and instructions of every kernel for a target, and the lint."""
    rows = []
    for own in workload.variants(target, specs, formats):
        asm = own.started.compiled.asm
        row = workload.described(own) | {"faults": faults(asm.get("ptx") or asm["amdgcn"])}
        rows.append(row | {"over_budget": over_budget(row)})
    return {"rows": rows}


def emulated(
    target: str, specs: tuple[str, ...] = cases.VERIFIED_SPECS, *, thorough: bool = False
) -> DeviceFound:
    """All cases through compiled PTX; also checksums and damaged messages."""
    launches: Counter[str] = Counter()
    differences: list[str] = []
    number = instructions = 0
    for case in cases.every_case(thorough=thorough):
        if is_emulated(case.spec) and case.spec in specs:
            with emulating(target) as emulation:
                _, found = cases.compared(case, DevicePlaces(EMULATED, emulation.lend))
            number += 1
            instructions += emulation.instructions
            launches.update(own.name for own in emulation.started)
            differences += [] if found is None else [str(found)]
    for job in (checksums.compared, damage.injected):
        with emulating(target) as emulation:
            told = job(DevicePlaces(EMULATED, emulation.lend))
        launches.update(own.name for own in emulation.started)
        differences += told["differences"]
    return {
        "cases": number, "launches": dict(sorted(launches.items())),
        "block_instructions": instructions, "differences": differences,
    }  # fmt: skip


def is_emulated(spec: str) -> bool:
    """Selection counts in a way in which threads part; the machine runs the other kernels."""
    return "|" not in spec


def mutants(spec: str, count: int) -> None:
    """One changed instruction at a time, of the kernels for sm_80 that run a spec."""
    for name, recordings in surviving.recorded(spec).items():
        own = surviving.judged(name, recordings, count)
        keep("mutants", f"{spec}: {name}", own._asdict())
        print(
            f"{name}: {own.seen} of {own.made} seen, {len(own.equivalent)} equivalent", flush=True
        )


def interpreted(*, thorough: bool) -> DeviceFound:
    """`fewbits verify` under the interpreter."""
    words = [sys.executable, "-m", "fewbits.cli", "verify", "--device", "cpu", "--json"]
    environment = {name: own for name, own in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        words + ["--thorough"] * thorough, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    found = json.loads(done.stdout)
    found["damage"].pop("flips", None)
    return {name: found[name] for name in ("held", "vectors", "checksums", "damage", "ranks")}


def keep(part: str, key: str, found: DeviceFound) -> None:
    """Put a finished piece into the result, which other processes may write too."""
    with (Path(tempfile.gettempdir()) / "fewbits-device.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = json.loads(DEVICE.read_text(encoding="utf-8")) if DEVICE.exists() else {}
        kept.setdefault(part, {})[key] = found
        kept["versions"] = {own: version(own) for own in ("triton", "torch", "numpy")}
        write(DEVICE, json.dumps(kept, indent=1, sort_keys=True) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description="the device kernels without a device")
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--target", action="append", choices=TARGETS, help="default: all")
    parser.add_argument("--spec", action="append", help="default: all")
    parser.add_argument("--format", action="append", choices=_FORMATS, help="default: all")
    parser.add_argument("--thorough", action="store_true", help="all vectors at all lengths")
    parser.add_argument("--mutants", type=int, default=24, help="of each kernel")
    chosen = parser.parse_args()
    if chosen.part == "interpreted":
        keep(chosen.part, "verify", interpreted(thorough=chosen.thorough))
    elif chosen.part == "mutants":
        for spec in chosen.spec or surviving.MUTATED_SPECS:
            mutants(spec, chosen.mutants)
    else:
        specs = tuple(chosen.spec or cases.VERIFIED_SPECS)
        for target in chosen.target or (TARGETS if chosen.part == "compiled" else PTX_TARGETS):
            name = target if specs == cases.VERIFIED_SPECS else f"{target} {' '.join(specs)}"
            if chosen.part == "compiled":
                formats = tuple(BY_NAME[own] for own in chosen.format or _FORMATS)
                keep(chosen.part, name, compiled(target, specs, formats))
            else:
                keep(chosen.part, name, emulated(target, specs, thorough=chosen.thorough))
    return 0


if __name__ == "__main__":
    sys.exit(main())
