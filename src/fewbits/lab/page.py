"""One page with every result of a folder: what departs from the print, figures, tables."""

import base64
from collections.abc import Sequence
from dataclasses import fields
from html import escape

from fewbits import __version__
from fewbits.lab.experiment import Settings
from fewbits.lab.printed import departures
from fewbits.lab.store import Result, columns
from fewbits.report import html

_OPEN = 14  # rows that are shown without being asked for
_DIGITS = {"ours": 6}  # as many as the print has, to compare


def render(results: Sequence[Result], settings: Settings) -> str:
    """The page."""
    links = "".join(
        f'<li><a href="#{result.experiment.name}">{escape(result.experiment.title)}</a></li>'
        for result in results
    )
    facts = {
        "fewbits": escape(__version__),
        "seed": str(settings.seed),
        "effort": "quick" if settings.quick else "full",
        "command": f"<code>fewbits lab all --out DIR --seed {settings.seed}"
        f"{' --quick' if settings.quick else ''}{' --data DIR' if settings.data else ''}</code>",
    }
    about = (
        "<h1>The papers' tables and figures, computed anew</h1>"
        "<p>Ours beside the printed values. The two papers: Horváth et al., <i>Natural Compression "
        "for Distributed Deep Learning</i> (2022), and Albasyoni et al., <i>Optimal Gradient "
        "Compression for Distributed and Federated Learning</i> (2020).</p>"
        f"<ul>{links}</ul>"
    )
    body = (
        about,
        html.section("What does not reproduce, and why", _departures(results)),
        *(
            html.section(escape(result.experiment.title), _result(result), result.experiment.name)
            for result in results
        ),
        html.section("To repeat it", html.facts(facts)),
    )
    return html.page("fewbits lab", body)


def _departures(results: Sequence[Result]) -> str:
    rows = [
        (result.experiment.title, label(row), str(row.printed), f"{row.ours:.6g}", row.reason)
        for result in results
        for row in departures(result.rows)
    ]
    if not rows:
        return "<p>Every printed value among these results reproduces.</p>"
    return html.table(("where", "what", "printed", "ours", "reason"), rows)


def label(row: object) -> str:
    """What a row is about: its first words and numbers that are not results."""
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


def _result(result: Result) -> str:
    experiment, rows = result.experiment, result.rows
    picture = base64.b64encode(result.png).decode()
    names = columns(experiment.row)
    shown = [name for name in names if any(getattr(row, name) not in (None, "") for row in rows)]
    titles = [name.replace("_", " ") for name in shown]
    table = html.table(
        titles,
        [[text(getattr(row, name), _DIGITS.get(name, 4)) for name in shown] for row in rows],
    )
    if len(rows) > _OPEN:
        table = f"<details><summary>all {len(rows)} rows</summary>{table}</details>"
    findings = "".join(f"<li>{escape(found)}</li>" for found in experiment.findings(rows))
    return (
        f"<p>{escape(experiment.about)}</p>"
        f"{f'<ul>{findings}</ul>' if findings else ''}"
        f'<figure><img alt="{escape(experiment.title)}" src="data:image/png;base64,{picture}">'
        f"</figure>{table}"
        f'<p class="soft"><code>{experiment.name}.csv</code>, '
        f"<code>{experiment.name}.png</code></p>"
    )


def text(value: object, digits: int = 4) -> str:
    """A cell: so many digits of a float, words for truth, nothing for nothing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 10_000 else f"{value:.{digits}g}"
    return str(value)
