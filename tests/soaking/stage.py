"""What a stage of the soak is, and how it tells what it has done."""

import fcntl
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from fewbits_lab.studies.reliability import run as ledger
from mutants import ROOT, say

CORE = ("native/**/*.cpp", "native/**/*.h", "CMakeLists.txt")
_FOLDERS = ("backend", "coding", "core", "families", "operators", "reference", "wire")
CODEC = (
    *(f"src/fewbits/{name}/**/*.py" for name in _FOLDERS),
    *(f"src/fewbits/{name}.py" for name in ("codec", "registry", "rng")),
)
LIBRARY = ("src/fewbits/**/*.py",)


LOCK = ROOT / "build" / "soak.lock"


class StageError(Exception):
    """A stage that did not hold; the text says where to look."""


@dataclass(frozen=True)
class Stage:
    """A test that may take hours.

    `run` does `work.size` of its `unit` and hands every finished part to `work.add`. Of the `full`
    size the promises are said to be tested; `covers` are the files whose change makes figures old.
    `least` is the smallest size that says anything.
    """

    name: str
    promises: str
    what: str
    unit: str
    full: int
    covers: tuple[str, ...]
    run: Callable[["Work"], None]
    least: int = 1


@dataclass
class Work:
    """How much of a stage is to be done now, and what has been done of it in all runs."""

    stage: Stage
    size: int
    row: dict[str, Any]
    deadline: float
    done: int = 0
    began: float = field(default_factory=time.perf_counter)
    _told: float = field(default_factory=time.perf_counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def start(self) -> int:
        """Done by all runs so far: where this one goes on, and a seed that no run had before."""
        return int(self.row["done"])

    @property
    def figures(self) -> dict[str, Any]:
        """What the stage keeps beside its counts; `add` writes it."""
        return self.row["figures"]

    @property
    def left(self) -> int:
        return max(0, self.size - self.done)

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.deadline - time.perf_counter())

    @property
    def over(self) -> bool:
        """Whether this run has done enough, or had its time."""
        return self.left == 0 or self.seconds_left == 0

    def ready(self) -> None:
        """What was built until now is not part of the time that the stage takes."""
        self.began = time.perf_counter()

    def add(self, count: int, summary: str = "", told: str = "") -> None:
        """Keep a finished part at once, and say so from time to time."""
        with self._lock:
            now = time.perf_counter()
            self.done += count
            self.row["done"] += count
            self.row["seconds"] = round(self.row["seconds"] + now - self.began, 1)
            self.began = now
            self.row["summary"] = summary or self.row["summary"]
            self._write()
            if now - self._told > 5 or told or self.left == 0:
                self._told = now
                rate = f"{self.row['done'] / max(self.row['seconds'], 1e-9):,.0f}/s"
                detail = f": {told}" if told else ""
                say(f"   {self.done:,} of {self.size:,} {self.stage.unit}, {rate}{detail}")

    def fail(self, text: str) -> None:
        """Note a failure; it stays until the code changes or the stage starts afresh."""
        with self._lock:
            self.row["failures"] += 1
            self.row["summary"] = text.splitlines()[0][:200] if text else ""
            self._write()

    def _write(self) -> None:
        self.row |= {"commit": commit(), "date": datetime.now(UTC).strftime("%Y-%m-%d")}
        LOCK.parent.mkdir(exist_ok=True)
        with LOCK.open("w") as lock:  # another stage may run in another process
            fcntl.flock(lock, fcntl.LOCK_EX)
            ledger.keep(self.stage.name, self.row)


def commit() -> str:
    """The commit that is checked out; a plus if code has changed since."""
    words = ["git", "-C", str(ROOT)]
    head = subprocess.run(
        [*words, "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    places = ("src", "native", "CMakeLists.txt")
    changed = subprocess.run(
        [*words, "status", "--porcelain", "--untracked-files=no", "--", *places],
        capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    return (head or "unknown") + ("+" if changed.strip() else "")


def begin(stage: Stage, size: int, seconds: float, *, fresh: bool = False) -> Work:
    """Work that goes on where the last run on the same code has ended."""
    now = ledger.digest(stage.covers)
    row = ledger.read().get(stage.name)
    if fresh or row is None or row["digest"] != now or row["unit"] != stage.unit:
        row = {"done": 0, "failures": 0, "seconds": 0.0, "summary": "", "figures": {}}
    row |= {
        "promises": stage.promises, "what": stage.what, "unit": stage.unit, "full": stage.full,
        "covers": list(stage.covers), "digest": now,
    }  # fmt: skip
    return Work(stage, size, row, time.perf_counter() + seconds)
