"""A folder of results and its page: everything but NAME.json is made from NAME.json."""

from pathlib import Path

from fewbits.errors import SpecError
from fewbits.lab import exhibits, page, store
from fewbits.lab.index import EXPERIMENTS
from fewbits.lab.recorded import record
from fewbits.lab.recorded.index import RECORDED


def build(folder: Path) -> Path:
    """Write CSV files, figures and the page from the JSON files of a folder; the page's path."""
    results = [found for own in EXPERIMENTS if (found := store.load(own, folder)) is not None]
    shown = [exhibits.of_result(result) for result in results]
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
