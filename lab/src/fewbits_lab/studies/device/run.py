"""Compiles every device kernel, reads its machine code, runs its PTX, and changes it.

    python -m fewbits_lab.studies.device.run PART [--target sm_80 ...] [--spec natural ...]

Parts: compiled and emulated, a piece for each target and spec; mutants, for the kernels of each
spec apart; interpreted; tested, a piece for each suite of tests. Each piece is written to
`result.json` when it has ended, and others are left. The spec `messages` stands for checksums and
headers. No device is needed, and nothing here says how fast one would be.
"""

import argparse
import fcntl
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("TRITON_INTERPRET", "0")

from fewbits.reference.formats import BY_NAME, Format
from fewbits.verify import cases, checksums, damage
from fewbits.verify.places import DevicePlaces
from fewbits_lab.devices import suites, surviving, workload
from fewbits_lab.devices.budget import over_budget
from fewbits_lab.devices.driver import EMULATED, emulating
from fewbits_lab.devices.lint import faults
from fewbits_lab.devices.pieces import FORMAT_NAMES, MESSAGES, TARGET_NAMES, known_pieces
from fewbits_lab.store import write

DEVICE = Path(__file__).with_name("result.json")
PARTS = ("compiled", "emulated", "mutants", "interpreted", "tested")
DeviceFound = dict[str, Any]


def compiled(target: str, spec: str, formats: tuple[Format, ...]) -> DeviceFound:
    """Registers, spills and instructions of a spec's kernels for a target, and the lint."""
    rows = []
    for own in workload.variants(target, (spec,), formats):
        asm = own.started.compiled.asm
        row = workload.described(own) | {"faults": faults(asm.get("ptx") or asm["amdgcn"])}
        rows.append(row | {"over_budget": over_budget(row)})
    return {"formats": [own.name for own in formats], "rows": rows}


def emulated(target: str, spec: str, *, thorough: bool = False) -> DeviceFound:
    """The cases of a spec through compiled PTX, or checksums and damaged messages."""
    launches: Counter[str] = Counter()
    differences: list[str] = []
    number = instructions = 0
    for job in _jobs(spec, thorough=thorough):
        with emulating(target) as emulation:
            differences += job(DevicePlaces(EMULATED, emulation.lend))
        number += spec != MESSAGES
        instructions += emulation.instructions
        launches.update(own.name for own in emulation.started)
    return {
        "cases": number, "launches": dict(sorted(launches.items())),
        "block_instructions": instructions, "differences": differences, "thorough": thorough,
    }  # fmt: skip


def _jobs(spec: str, *, thorough: bool) -> Iterator[Callable[[DevicePlaces], list[str]]]:
    """What is compared of a spec; each job gives its differences."""
    if spec == MESSAGES:
        yield lambda places: checksums.compared(places)["differences"]
        yield lambda places: damage.injected(places)["differences"]
    for case in cases.every_case(thorough=thorough):
        if case.spec == spec:
            yield partial(_differences, case)


def _differences(case: cases.Case, places: DevicePlaces) -> list[str]:
    _, found = cases.compared(case, places)
    return [] if found is None else [str(found)]


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
    parser.add_argument("--target", action="append", choices=TARGET_NAMES, help="default: all")
    parser.add_argument("--spec", action="append", help="default: all")
    parser.add_argument("--format", action="append", choices=FORMAT_NAMES, help="default: all")
    parser.add_argument("--thorough", action="store_true", help="all vectors at all lengths")
    parser.add_argument("--mutants", type=int, default=24, help="of each kernel")
    parser.add_argument("--suite", action="append", choices=suites.SUITES, help="default: all")
    chosen = parser.parse_args()
    if chosen.part == "interpreted":
        keep(chosen.part, "verify", interpreted(thorough=chosen.thorough))
    elif chosen.part == "tested":
        for suite in chosen.suite or suites.SUITES:
            keep(chosen.part, suite, suites.tested(suite))
    elif chosen.part == "mutants":
        for spec in chosen.spec or surviving.MUTATED_SPECS:
            mutants(spec, chosen.mutants)
    else:
        formats = tuple(BY_NAME[own] for own in chosen.format or FORMAT_NAMES)
        for name, (target, spec) in known_pieces(chosen.part).items():
            if target in (chosen.target or TARGET_NAMES) and spec in (chosen.spec or [spec]):
                if chosen.part == "compiled":
                    keep(chosen.part, name, compiled(target, spec, formats))
                else:
                    keep(chosen.part, name, emulated(target, spec, thorough=chosen.thorough))
    return 0


if __name__ == "__main__":
    sys.exit(main())
