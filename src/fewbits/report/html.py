"""What every page is made of: one file, no network, no scripts."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from fewbits.report.style import CSS

_SENTENCE = 44  # letters from which a cell is text to read, in lines


def page(title: str, body: Iterable[str]) -> str:
    """The whole file."""
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{CSS}</style>"
    )
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{"".join(body)}</body></html>\n'
    )


def section(title: str, content: str, name: str | None = None) -> str:
    """A part of a page; `name` is what links to it say."""
    mark = "" if name is None else f' id="{escape(name)}"'
    return f"<section{mark}><h2>{title}</h2>{content}</section>"


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of plain text that scrolls by itself where it is wide."""
    cells = [list(row) for row in rows]
    longest = [max(map(len, column)) for column in zip(*cells, strict=True)] or [0] * len(titles)
    kinds = [' class="words"' if length > _SENTENCE else "" for length in longest]
    head = _row("th", titles, kinds)
    body = "".join(_row("td", row, kinds) for row in cells)
    whole = f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll">{whole}</div>'


def facts(named: Mapping[str, str]) -> str:
    """Names and what is to be known of them, which is HTML."""
    return f"<dl>{''.join(f'<dt>{name}</dt><dd>{text}</dd>' for name, text in named.items())}</dl>"


def _row(tag: str, cells: Sequence[str], kinds: Sequence[str]) -> str:
    pairs = zip(cells, kinds, strict=True)
    return f"<tr>{''.join(f'<{tag}{kind}>{escape(text)}</{tag}>' for text, kind in pairs)}</tr>"
