"""The memory that a call takes above its input and output, measured in a process of its own.

python tests/peaks.py VALUES NAME...: prints, for each of these rows, the peaks of compressing and
of decompressing by one thread and by two, in bytes.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import fewbits
from cases import ROW_IDS, ROWS, array
from fewbits.core.composition import Composed
from fewbits.reference.formats import FLOAT32, Format

VALUES = 1 << 24  # for which the promise is stated
A_THREAD = 1 << 20  # bytes of scratch
NOISE = 1 << 18  # bytes: the kernel counts pages for each processor, Python makes small objects
THREADS = (1, 2)
# Blocks of memory are mapped one by one and given back at once, so that a peak shows them all.
MAPPED = {"MALLOC_MMAP_THRESHOLD_": "16384", "MALLOC_TRIM_THRESHOLD_": "16384"}


MORE = (
    "natural-dithering:block=8,coder=rans", "standard-dithering:scale=natural,block=8",
    "sparse-dithering:block=8", "sign:block=8", "spherical:block=2", "spherical:block=7,alpha=0.4",
    "hadamard|sign", "hadamard:block=65536|natural:coder=rans", "hadamard|spherical:block=2",
    "hadamard|hadamard:signs=private|natural-dithering", "rand-k:fraction=0.01|spherical",
    "rand-k:fraction=0.5|hadamard|rand-k|identity", "rand-k:fraction=1|sign",
    "top-k:fraction=0.01|natural",
)  # fmt: skip
"""Settings and compositions that `cases.py` does not have, on float32."""

MEASURED = {
    name: (case.operator, format) for name, (case, format) in zip(ROW_IDS, ROWS, strict=True)
}
MEASURED |= {spec: (fewbits.operator(spec), FLOAT32) for spec in MORE}


EXEMPT = {
    "coder-paper": "integers of thousands of bits, a block after the other, in Python",
}
"""Rows that take more, each with its reason. A row that does not must leave this list."""


def is_exempt(name: str) -> bool:
    return any(re.search(pattern, name) for pattern in EXEMPT)


def allowed(name: str, values: int, threads: int) -> int:
    """Scratch for each thread, and the largest vector that a stage hands on."""
    operator, format = MEASURED[name]
    return threads * A_THREAD + NOISE + handed_on(operator, values, format)


def handed_on(operator: fewbits.Operator, values: int, format: Format) -> int:
    """Bytes of the longest vector that a stage makes."""
    largest, count = 0, values
    for stage in operator.before if isinstance(operator, Composed) else ():
        count = stage.reduced(count)
        largest = max(largest, count * format.itemsize)
    return largest


def peaks(values: int, names: Sequence[str], seconds: float = 3600) -> dict[str, list[int]]:
    """For each row, compressing and decompressing by one thread, then by two."""
    words = [sys.executable, str(Path(__file__)), str(values), *names]
    done = subprocess.run(
        words, env=os.environ | MAPPED, capture_output=True, text=True, timeout=seconds, check=False
    )
    if done.returncode:
        raise AssertionError(done.stderr)
    found = json.loads(done.stdout.splitlines()[-1])
    return dict(zip(names, found, strict=True))


def excess(name: str, values: int, found: list[int]) -> float:
    """The largest part of what is allowed that a row takes."""
    limits = [allowed(name, values, threads) for threads in THREADS for _ in range(2)]
    return max(peak / limit for peak, limit in zip(found, limits, strict=True))


# ---- in the child ----


def _status(name: str) -> int:
    text = Path("/proc/self/status").read_text()
    return int(text.split(f"{name}:")[1].split()[0]) << 10


def _peak(call: Callable[[], object]) -> int:
    Path("/proc/self/clear_refs").write_text("5")  # the peak is what is in use now
    before = _status("VmRSS")
    call()
    return _status("VmHWM") - before


def measured(name: str, values: int) -> list[int]:
    """Peaks of one row. A first call of few values loads what is loaded once."""
    operator, format = MEASURED[name]
    few = array(np.ones(64), format)
    fewbits.decompress(fewbits.compress(few, operator, seed=1))
    x = _normal(values, format)
    out, room = np.ones_like(x), np.full(fewbits.largest_frame(x, operator), 1, np.uint8)
    return [peak for threads in THREADS for peak in _both(x, operator, room, out, threads)]


def _both(
    x: np.ndarray, operator: fewbits.Operator, room: np.ndarray, out: np.ndarray, threads: int
) -> tuple[int, int]:
    made: list[memoryview] = []
    first = _peak(
        lambda: made.append(fewbits.compress(x, operator, seed=1, out=room, threads=threads))
    )
    second = _peak(lambda: fewbits.decompress(made[0], out=out, threads=threads))
    assert np.isfinite(np.asarray(out[:100], np.float64)).all()
    assert not np.array_equal(out, np.ones_like(out))
    return first, second


def _normal(values: int, format: Format) -> np.ndarray:
    """Normal values, made in parts."""
    source, part = np.random.default_rng(1), 1 << 16
    x = array(np.zeros(1), format).repeat(values)
    for start in range(0, values, part):
        own = x[start : start + part]
        own[:] = array(source.standard_normal(own.size), format)
    return x


def main() -> None:
    values, *names = sys.argv[1:]
    np.ones(1 << 20) @ np.ones(1 << 20)  # whatever NumPy makes at its first product
    sys.stdout.write(json.dumps([measured(name, int(values)) for name in names]) + "\n")


if __name__ == "__main__":
    main()
