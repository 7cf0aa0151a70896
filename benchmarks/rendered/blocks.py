"""Blocks of a page: found, made anew, put back; and the Markdown that they are made of."""

import json
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MARKED = re.compile(
    r"^<!-- measured: (?P<name>\S+) -->\n(?P<body>.*?)^<!-- end -->$", re.DOTALL | re.MULTILINE
)
_BEGIN = re.compile(r"^<!-- measured: (?P<name>\S+) -->$", re.MULTILINE)
Block = Callable[[], str]
_WIDTH = 130  # columns of the pages' paragraphs
_ITEM = re.compile(r"(\d+[.)]|[-+*#>])\s")


@cache
def results(name: str) -> Any:
    """A file of `benchmarks/results`."""
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())


def one(rows: Iterable[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    """The only row with these values; a figure without a row, or with two, is an error."""
    found = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    if len(found) != 1:
        raise LookupError(f"{len(found)} rows have {wanted}")
    return found[0]


def stale(text: str, blocks: Mapping[str, Block]) -> list[str]:
    """The names of blocks that are not as they would be made now, missing, or there twice."""
    found: dict[str, list[str]] = {}
    for block in MARKED.finditer(text):
        found.setdefault(block["name"], []).append(block["body"])
    made = {name: [block() + "\n"] for name, block in blocks.items()}
    return sorted(name for name in found.keys() | made.keys() if found.get(name) != made.get(name))


def refused(text: str, blocks: Mapping[str, Block]) -> list[str]:
    """What is wrong with the marks of a page, which no writing mends."""
    names = Counter(mark["name"] for mark in _BEGIN.finditer(text))
    return [
        *(f"{name} is there {count} times" for name, count in names.items() if count > 1),
        *(f"nothing makes {name}" for name in names if name not in blocks),
    ]


def renewed(text: str, blocks: Mapping[str, Block]) -> str:
    """The page with its blocks made anew; what nothing makes stays, and stays stale."""

    def made(found: re.Match[str]) -> str:
        name = found["name"]
        if name not in blocks:
            return found[0]
        return f"<!-- measured: {name} -->\n{blocks[name]()}\n<!-- end -->"

    return MARKED.sub(made, text)


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
