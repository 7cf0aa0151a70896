"""Recorded results, and how their files are found, copied and read."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

from fewbits.errors import SpecError
from fewbits_lab.experiment import Claim
from fewbits_lab.store import write
from fewbits_lab.tables import ShownTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RecordDocument = Any  # of JSON
Item = dict[str, Any]  # a part of one
FOLDER = "recorded"  # beside the page
NOT_OURS = (KeyError, IndexError, TypeError, ValueError, AttributeError, StopIteration)


def nothing(_: RecordDocument) -> list[Any]:
    """No findings, no claims."""
    return []


class Headline(NamedTuple):
    """A number for the top of the page, and what it is."""

    number: str
    text: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """One view of a file, which `command` made: the page shows it as it shows an experiment."""

    name: str
    result: str  # the name of the file, without its ending
    title: str
    about: str
    command: str
    tables: Callable[[RecordDocument], list[ShownTable]]
    draw: Callable[[RecordDocument], "Figure"]
    findings: Callable[[RecordDocument], list[str]] = nothing
    claims: Callable[[RecordDocument], list[Claim]] = nothing
    headline: Callable[[RecordDocument], Headline] | None = None


def given(folder: Path, names: Iterable[str]) -> dict[str, Path]:
    """The results that a folder of NAME.json files has."""
    if not folder.is_dir():
        raise SpecError(f"--recorded must be a folder, got {folder}")
    places = {name: folder / f"{name}.json" for name in names}
    found = {name: place for name, place in places.items() if place.is_file()}
    if not found:
        raise SpecError(f"--recorded: {folder} has no recorded results")
    return found


def copy(files: Mapping[str, Path], target: Path) -> None:
    """Put these results beside the page, as they are."""
    for name, source in files.items():
        try:
            text = source.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise SpecError(f"--recorded: {source} is not UTF-8 text") from error
        place = target / FOLDER / f"{name}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        write(place, text)


def read(path: Path) -> RecordDocument | None:
    """The document, or None if there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise SpecError(f"{path} is not JSON: {error}") from error


def machine(document: RecordDocument) -> str:
    """The machine and software of the recording, if the file names them."""
    own = document if isinstance(document, dict) else {}
    settings = own.get("settings")
    parts = [own, *(settings if isinstance(settings, list) else ())]
    found = next((part["machine"] for part in parts if part.get("machine")), None)
    if found is not None:
        return f"on {described(found)}"
    known = [f"{name} {own[name]}" for name in ("fewbits", "numpy", "torch") if name in own]
    software = f"with {', '.join(known)} " if known else ""
    return f"{software}on a machine that the file does not name"


def described(found: dict[str, Any]) -> str:
    """A machine and its software in one line."""
    torch = f", torch {found['torch']}" if found.get("torch") else ""
    return (
        f"{found['cpu']}, {found['cores']} cores, {found['system']}, {found['simd']}; fewbits "
        f"{found['fewbits']}, Python {found['python']}, NumPy {found['numpy']}{torch}"
    )


def dates(document: RecordDocument) -> str:
    """The days on which it was measured, if the file says so."""
    settings = document.get("settings") if isinstance(document, dict) else None
    own = settings if isinstance(settings, list) else []
    found = sorted({one["started"][:10] for one in own if one.get("started")})
    return " to ".join(dict.fromkeys((found[0], found[-1]))) if found else ""


def standard_error(values: Sequence[float]) -> float:
    """The standard error of the mean; infinite for a single value."""
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.inf


def with_error(values: Sequence[float], digits: int = 2, sign: str = "") -> str:
    """A mean and its standard error."""
    return f"{fmean(values):{sign}.{digits}f} ± {standard_error(values):.{digits}f}"
