"""The exhibits of the page: experiments and recorded results behind one interface."""

from dataclasses import dataclass, fields, replace
from typing import Any

from fewbits.errors import SpecError
from fewbits_lab import figures, record
from fewbits_lab.experiment import Claim, StudySettings
from fewbits_lab.printed import Comparison, departures
from fewbits_lab.record import Headline, RecordDocument, Recorded
from fewbits_lab.store import StudyResult, as_csv, columns
from fewbits_lab.tables import ShownTable, shown

_DIGITS = {"ours": 6}  # as many as the print has, to compare


@dataclass(frozen=True, slots=True)
class Exhibit:
    """Tables, a figure, sentences and claims, with their origin.

    `compared` is how many printed values its rows stand beside. `files` are those beside the page,
    by name: what they hold, or None for the data itself.
    """

    name: str
    title: str
    about: str
    command: str
    origin: str
    tables: list[ShownTable]
    picture: str
    findings: list[str]
    claims: list[Claim]
    compared: int
    departures: list[Comparison]
    files: dict[str, str | None]
    headline: Headline | None = None
    folded: bool = False


def of_result(result: StudyResult) -> Exhibit:
    """An experiment's."""
    own, rows = result.experiment, result.rows
    picture = figures.svg(lambda: own.draw(rows))
    compared = [row for row in rows if isinstance(row, Comparison) and row.printed]
    return Exhibit(
        name=own.name,
        title=own.title,
        about=own.about,
        command=command(own.name, result.settings),
        origin=_made(result),
        tables=[_table(result)],
        picture=picture,
        findings=own.findings(rows),
        claims=own.claims(rows),
        compared=len(compared),
        departures=departures(rows),
        files={
            f"{own.name}.csv": as_csv(own, rows),
            f"{own.name}.json": None,
            f"{own.name}.svg": picture,
        },
    )


def of_full_run(result: StudyResult) -> Exhibit:
    """An experiment's that was recorded with full effort, beside a quick one or instead of it."""
    found = of_result(result)
    files = {f"{record.FOLDER}/{name}": text for name, text in found.files.items()}
    machine = result.made.get("machine")
    where = f"on {record.described(machine)}" if machine else record.machine({})
    return replace(
        found,
        name=full_name(found.name),
        title=f"{found.title}: the full run",
        origin=f"{found.origin} Recorded {where}: not computed anew by this run.",
        files=files,
    )


def superseded(own: Exhibit) -> Exhibit:
    """A quick run's where a full one is shown: folded up, and what it decides is decided there."""
    return replace(own, compared=0, departures=[], claims=[], folded=True)


def full_name(name: str) -> str:
    """The name on the page of a recorded full run."""
    return f"{name}-recorded"


def of_recorded(own: Recorded, document: RecordDocument) -> Exhibit:
    """A recorded result's; `SpecError` if the file is not what its name says."""
    try:
        picture = figures.svg(lambda: own.draw(document))
        day = record.dates(document)
        return Exhibit(
            name=own.name,
            title=own.title,
            about=own.about,
            command=own.command,
            origin=f"Recorded {f'on {day} ' if day else ''}{record.machine(document)}: not "
            "computed anew by this run.",
            tables=own.tables(document),
            picture=picture,
            findings=own.findings(document),
            claims=own.claims(document),
            compared=0,
            departures=[],
            files={
                f"{record.FOLDER}/{own.result}.json": None,
                f"{record.FOLDER}/{own.name}.svg": picture,
            },
            headline=own.headline(document) if own.headline else None,
        )
    except record.NOT_OURS as error:
        raise SpecError(
            f"{own.result}.json is damaged, or not what {own.name} is made of: {error!r}"
        ) from error


def command(name: str, settings: StudySettings) -> str:
    """How to compute it again."""
    return (
        f"fewbits-lab run {name} --out DIR --seed {settings.seed}"
        f"{' --quick' if settings.quick else ''}{' --data DIR' if settings.data else ''}"
    )


def label(row: object) -> str:
    """The subject of a row: its first words and numbers that are not results."""
    own = [field.name for field in fields(type(row)) if field.name in _LABELS]  # type: ignore[arg-type]
    values = [(name, getattr(row, name)) for name in own]
    words = [
        value if isinstance(value, str) else f"{_LABELS[name]} = {value:,}"
        for name, value in values
        if value not in (None, "")
    ]
    return ", ".join(words)


_LABELS = {
    "problem": "problem",
    "vector": "vector",
    "operator": "operator",
    "quantity": "quantity",
    "workers": "workers",
    "alpha": "α",
    "nu": "ν",
    "at": "at",
    "p": "p",
    "d": "d",
    "s": "s",
}


def _made(result: StudyResult) -> str:
    settings, made = result.settings, result.made
    effort = "quick" if settings.quick else "full"
    when = f" on {made['on']}" if "on" in made else ""
    when += f" in {made['seconds']:,} s" if "seconds" in made else ""
    return f"Computed{when}, seed {settings.seed}, effort: {effort}."


def _table(result: StudyResult) -> ShownTable:
    """All rows; marked are those whose printed value does not reproduce."""
    rows: list[Any] = result.rows
    names = [
        name
        for name in columns(result.experiment.row)
        if any(getattr(row, name) not in (None, "") for row in rows)
    ]
    lost = frozenset(
        number for number, row in enumerate(rows) if getattr(row, "reproduces", None) is False
    )
    return ShownTable(
        [name.replace("_", " ") for name in names],
        [[shown(getattr(row, name), _DIGITS.get(name, 4)) for name in names] for row in rows],
        lost=lost,
    )
