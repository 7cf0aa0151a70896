"""Keeps the figures of `make soak`, a stage of which may take hours and many runs.

    python tests/soak.py [stage ...] [--fraction 0.1] [--seconds N]

writes `result.json`, after every finished part of a stage. What is done is summed up as long as the
files that the stage covers stay as they are: their digest is in the file. Once they have changed,
the docs say that the figure is older than the code, and the next run begins the sum again.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fewbits_lab.store import write

RELIABILITY = Path(__file__).with_name("result.json")
ROOT_OF_CHECKOUT = Path(__file__).resolve().parents[5]


def digest(covers: Iterable[str], root: Path = ROOT_OF_CHECKOUT) -> str:
    """Of the names and bytes of all files that the patterns match."""
    files = {path for pattern in covers for path in root.glob(pattern) if path.is_file()}
    hasher = hashlib.sha256()
    for path in sorted(files):
        data = path.read_bytes()
        hasher.update(f"{path.relative_to(root).as_posix()} {len(data)}\n".encode() + data)
    return hasher.hexdigest()[:16]


def read(path: Path = RELIABILITY) -> dict[str, Any]:
    """The rows of all stages that have run, by name."""
    rows: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["stages"]
    return rows


def keep(name: str, row: dict[str, Any], path: Path = RELIABILITY) -> None:
    """Put a stage's row in the place of its earlier one."""
    stages = read(path) | {name: row}
    text = json.dumps({"stages": dict(sorted(stages.items()))}, indent=2)
    write(path, text + "\n")


def old(stages: dict[str, Any], root: Path = ROOT_OF_CHECKOUT) -> list[str]:
    """The stages whose figures are older than the code that they cover."""
    covered = {name: tuple(row["covers"]) for name, row in stages.items()}
    now = {covers: digest(covers, root) for covers in set(covered.values())}
    return [name for name, row in stages.items() if now[covered[name]] != row["digest"]]
