"""Programs for aarch64, cross-compiled and run under emulation.

Debian has what that needs: g++-aarch64-linux-gnu and qemu-user.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
PROGRAMS = ("kernels.cpp", "kernels_values.cpp", "kernels_codes.cpp")
# What the kernels need of the rest; the linker drops the functions that they do not.
BESIDE = ("native/dispatch.cpp", "native/dithering.cpp")
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Werror", "-Wno-invalid-offsetof")
FLAGS = ("-std=c++20", "-O1", "-ffp-contract=off", "-ffunction-sections")
NEON = "-march=armv8-a+crc"


def missing() -> str:
    """The commands that are not there, in words; nothing if all are."""
    found = [name for name in (COMPILER, EMULATOR) if shutil.which(name) is None]
    return f"no {' and no '.join(found)}: install g++-aarch64-linux-gnu and qemu-user" * bool(found)


def clean_environment(**more: str) -> dict[str, str]:
    """Without what the suite sets for its own process."""
    unwanted = {"FEWBITS_SIMD", "LD_PRELOAD"}
    return {name: value for name, value in os.environ.items() if name not in unwanted} | more


def call(*words: str | Path) -> str:
    """A program's output; what it says is in the error if it fails."""
    done = subprocess.run(
        [*map(str, words)], env=clean_environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def compiled(source: Path, folder: Path) -> Path:
    own = (NEON,) if source.parent.name == "neon" else ()
    out = folder / f"{source.parent.name}-{source.stem}.o"
    call(COMPILER, *FLAGS, *own, *WARNINGS, f"-I{ROOT / 'native'}", "-c", source, "-o", out)
    return out


def kernel_sources() -> list[Path]:
    """Both tables of aarch64, and the program that compares them."""
    tables = [
        path for name in ("portable", "neon") for path in (ROOT / "native" / name).glob("*.cpp")
    ]
    null = [ROOT / "native" / name / "table.cpp" for name in ("avx2", "avx512bw", "avx512")]
    beside = [ROOT / name for name in BESIDE]
    return [*tables, *null, *beside, *(ROOT / "tests" / "native" / name for name in PROGRAMS)]


def build_kernels(folder: Path) -> Path:
    """The program that compares all kernels of the NEON table with the portable ones."""
    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(lambda source: compiled(source, folder), kernel_sources()))
    program = folder / "kernels"
    link(objects, program)
    return program


def link(objects: Iterable[Path], program: Path) -> None:
    call(COMPILER, "-static", "-Wl,--gc-sections", *objects, "-o", program)


def emulated(*words: str | Path) -> str:
    return call(EMULATOR, *words)
