"""Tables of results, once for documents and once for the page.

Cells are text in which `code` and **stress** are marked as in Markdown.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from fewbits.report import html

_CODE = re.compile(r"`([^`]+)`")
_STRESS = re.compile(r"\*\*([^*]+)\*\*")
_LINK = re.compile(r"\[([^\]]+)\]\(#([\w-]+)\)")
_OPEN = 14  # rows that the page shows without being asked for


@dataclass(frozen=True, slots=True)
class ShownTable:
    """Columns, rows, and the numbers of the rows in which we lose or a print does not hold.

    `lost_cells` are (row, column) where only some cells of a row do. A table of sentences is
    `wordy`: on a phone its cells stand below each other.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    note: str = ""
    lost: frozenset[int] = frozenset()
    lost_cells: frozenset[tuple[int, int]] = frozenset()
    wordy: bool = False


def markdown(table: ShownTable) -> str:
    """The table in Markdown, for documents."""
    lines = ["| " + " | ".join(table.columns) + " |", "| --- " * len(table.columns) + "|"]
    lines += ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in table.rows]
    return "\n".join(lines)


def as_html(table: ShownTable) -> str:
    """The table in HTML, for the page: long ones folded up, lost rows marked."""
    rows = [[marked(cell) for cell in row] for row in table.rows]
    titles = [marked(title) for title in table.columns]
    lost: set[int | tuple[int, int]] = {*table.lost, *table.lost_cells}
    whole = html.table(titles, rows, lost=lost, wordy=table.wordy)
    if len(rows) > _OPEN and not table.wordy:
        some = f", {len(table.lost)} of them marked" if table.lost else ""
        what = f"{escape(table.title)}: all" if table.title else "all"
        return (
            f"<details><summary>{what} {len(rows)} rows{some}</summary>{whole}</details>"
            f"{_note(table)}"
        )
    title = f'<p class="title">{marked(table.title)}</p>' if table.title else ""
    return f"{title}{whole}{_note(table)}"


def marked(text: str) -> str:
    """HTML of text with `code`, **stress** and [links](#to parts of the page)."""
    text = _LINK.sub(r'<a href="#\2">\1</a>', escape(text))
    return _STRESS.sub(r"<b>\1</b>", _CODE.sub(r"<code>\1</code>", text))


def shown(value: object, digits: int = 4) -> str:
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


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _note(table: ShownTable) -> str:
    return f'<p class="soft">{marked(table.note)}</p>' if table.note else ""
