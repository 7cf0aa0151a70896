"""Starts the ranks of one setting, follows them and ends all of them if one fails."""

import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from fewbits.errors import PeerError, SpecError
from fewbits.exits import BAD_INPUT
from fewbits.train.shaping import VETH, end
from fewbits_lab.links import names, rank, switch
from fewbits_lab.links.network import Network, undisturbed
from fewbits_lab.links.setting import LinkSetting

_POLL = 0.05  # seconds between two looks at the ranks
_GRACE = 1.0  # seconds for the others of a failed rank to say what they saw

LaunchEvent = dict[str, Any]


class ContenderError(PeerError):
    """A rank failed; names the contender."""

    def __init__(self, contender: str | None, message: str) -> None:
        super().__init__(f"{contender}: {message}" if contender else message)
        self.contender, self.reason = contender, message


def launch(
    network: Network, setting: LinkSetting, contenders: Sequence[str], tick: Callable[[], None]
) -> list[LaunchEvent]:
    """Every rank's result; `tick` is called at each step. No process outlives the call."""
    switched = any(map(names.is_switched, contenders))
    with (
        tempfile.TemporaryDirectory(prefix="fewbits-link-") as folder,
        switch.serving(network, setting.ranks) if switched else nullcontext(),
    ):
        started: list[_Rank] = []
        try:
            for number in range(setting.ranks):
                work = rank.Work(
                    rank=number,
                    ranks=setting.ranks,
                    store=f"{folder}/store",
                    interface=VETH,
                    params=setting.params,
                    warm_up=setting.warm_up,
                    repeats=setting.repeats,
                    contenders=list(contenders),
                    patience=setting.patience,
                )
                with undisturbed():  # else a process could start and nobody know of it
                    started.append(_Rank(work, network.namespace(number), Path(folder)))
            return _follow(started, setting.patience, tick)
        finally:
            with undisturbed():
                for own in started:
                    end(own.process)


class _Rank:
    """A process in its namespace, with its errors in a file."""

    def __init__(self, work: rank.Work, namespace: str, folder: Path) -> None:
        self.number, self._errors = work.rank, folder / f"rank-{work.rank}.stderr"
        self.contender: str | None = None  # with whom it is busy
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", namespace, *rank.command(work)],
                env=os.environ | {"GLOO_SOCKET_IFNAME": VETH, "OMP_NUM_THREADS": "1"},
                # A rank ends when this pipe closes: none is orphaned if the launcher is killed.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                # Ctrl-C in the terminal is for the launcher alone, which then ends its ranks.
                start_new_session=True,
            )

    @property
    def failed(self) -> bool:
        """Whether the process has ended, and not well."""
        return self.process.poll() not in (None, 0)

    @property
    def weight(self) -> tuple[bool, bool]:
        """How near to the cause its failure is likely to be: others fail because it has gone."""
        code = self.process.poll() or 0
        return code < 0, "onnection" not in self.last_line()

    def last_line(self) -> str:
        """The last that it wrote to stderr."""
        lines = self._errors.read_text(errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def failure(self) -> Exception:
        """The error to raise."""
        contender, code, last = self.contender, self.process.wait(), self.last_line()
        if code == BAD_INPUT:
            return SpecError(f"{contender}: {last}" if contender else last)
        if code < 0:
            how = f"rank {self.number} was ended by {signal.Signals(-code).name}"
            return ContenderError(contender, f"{how}: {last}" if last else how)
        return ContenderError(contender, f"rank {self.number} failed: {last or 'no message'}")


def _follow(ranks: Sequence[_Rank], patience: float, tick: Callable[[], None]) -> list[LaunchEvent]:
    events: queue.SimpleQueue[tuple[int, LaunchEvent]] = queue.SimpleQueue()
    for own in ranks:
        threading.Thread(target=_read, args=(own, events), daemon=True).start()
    results: dict[int, LaunchEvent] = {}
    heard = time.monotonic()
    while len(results) < len(ranks):
        try:
            number, event = events.get(timeout=_POLL)
        except queue.Empty:
            _check(ranks)
            if time.monotonic() - heard > patience:
                why = f"no step ended within {patience:.0f} s"
                raise ContenderError(ranks[0].contender, why) from None
            continue
        heard = time.monotonic()
        if event["event"] == "result":
            results[number] = event
            continue
        if event["event"] == "step" and number == 0:
            tick()
    return [results[own.number] for own in ranks]


def _check(ranks: Sequence[_Rank]) -> None:
    """Raise for the rank that failed first, as far as that can be told."""
    if not any(own.failed for own in ranks):
        return
    until = time.monotonic() + _GRACE
    while time.monotonic() < until and not all(own.failed for own in ranks):
        time.sleep(_POLL)
    raise max((own for own in ranks if own.failed), key=lambda own: own.weight).failure()


def _read(own: _Rank, events: "queue.SimpleQueue[tuple[int, LaunchEvent]]") -> None:
    assert own.process.stdout is not None
    with suppress(ValueError):  # closed while it was read: a signal ended the measurement
        for line in own.process.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                continue  # not ours: some library's word on stdout
            if isinstance(event, dict) and "event" in event:
                own.contender = event.get("contender", own.contender)
                events.put((own.number, event))
