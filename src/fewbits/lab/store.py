"""Results in a folder: NAME.json to go on from, NAME.csv and NAME.png to use.

A result is finished when its JSON file is there and says the same settings and version. It is
written last, and every file is written whole or not at all, so an interrupted run goes on where it
stopped. Which files `--data` held is not part of the settings: `--force` after it has changed.
"""

import csv
import io
import json
import math
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from fewbits.errors import SpecError
from fewbits.lab import figures
from fewbits.lab.experiment import Experiment, Settings, Tick, silent
from fewbits.lab.parts import Parts, replace_file
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
    parts = Parts(folder / f"{experiment.name}.parts.json", _head(experiment, settings))
    if force:
        parts.discard()
    if rows is None:
        rows = experiment.compute(replace(settings, parts=parts), tick)
    drawn = figures.png(lambda: experiment.draw(rows))
    replace_file(stem.with_suffix(".csv"), as_csv(experiment, rows).encode())
    replace_file(picture, drawn)
    replace_file(stem.with_suffix(".json"), _as_json(experiment, settings, rows).encode())
    parts.discard()
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
    replace_file(path, html.encode())
    return path


def _head(experiment: Experiment[Any], settings: Settings) -> dict[str, Any]:
    """What a result is of; that there was a folder of data matters, and not where it lay."""
    return {
        "format": _FORMAT,
        "experiment": experiment.name,
        "version": experiment.version,
        "settings": {
            "seed": settings.seed,
            "quick": settings.quick,
            "data": True if settings.data else None,
        },
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
