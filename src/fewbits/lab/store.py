"""Results in a folder: NAME.json to go on from, NAME.csv and NAME.png to use.

A result is finished when its JSON file is there and says the same settings and version. It is
written last, and every file is written whole or not at all, so an interrupted run goes on where it
stopped.
"""

import csv
import io
import json
import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from fewbits.errors import SpecError
from fewbits.lab import figures
from fewbits.lab.experiment import Experiment, Settings, Tick, silent
from fewbits.lab.printed import Comparison
from fewbits.train.extras import check_installed

_FORMAT = "fewbits-lab"
Rows = list[Any]


@dataclass(frozen=True, slots=True)
class Result:
    """A finished experiment, `fresh` if it was computed now."""

    experiment: Experiment[Any]
    rows: Rows
    png: bytes
    fresh: bool


def check_ready(folder: Path) -> None:
    """Refuse what would fail after the work: missing packages, no folder to write to."""
    for package in ("matplotlib", "sklearn"):
        check_installed(package, "lab")
    if folder.exists() and not folder.is_dir():
        raise SpecError(f"--out must be a folder, and {folder} is a file")
    folder.mkdir(parents=True, exist_ok=True)


def obtain(
    experiment: Experiment[Any],
    settings: Settings,
    folder: Path,
    *,
    force: bool = False,
    tick: Tick = silent,
) -> Result:
    """The result in `folder`, computed and written unless it is there."""
    stem = folder / experiment.name
    picture = stem.with_suffix(".png")
    rows = None if force else finished(experiment, settings, folder)
    if rows is not None and picture.is_file() and stem.with_suffix(".csv").is_file():
        return Result(experiment, rows, picture.read_bytes(), fresh=False)
    fresh = rows is None
    if rows is None:
        rows = experiment.compute(settings, tick)
    drawn = figures.png(lambda: experiment.draw(rows))
    _write(stem.with_suffix(".csv"), as_csv(experiment, rows).encode())
    _write(picture, drawn)
    _write(stem.with_suffix(".json"), _as_json(experiment, settings, rows).encode())
    return Result(experiment, rows, drawn, fresh)


def finished(experiment: Experiment[Any], settings: Settings, folder: Path) -> Rows | None:
    """Rows of an earlier run with these settings; None if there are none to rely on."""
    try:
        text = (folder / f"{experiment.name}.json").read_text(encoding="utf-8")
        document = json.loads(text)
        if document["head"] != _head(experiment, settings):
            return None
        return [experiment.row(**row) for row in document["rows"]]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def as_csv(experiment: Experiment[Any], rows: Rows) -> str:
    """A line of names, then a line a row; floats with all their digits, nothing where unknown."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = columns(experiment.row)
    writer.writerow(names)
    writer.writerows([getattr(row, name) for name in names] for row in rows)
    return out.getvalue()


def columns(row: type[Any]) -> list[str]:
    """The names of a row's fields: what it is about first, then what is compared."""
    names = [field.name for field in fields(row)]
    compared = [field.name for field in fields(Comparison)] if issubclass(row, Comparison) else []
    return [name for name in names if name not in compared] + compared


def write_page(folder: Path, html: str) -> Path:
    """The page of a folder."""
    path = folder / "index.html"
    _write(path, html.encode())
    return path


def _head(experiment: Experiment[Any], settings: Settings) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "experiment": experiment.name,
        "version": experiment.version,
        "settings": asdict(settings),
    }


def _as_json(experiment: Experiment[Any], settings: Settings, rows: Rows) -> str:
    plain = [asdict(row) for row in rows]
    bad = [
        (name, value)
        for row in plain
        for name, value in row.items()
        if isinstance(value, float) and not math.isfinite(value)
    ]
    assert not bad, f"{experiment.name}: not finite: {bad[0]}"
    head = _head(experiment, settings)
    return json.dumps({"head": head, "rows": plain}, indent=1, allow_nan=False) + "\n"


def _write(path: Path, data: bytes) -> None:
    unfinished = path.with_name(path.name + ".tmp")
    unfinished.write_bytes(data)
    unfinished.replace(path)
