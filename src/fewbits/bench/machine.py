"""Names the machine and the software, for the heads of reports."""

import importlib
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from fewbits.backend import library
from fewbits.backend.parallel import available_threads


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything that a figure depends on besides the code measured."""

    cpu: str
    cores: int
    system: str
    simd: str
    crc32c: str
    fewbits: str
    python: str
    numpy: str
    torch: str | None

    def __str__(self) -> str:
        return (
            f"machine   {self.cpu}, {self.cores} cores, {self.system}\n"
            f"software  fewbits {self.fewbits} ({self.simd} kernels, {self.crc32c} crc32c), "
            f"Python {self.python}, NumPy {self.numpy}, torch {self.torch or 'not installed'}"
        )


def this_machine() -> Machine:
    torch = torch_or_none()
    return Machine(
        cpu=cpu_model(),
        cores=available_threads(),
        system=f"{platform.system()} {platform.machine()}",
        simd=library.simd(),
        crc32c="hardware" if library.crc32c_is_hardware() else "software",
        fewbits=version("fewbits"),
        python=platform.python_version(),
        numpy=np.__version__,
        torch=None if torch is None else str(torch.__version__),
    )


def torch_or_none() -> Any:
    """torch, or None if it is not installed or does not load."""
    try:
        return importlib.import_module("torch")
    except (ImportError, OSError):
        return None


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or "unknown")
