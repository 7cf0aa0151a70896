"""Result files that grow run by run: a study that was interrupted goes on where it stopped."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fewbits_lab.parts import replace_file
from fewbits_lab.record import Item


def read(path: Path) -> list[Item]:
    """The runs so far."""
    return list(json.loads(path.read_text())["runs"]) if path.exists() else []


def add(path: Path, run: Item, head: Mapping[str, Any], order: Sequence[str] = ()) -> None:
    """Write the file with one run more, sorted by some of its keys: all of it or nothing."""
    runs = sorted([*read(path), run], key=lambda own: [own[key] for key in order])
    lines = ",\n".join(json.dumps(own) for own in runs)
    text = f'{json.dumps(head)[:-1]},\n"runs": [\n{lines}\n]}}\n'
    replace_file(path, text.encode())
