"""Ranks as processes: starts them, waits for them, and says how each of them ended.

Importing torch takes seconds, so a template process imports it once and forks a fresh process for
every rank of every run. A template has one OpenMP setting for good, because the library reads it
when it is loaded. Only processes started here are ever killed, each by its number.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WORKERS = Path(__file__).with_name("workers.py")
MARK = "mark"  # a file with the time at which the faulty rank failed
DEADLINE = 60.0  # seconds after which a run that should have ended is killed


@dataclass(frozen=True)
class Outcome:
    """How one rank ended.

    `status` is the exit status, or minus the signal that ended it, or None if it had to be killed.
    `error` and `message` are what left the scenario, `elapsed` the seconds from the moment that the
    faulty rank marked to the moment that this one raised, `waited` those of them in which word of
    the fault lay with a thread that had no processor, `lived` those to its end without those in
    which it could have run and others had the processors.
    """

    rank: int
    status: int | None
    error: str | None = None
    message: str = ""
    elapsed: float | None = None
    waited: float = 0.0
    lived: float | None = None
    result: dict[str, Any] = field(default_factory=dict)
    stderr: str = ""

    @property
    def took(self) -> float | None:
        """The seconds from fault to error, but for those in which processors were busy."""
        return None if self.elapsed is None else self.elapsed - self.waited


class Template:
    """A process that has imported torch and forks ranks."""

    def __init__(self, threads: str | None) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("OMP_")}
        environment |= {"OPENBLAS_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        environment["TRITON_INTERPRET"] = "1"  # for kernels of devices; torch imports Triton too
        environment["OMP_WAIT_POLICY"] = "passive"  # there are more threads than processors
        if threads is not None:
            environment["OMP_NUM_THREADS"] = threads
        self._process = subprocess.Popen(
            [sys.executable, str(WORKERS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._pids: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.ended: dict[int, tuple[int, float]] = {}

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            if "status" in event:
                self.ended[event["pid"]] = event["status"], time.monotonic()
            else:
                self.ended.pop(event["pid"], None)  # the number of an earlier process, used again
                self._pids.put(event["pid"])

    def fork(self, order: dict[str, Any]) -> int:
        """Start a rank; its process number."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        return self._pids.get(timeout=DEADLINE)

    def close(self) -> None:
        """End the template, which ends what it has forked."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=DEADLINE)
        self._reader.join()
        self._process.stdout.close()


class Launcher:
    """Runs scenarios of `workers.py` over groups of new processes."""

    def __init__(self) -> None:
        self._templates: dict[str | None, Template] = {}

    def close(self) -> None:
        """End all templates."""
        for template in self._templates.values():
            template.close()

    def run(
        self,
        scenario: str,
        world: int = 2,
        *,
        threads: str | Sequence[str | None] | None = "1",
        deadline: float = DEADLINE,
        hurry: bool = True,
        **arguments: Any,
    ) -> list[Outcome]:
        """The outcomes of all ranks; `threads` is OMP_NUM_THREADS of all, or of each rank.

        With `hurry` ranks leave without the interpreter's own end.
        """
        settings = [threads] * world if threads is None or isinstance(threads, str) else threads
        with tempfile.TemporaryDirectory(prefix="fewbits-") as folder:
            pids = []
            for rank, setting in enumerate(settings):
                if setting not in self._templates:
                    self._templates[setting] = Template(setting)
                template = self._templates[setting]
                order = {"rank": rank, "world": world, "folder": folder, "hurry": hurry}
                order |= {"scenario": scenario, "arguments": arguments, "deadline": deadline}
                pids.append((template, template.fork(order)))
            queued = Queued(Path(folder) / MARK)
            alive = _wait(pids, time.monotonic() + deadline, queued)
            return [
                _outcome(
                    Path(folder), rank, None if pid in alive else template.ended[pid],
                    queued.seconds(pid),
                )
                for rank, (template, pid) in enumerate(pids)
            ]  # fmt: skip

    def results(self, scenario: str, world: int = 2, **options: Any) -> list[dict[str, Any]]:
        """What the ranks of a run that must succeed return."""
        outcomes = self.run(scenario, world, **options)
        for outcome in outcomes:
            assert outcome.status == 0, outcome
        return [outcome.result for outcome in outcomes]


class Queued:
    """How long processes could have run and had no processor, from a mark on."""

    def __init__(self, mark: Path) -> None:
        self._mark, self._found = mark, dict[int, tuple[float, float]]()

    def look(self, pids: Iterable[int]) -> None:
        if not self._mark.exists():
            return
        for pid in pids:
            with contextlib.suppress(
                OSError, IndexError
            ):  # it has ended, or the kernel does not tell
                now = 1e-9 * int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])
                self._found[pid] = self._found.get(pid, (now, now))[0], now

    def seconds(self, pid: int) -> float:
        first, last = self._found.get(pid, (0.0, 0.0))
        return last - first


def _wait(pids: Sequence[tuple[Template, int]], deadline: float, queued: Queued) -> set[int]:
    """Wait for all but stopped ranks, then kill what is left; the numbers of the killed."""
    while time.monotonic() < deadline:
        left = {pid for template, pid in pids if pid not in template.ended}
        queued.look(left)
        if all(_is_stopped(pid) for pid in left):
            break
        time.sleep(0.005)
    left = {pid for template, pid in pids if pid not in template.ended}
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    while any(pid in left and pid not in template.ended for template, pid in pids):
        time.sleep(0.005)
    return left


def _is_stopped(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] == "T"


def _outcome(folder: Path, rank: int, ended: tuple[int, float] | None, queued: float) -> Outcome:
    mark = folder / MARK
    began = json.loads(mark.read_text())["at"] if mark.exists() else None
    said = folder / f"said-{rank}"
    report = json.loads(said.read_text()) if said.exists() else {}
    at = report.pop("at", None)
    return Outcome(
        rank,
        None if ended is None else ended[0],
        elapsed=None if began is None or at is None else at - began,
        lived=None if began is None or ended is None else ended[1] - began - queued,
        stderr=(folder / f"stderr-{rank}").read_text(),
        **report,
    )
