"""Starts the local workers of one run, follows rank 0 and ends all of them if one fails."""

import json
import os
import queue
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from fewbits.errors import PeerError, SpecError
from fewbits.exits import BAD_INPUT
from fewbits.train.links import Meeting
from fewbits.train.shaping import end

_POLL = 0.05  # seconds between two looks at the ranks

LOOPBACK = Meeting()

Event = dict[str, Any]


def launch(
    command: Sequence[str],
    workers: int,
    on_event: Callable[[Event], None],
    meeting: Meeting = LOOPBACK,
) -> list[Event]:
    """Run `command` as every rank and return rank 0's `result` events, at least one.

    `on_event` gets these too, as soon as they are there.

    Raises `SpecError` if a rank refuses its input, and `PeerError` with the failing rank's last
    line if it fails otherwise. No process outlives the call.
    """
    with tempfile.TemporaryDirectory(prefix="fewbits-train-") as folder:
        ranks: list[Rank] = []
        try:
            port = _free_port()
            # One by one, so that those that have started are ended if the next cannot start.
            for rank in range(workers):
                own = meeting.environment() | _environment(rank, workers, port)
                ranks.append(Rank([*meeting.inside(rank), *command], rank, own, Path(folder)))
            return _follow(ranks, on_event)
        finally:
            for started in ranks:
                end(started.process)


class Rank:
    """One worker process, with its errors in a file."""

    def __init__(
        self, command: Sequence[str], rank: int, environment: dict[str, str], folder: Path
    ) -> None:
        self.rank, self._errors = rank, folder / f"rank-{rank}.stderr"
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command,
                env=os.environ | environment,
                # A worker ends when this pipe closes: none is orphaned if the launcher is killed.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
                stderr=errors,
                # Ctrl-C in the terminal is for the launcher alone, which then ends its workers.
                start_new_session=True,
            )

    def failed(self) -> bool:
        return self.process.poll() not in (None, 0)

    def was_killed(self) -> bool:
        code = self.process.poll()
        return code is not None and code < 0

    def failure(self) -> Exception:
        code = self.process.wait()
        lines = self._errors.read_text(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        last = last.removeprefix("fewbits: ")
        if code == BAD_INPUT:
            return SpecError(last)
        if code < 0:
            why = f": {last}" if last else ""
            return PeerError(f"rank {self.rank} was ended by {_signal_name(-code)}{why}")
        return PeerError(f"rank {self.rank} failed: {last or 'no message'}")


def _follow(ranks: Sequence[Rank], on_event: Callable[[Event], None]) -> list[Event]:
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    stdout = ranks[0].process.stdout
    assert stdout is not None
    threading.Thread(target=_read, args=(stdout, events), daemon=True).start()
    results: list[Event] = []
    while True:
        try:
            event = events.get(timeout=_POLL)
        except queue.Empty:
            failed = [rank for rank in ranks if rank.failed()]
            if failed:
                # A killed rank comes first: the others failed because it had gone.
                raise max(failed, key=Rank.was_killed).failure() from None
            if all(rank.process.poll() == 0 for rank in ranks) and events.empty():
                break
            continue
        if event["event"] == "result":
            results.append(event)
        on_event(event)
    if not results:
        raise PeerError("rank 0 ended without a result")
    return results


def _read(stdout: IO[bytes], events: "queue.SimpleQueue[Event]") -> None:
    for line in stdout:
        try:
            event = json.loads(line)
        except ValueError:
            continue  # not ours: some library's word on stdout
        if isinstance(event, dict) and "event" in event:
            events.put(event)


def _environment(rank: int, workers: int, port: int) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(workers),
        "LOCAL_WORLD_SIZE": str(workers),
        "MASTER_PORT": str(port),
        # Ranks share the processors; torch would start a thread for each processor in each rank.
        "OMP_NUM_THREADS": "1",
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
