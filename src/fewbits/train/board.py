"""The comparison while it grows: a table that is drawn again on a terminal, else lines."""

import shutil
import sys
import time
from collections.abc import Sequence
from typing import Any

from fewbits.train.progress import RunProgress, write
from fewbits.train.references import PLAIN_DDP

_TITLES = ("operator", "state", "accuracy", "MB sent", "step ms", "speed")
_INTERVAL = 0.2  # seconds between two pictures
_WAITING = "waits"


class Board:
    """The runs of a comparison, one after the other; their results are added to `ended`."""

    def __init__(
        self, operators: Sequence[str], ended: list[dict[str, Any]], where: str = ""
    ) -> None:
        self._rows: dict[str, tuple[str, ...]] = dict.fromkeys(operators, (_WAITING,))
        self._left, self._ended, self._where = list(operators), ended, where
        self._live = bool(sys.stderr and sys.stderr.isatty())
        self._lines: RunProgress | None = None
        self._plain_ms = self._began = self._drawn_at = 0.0
        self._height = 0
        self._begin()

    @property
    def running(self) -> str:
        """The operator whose run is under way."""
        return self._left[0] if self._left else ""

    def show(self, event: dict[str, Any]) -> None:
        """Show what rank 0 says; a result ends a run."""
        if event["event"] == "result":
            self._ended.append(event)
            self._end(event["run"])
        elif self._lines is not None:
            self._lines.show(event)
        elif event["event"] == "epoch" or time.monotonic() - self._drawn_at > _INTERVAL:
            step = f", {event['step']}/{event['steps']}" if "step" in event else ""
            self._say(f"epoch {event['epoch']}/{event['epochs']}{step}")

    def _begin(self) -> None:
        self._began = time.monotonic()
        if self._live:
            self._say("starts")
        else:
            name = f"{self.running} {self._where}" if self._where else self.running
            self._lines = RunProgress(name)

    def _end(self, run: dict[str, Any]) -> None:
        total = run["step_ms"]["total"]
        if run["operator"] == PLAIN_DDP:
            self._plain_ms = total
        speed = f"{self._plain_ms / total:.2f}×" if self._plain_ms else ""
        self._rows[self._left.pop(0)] = (
            "done", f"{100 * run['accuracy']:.1f} %", f"{run['bytes_per_step'] / 1e6:.3f}",
            f"{total:.1f}", speed,
        )  # fmt: skip
        self._draw()
        if self._left:
            self._begin()

    def close(self) -> None:
        """Remove the table: the whole one follows."""
        if self._height:
            write(f"\x1b[{self._height}F\x1b[J")
            self._height = 0

    def _say(self, state: str) -> None:
        self._rows[self.running] = (f"{state}, {time.monotonic() - self._began:.0f} s",)
        self._draw()

    def _draw(self) -> None:
        if not self._live:
            return
        self._drawn_at = time.monotonic()
        lines = [f"{self._where}:"] * bool(self._where) + self._text()
        width = shutil.get_terminal_size().columns - 1
        up = f"\x1b[{self._height}F" if self._height else ""
        write(up + "".join(f"\x1b[K{line[:width]}\n" for line in lines))
        self._height = len(lines)

    def _text(self) -> list[str]:
        """The lines of the table; cells that are not known yet are empty."""
        rows = [_TITLES, *((name, *cells) for name, cells in self._rows.items())]
        whole = [(*row, *[""] * (len(_TITLES) - len(row))) for row in rows]
        widths = [max(map(len, column)) for column in zip(*whole, strict=True)]
        widths[1] = max(widths[1], len("epoch 6/6, 11/11, 99 s"))
        return [
            "  ".join(
                cell.ljust(size) if place < 2 else cell.rjust(size)
                for place, (cell, size) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in whole
        ]
