"""A folder of results and its page: everything but the JSON files is made from the JSON files."""

from collections.abc import Callable
from pathlib import Path

from fewbits.errors import SpecError
from fewbits_lab import record, store
from fewbits_lab.index import EXPERIMENTS, RECORDED
from fewbits_lab.page import exhibits
from fewbits_lab.page import render as page
from fewbits_lab.page.exhibits import Exhibit
from fewbits_lab.results import paths
from fewbits_lab.store import StudyResult


def take(folder: Path, recorded: Path | None = None) -> None:
    """Copy what the laboratory, or a folder of NAME.json, has recorded and the page shows."""
    names = {*(own.result for own in RECORDED), *(own.name for own in EXPERIMENTS)}
    if recorded is not None:
        record.copy(record.given(recorded, sorted(names)), folder)
    else:
        record.copy({n: path for n, path in paths().items() if n in names}, folder)


def build(folder: Path) -> Path:
    """Write CSV files, figures and the page from the JSON files of a folder; the page's path."""
    results, shown = _experiments(folder)
    for own in RECORDED:
        document = record.read(folder / record.FOLDER / f"{own.result}.json")
        if document is not None:
            shown.append(exhibits.of_recorded(own, document))
    if not shown:
        raise SpecError(
            f"{folder} has no results of fewbits-lab: 'fewbits-lab all --out {folder}' makes them"
        )
    for exhibit in shown:
        for name, text in exhibit.files.items():
            if text is not None:
                store.write(folder / name, text)
    path = folder / "index.html"
    store.write(path, page.render(shown, results))
    return path


def _experiments(folder: Path) -> tuple[list[StudyResult], list[Exhibit]]:
    """The computed results and their exhibits; a recorded full run decides claims."""
    results, shown = [], []
    for own in EXPERIMENTS:
        found = store.load(own, folder)
        full = store.load(own, folder / record.FOLDER)
        if full is not None and (found is None or found.settings.quick):
            shown.append(_seen(exhibits.of_full_run, full, folder / record.FOLDER))
        else:
            full = None
        if found is not None:
            results.append(found)
            exhibit = _seen(exhibits.of_result, found, folder)
            shown.append(exhibit if full is None else exhibits.superseded(exhibit))
    return results, shown


def _seen(see: Callable[[StudyResult], Exhibit], result: StudyResult, folder: Path) -> Exhibit:
    """The exhibit of a result; `SpecError` if rows are missing or have values of other types."""
    try:
        if "machine" in result.made:
            record.described(result.made["machine"])
        return see(result)
    except (ArithmeticError, *record.NOT_OURS) as error:
        path = folder / f"{result.experiment.name}.json"
        raise SpecError(store.damaged(path, result.experiment)) from error
