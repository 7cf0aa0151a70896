"""How far a run is, on stderr: a line that changes on a terminal, elsewhere a line an epoch."""

import sys
import time
from typing import Any


class Progress:
    """The words on one run."""

    def __init__(self, operator: str) -> None:
        self.operator = operator
        self._live = bool(sys.stderr and sys.stderr.isatty())
        self._began = time.monotonic()
        self._say("starting")

    def show(self, event: dict[str, Any]) -> None:
        """Take an event of rank 0's."""
        if event["event"] == "epoch":
            right = f"accuracy {100 * event['accuracy']:.1f} %"
            self._say(f"epoch {event['epoch']}/{event['epochs']}, {right}")
        elif self._live:
            done = f"step {event['step']}/{event['steps']}, loss {event['loss']:.4f}"
            self._say(f"epoch {event['epoch']}/{event['epochs']}, {done}")

    def close(self) -> None:
        """Leave the line as it is, so that the next word starts on its own."""
        if self._live:
            _write("\n")

    def _say(self, text: str) -> None:
        line = f"{self.operator}: {text}, {time.monotonic() - self._began:.0f} s"
        _write(f"\r\x1b[K{line}" if self._live else line + "\n")


def _write(text: str) -> None:
    if sys.stderr:
        sys.stderr.write(text)
        sys.stderr.flush()
