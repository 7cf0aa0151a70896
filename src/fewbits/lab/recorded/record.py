"""What a recorded result is, and how files of them are found, copied and read."""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

from fewbits.errors import SpecError
from fewbits.lab.experiment import Claim
from fewbits.lab.store import write
from fewbits.lab.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Document = Any  # of JSON
FOLDER = "recorded"  # beside the page
LAB = "lab"  # in it: full runs of experiments
NOT_OURS = (KeyError, IndexError, TypeError, ValueError, AttributeError, StopIteration)


def nothing(_: Document) -> list[Any]:
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
    file: str
    title: str
    about: str
    command: str
    tables: Callable[[Document], list[Table]]
    draw: Callable[[Document], "Figure"]
    findings: Callable[[Document], list[str]] = nothing
    claims: Callable[[Document], list[Claim]] = nothing
    headline: Callable[[Document], Headline] | None = None


def checkout() -> Path | None:
    """`benchmarks/results` of the checkout that this package lives in, if it is in one."""
    folder = Path(__file__).resolve().parents[4] / "benchmarks" / "results"
    return folder if folder.is_dir() else None


def copy(source: Path, target: Path, names: Iterable[str]) -> None:
    """Put those of these files that are in `source` beside the page, as they are."""
    if not source.is_dir():
        raise SpecError(f"--recorded must be a folder, got {source}")
    found = [name for name in dict.fromkeys(names) if (source / name).is_file()]
    if not found:
        raise SpecError(f"--recorded: {source} has no recorded results")
    for name in found:
        place = target / FOLDER / name
        try:
            text = (source / name).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise SpecError(f"--recorded: {source / name} is not UTF-8 text") from error
        place.parent.mkdir(parents=True, exist_ok=True)
        write(place, text)


def read(path: Path) -> Document | None:
    """The document, or None if there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise SpecError(f"{path} is not JSON: {error}") from error


def machine(document: Document) -> str:
    """Where it was recorded and with what, if the file says so."""
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


def dates(document: Document) -> str:
    """The days on which it was measured, if the file says so."""
    settings = document.get("settings") if isinstance(document, dict) else None
    own = settings if isinstance(settings, list) else []
    found = sorted({one["started"][:10] for one in own if one.get("started")})
    return " to ".join(dict.fromkeys((found[0], found[-1]))) if found else ""


def standard_error(values: Sequence[float]) -> float:
    """Of the mean; infinite for a single value."""
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.inf


def with_error(values: Sequence[float], digits: int = 2, sign: str = "") -> str:
    """A mean and its standard error."""
    return f"{fmean(values):{sign}.{digits}f} ± {standard_error(values):.{digits}f}"
