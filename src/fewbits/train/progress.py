"""Shows the progress of a run on stderr: one changing line on a terminal.

Elsewhere it is a line for each epoch, and in long epochs one every half a minute.
"""

import sys
import time
from collections.abc import Sequence
from typing import Any

_BEAT = 30.0  # seconds between two lines where there is no terminal


class RunProgress:
    """The progress of one run."""

    def __init__(self, operator: str) -> None:
        self.operator = operator
        self._live = bool(sys.stderr and sys.stderr.isatty())
        self._began = self._said = time.monotonic()
        self._say("starting")

    def show(self, event: dict[str, Any]) -> None:
        if event["event"] == "epoch":
            right = f"accuracy {100 * event['accuracy']:.1f} %"
            self._say(f"epoch {event['epoch']}/{event['epochs']}, {right}")
        elif self._live or time.monotonic() - self._said >= _BEAT:
            done = f"step {event['step']}/{event['steps']}, loss {event['loss']:.4f}"
            self._say(f"epoch {event['epoch']}/{event['epochs']}, {done}")

    def close(self) -> None:
        """End the line, so that the next output starts on a new one."""
        if self._live:
            write("\n")

    def _say(self, text: str) -> None:
        self._said = time.monotonic()
        line = f"{self.operator}: {text}, {self._said - self._began:.0f} s"
        write(f"\r\x1b[K{line}" if self._live else line + "\n")


class RunsProgress:
    """The progress of several runs of one process, one after the other."""

    def __init__(self, operators: Sequence[str]) -> None:
        self._left = list(operators)
        self._progress: RunProgress | None = None

    def show(self, event: dict[str, Any]) -> None:
        """Show an event; a result ends a run."""
        if event["event"] == "result":
            if self._progress is not None:
                self._progress.close()
            self._progress = None
            return
        if self._progress is None:
            self._progress = RunProgress(self._left.pop(0))
        self._progress.show(event)


def tell(text: str) -> None:
    """Write a line of its own."""
    write(f"fewbits: {text}\n")


def write(text: str) -> None:
    """Write to stderr at once, if there is one."""
    if sys.stderr:
        sys.stderr.write(text)
        sys.stderr.flush()
