"""Finished parts of an unfinished experiment, so that an interrupted run loses no more than one.

An experiment whose parts take long asks `settings.parts` for rows before it computes them and adds
them when it has. `store` keeps them in NAME.parts.json beside the results, and takes them away when
the whole is there. Without a folder nothing is kept.
"""

import json
import time
from pathlib import Path
from typing import Any

PlainRows = list[dict[str, Any]]


class FinishedParts:
    """Rows by the name of their part; `head` says of which settings and version they are.

    `seconds` is what earlier runs of the same took, up to the last part that they finished.
    """

    def __init__(self, path: Path | None = None, head: object = None) -> None:
        self._path, self._head = path, head
        self._began = time.perf_counter()
        self.seconds = 0.0
        self._rows: dict[str, PlainRows] = self._read()

    def find(self, name: str) -> PlainRows | None:
        """The part that was added under this name, by this run or an earlier one."""
        return self._rows.get(name)

    def add(self, name: str, rows: PlainRows) -> None:
        """Keep a part; the file is always whole."""
        self._rows[name] = rows
        if self._path is not None:
            seconds = round(self.seconds + time.perf_counter() - self._began, 1)
            document = {"head": self._head, "seconds": seconds, "parts": self._rows}
            text = json.dumps(document, allow_nan=False)
            replace_file(self._path, text.encode())

    def discard(self) -> None:
        """Forget everything."""
        self._rows, self.seconds = {}, 0.0
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _read(self) -> dict[str, PlainRows]:
        """The content of the file if it has the same settings; a damaged one counts as none."""
        if self._path is None:
            return {}
        try:
            document = json.loads(self._path.read_text(encoding="utf-8"))
            if document["head"] != self._head:
                return {}
            self.seconds = float(document.get("seconds", 0.0))
            return dict(document["parts"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return {}


def replace_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    unfinished = path.with_name(path.name + ".tmp")
    unfinished.write_bytes(data)
    unfinished.replace(path)
