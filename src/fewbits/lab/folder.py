"""A folder of results and its page: everything but the JSON files is made from the JSON files."""

from collections.abc import Callable
from pathlib import Path

from fewbits.errors import SpecError
from fewbits.lab import exhibits, page, store
from fewbits.lab.exhibits import Exhibit
from fewbits.lab.index import EXPERIMENTS
from fewbits.lab.recorded import record
from fewbits.lab.recorded.index import RECORDED
from fewbits.lab.store import Result


def take(recorded: Path, folder: Path) -> None:
    """Copy what was recorded and what the page shows of it."""
    names = [own.file for own in RECORDED]
    names += [f"{record.LAB}/{own.name}.json" for own in EXPERIMENTS]
    record.copy(recorded, folder, names)


def build(folder: Path) -> Path:
    """Write CSV files, figures and the page from the JSON files of a folder; the page's path."""
    results, shown = _experiments(folder)
    for own in RECORDED:
        document = record.read(folder / record.FOLDER / own.file)
        if document is not None:
            shown.append(exhibits.of_recorded(own, document))
    if not shown:
        raise SpecError(
            f"{folder} has no results of fewbits lab: 'fewbits lab all --out {folder}' makes them"
        )
    for exhibit in shown:
        for name, text in exhibit.files.items():
            if text is not None:
                store.write(folder / name, text)
    path = folder / "index.html"
    store.write(path, page.render(shown, results))
    return path


def _experiments(folder: Path) -> tuple[list[Result], list[Exhibit]]:
    """What was computed here, and what to show; a full run that was recorded decides claims."""
    results, shown = [], []
    for own in EXPERIMENTS:
        found = store.load(own, folder)
        full = store.load(own, folder / record.FOLDER / record.LAB)
        if full is not None and (found is None or found.settings.quick):
            shown.append(_seen(exhibits.of_full_run, full, folder / record.FOLDER / record.LAB))
        else:
            full = None
        if found is not None:
            results.append(found)
            exhibit = _seen(exhibits.of_result, found, folder)
            shown.append(exhibit if full is None else exhibits.superseded(exhibit))
    return results, shown


def _seen(see: Callable[[Result], Exhibit], result: Result, folder: Path) -> Exhibit:
    """What to show of a result; `SpecError` if rows are missing or have values of other types."""
    try:
        if "machine" in result.made:
            record.described(result.made["machine"])
        return see(result)
    except (ArithmeticError, *record.NOT_OURS) as error:
        path = folder / f"{result.experiment.name}.json"
        raise SpecError(store.damaged(path, result.experiment)) from error
