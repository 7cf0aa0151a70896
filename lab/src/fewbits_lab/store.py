"""Results in a folder: NAME.json, from which everything else is made.

A result is finished when its file is there, says the same settings and version, and is complete: it
does not only say why nothing was run. Files are
written whole or not at all, so an interrupted run goes on where it stopped. Which files `--data`
held is not part of the settings: `--force` after it has changed.
"""

import csv
import io
import json
import math
import time
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args, get_type_hints

from fewbits.bench.machine import this_machine
from fewbits.errors import SpecError
from fewbits_lab.experiment import Experiment, StudySettings, Tick, silent
from fewbits_lab.parts import FinishedParts, replace_file
from fewbits_lab.printed import Comparison

_FORMAT = "fewbits-lab"
_Rows = list[Any]
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StudyResult:
    """A finished experiment, `fresh` if it was computed now.

    `made` says when, where and in how many seconds; it is empty in files that do not say.
    """

    experiment: Experiment[Any]
    settings: StudySettings
    rows: _Rows
    made: Document
    fresh: bool = False


def check_ready(folder: Path) -> None:
    """Refuse what would fail after the work: no folder to write to."""
    if folder.exists() and not folder.is_dir():
        raise SpecError(f"--out must be a folder, and {folder} is a file")
    folder.mkdir(parents=True, exist_ok=True)


def obtain(
    experiment: Experiment[Any],
    settings: StudySettings,
    folder: Path,
    *,
    force: bool = False,
    tick: Tick = silent,
) -> StudyResult:
    """The result in `folder`, computed and written unless it is there.

    One of other settings is not written over, unless by `force`.
    """
    if not force:
        check_free(experiment, settings, folder)
        if (found := finished(experiment, settings, folder)) is not None:
            return found
    parts = FinishedParts(folder / f"{experiment.name}.parts.json", _head(experiment, settings))
    if force:
        parts.discard()
    began = time.perf_counter()
    rows = experiment.compute(replace(settings, parts=parts), tick)
    made = {
        "on": datetime.now(UTC).date().isoformat(),
        "seconds": round(parts.seconds + time.perf_counter() - began, 1),
        "machine": asdict(this_machine()),
    }
    text = _as_json(experiment, settings, rows, made)
    write(folder / f"{experiment.name}.json", text)
    parts.discard()
    return StudyResult(experiment, settings, rows, made, fresh=True)


def check_free(experiment: Experiment[Any], settings: StudySettings, folder: Path) -> None:
    """Refuse to lose a result of other settings; one of an older version may go."""
    try:
        found = load(experiment, folder)
    except SpecError:
        return
    if found is None or not experiment.is_complete(found.rows):
        return
    there, wanted = (_head(experiment, own)["settings"] for own in (found.settings, settings))
    if there != wanted:
        raise SpecError(
            f"{folder} has {experiment.name} with {_described(there)}, and not with "
            f"{_described(wanted)}: --force replaces it, another --out keeps both"
        )


def _described(settings: Document) -> str:
    effort = "quick" if settings["quick"] else "full"
    data = "with --data" if settings["data"] else "without --data"
    return f"seed {settings['seed']}, {effort}, {data}"


def finished(
    experiment: Experiment[Any], settings: StudySettings, folder: Path
) -> StudyResult | None:
    """An earlier run with these settings; None if there is none to rely on."""
    try:
        found = load(experiment, folder)
    except SpecError:
        return None
    if found is None or _head(experiment, found.settings) != _head(experiment, settings):
        return None
    return found if experiment.is_complete(found.rows) else None


def load(experiment: Experiment[Any], folder: Path) -> StudyResult | None:
    """The result in the folder, of any settings; None if there is none."""
    return read(experiment, folder / f"{experiment.name}.json")


def read(experiment: Experiment[Any], path: Path) -> StudyResult | None:
    """The result in a file; None if there is none.

    A file that is damaged, of another version or another experiment's is a `SpecError`.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        head = document["head"]
        _check_ours(path, experiment, (head["format"], head["experiment"], head["version"]))
        given = head["settings"]
        data = "DIR" if given.get("data") else None  # where it lay is not kept
        settings = StudySettings(given["seed"], given["quick"], data)
        rows = _rows(experiment, document["rows"])
        made = dict(document.get("made", {}))
    except FileNotFoundError:
        return None
    except SpecError:
        raise  # it is a ValueError too
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SpecError(damaged(path, experiment)) from error
    return StudyResult(experiment, settings, rows, made)


def _rows(experiment: Experiment[Any], plain: list[Document]) -> _Rows:
    """Rows of a file: at least one, and values of the types that they are declared with."""
    if not plain:
        raise ValueError("no rows")
    rows = [experiment.row(**row) for row in plain]
    for name, hint in get_type_hints(experiment.row).items():
        kinds = get_args(hint) or (hint,)
        kinds += (int,) if float in kinds else ()  # JSON has 1 for 1.0 of other programs
        if not all(isinstance(getattr(row, name), kinds) for row in rows):
            raise TypeError(f"{name} is not {hint}")
    return rows


def as_csv(experiment: Experiment[Any], rows: _Rows) -> str:
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


def write(path: Path, text: str) -> None:
    """The whole file or nothing; one that has this text already is left alone."""
    data = text.encode()
    if not path.is_file() or path.read_bytes() != data:
        replace_file(path, data)


def _head(experiment: Experiment[Any], settings: StudySettings) -> Document:
    """The head of a result. It says that there was a folder of data, not where."""
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


def _check_ours(path: Path, experiment: Experiment[Any], found: tuple[str, str, int]) -> None:
    """Refuse what another experiment or another version of this one has written."""
    kind, name, version = found
    if (kind, name) != (_FORMAT, experiment.name):
        said = f"is another experiment's, of {name!r} and not of {experiment.name}"
    elif version != experiment.version:
        said = f"is of version {version}, {experiment.name} of {experiment.version}"
    else:
        return
    raise SpecError(f"{path} {said}: {_anew(path, experiment)}")


def damaged(path: Path, experiment: Experiment[Any]) -> str:
    """The message about a damaged file."""
    return f"{path} is damaged, or a result of another version: {_anew(path, experiment)}"


def _anew(path: Path, experiment: Experiment[Any]) -> str:
    return f"'fewbits-lab run {experiment.name} --out {path.parent} --force' makes it anew"


def _as_json(
    experiment: Experiment[Any], settings: StudySettings, rows: _Rows, made: Document
) -> str:
    plain = [asdict(row) for row in rows]
    bad = [
        (name, value)
        for row in plain
        for name, value in row.items()
        if isinstance(value, float) and not math.isfinite(value)
    ]
    assert not bad, f"{experiment.name}: not finite: {bad[0]}"
    document = {"head": _head(experiment, settings), "made": made, "rows": plain}
    return json.dumps(document, indent=1, allow_nan=False) + "\n"
