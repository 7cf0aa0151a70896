"""Makes the text of README and docs: paragraphs, lists, tables, numbers."""

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

_WIDTH = 130  # columns of the pages' paragraphs
_ITEM = re.compile(r"(\d+[.)]|[-+*#>])\s")


def one(rows: Iterable[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    """The only row with these values; a figure without a row, or with two, is an error."""
    found = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    if len(found) != 1:
        raise LookupError(f"{len(found)} rows have {wanted}")
    return found[0]


def paragraph(*sentences: str) -> str:
    """Sentences, in lines of the pages' length, none of which looks like an item of a list."""
    text, width = " ".join(sentences), _WIDTH
    while True:
        lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
        if not any(_ITEM.match(line) for line in lines[1:]):
            return "\n".join(lines)
        width -= 1


def bullets(*texts: str) -> str:
    """A list."""
    return "\n".join(textwrap.indent(paragraph(text), "  ").replace(" ", "-", 1) for text in texts)


def table(titles: str, rows: Iterable[Sequence[str]]) -> str:
    """A table; `titles` are separated by bars, and cells are as they are given."""
    head = titles.split("|")
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def code(spec: str) -> str:
    """A spec in a cell of a table, where a bar would end the cell."""
    return "`" + spec.replace("|", "\\|") + "`"


def span(values: Iterable[float], digits: int, sign: str = "") -> str:
    """`a to b`, or one number where both are the same in print; with `sign` "+" also of gains."""
    every = sorted(values)
    low, high = f"{every[0]:{sign}.{digits}f}", f"{every[-1]:{sign}.{digits}f}"
    return low if low == high else f"{low} to {high}"
