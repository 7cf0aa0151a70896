"""The HTML of every page: one file, no network, no scripts."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape

from fewbits.report.style import CSS

_SENTENCE = 44  # letters from which a cell is text to read, in lines
_TAG = re.compile(r"<[^>]*>")
_NUMBER = re.compile(r"[-+−~><≤≥]? ?[\d.]")


def page(title: str, body: Iterable[str], style: str = CSS) -> str:
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style>"
    )
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{"".join(body)}</body></html>\n'
    )


def section(title: str, content: str, name: str | None = None) -> str:
    """A part of a page; links refer to it by `name`."""
    mark = "" if name is None else f' id="{escape(name)}"'
    return f"<section{mark}><h2>{title}</h2>{content}</section>"


def table(
    titles: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    lost: Collection[int | tuple[int, int]] = (),
    wordy: bool = False,
) -> str:
    """A table of HTML cells; a wide one scrolls by itself.

    `lost` has the rows, or the (row, column) of the cells, that are marked. The cells of a `wordy`
    table stand below each other on a phone.
    """
    cells = [list(row) for row in rows]
    kinds = [_kind(column) for column in zip(*cells, strict=True)] or [""] * len(titles)
    head = _row("th", titles, kinds)
    words = [_TAG.sub("", title) for title in titles] if wordy else []
    body = "".join(
        _row("td", row, [f"{kind} lost" if (number, place) in lost else kind
                         for place, kind in enumerate(kinds)],
             "lost" if number in lost else "", words)
        for number, row in enumerate(cells)
    )  # fmt: skip
    whole = f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll{" wordy" if wordy else ""}">{whole}</div>'


def facts(named: Mapping[str, str]) -> str:
    """A list of names, each with its explanation in HTML."""
    return f"<dl>{''.join(f'<dt>{name}</dt><dd>{text}</dd>' for name, text in named.items())}</dl>"


def _kind(column: Sequence[str]) -> str:
    """How a column is set: sentences in lines, words to the left, numbers to the right."""
    texts = [_TAG.sub("", cell).strip() for cell in column]
    if max(map(len, texts)) > _SENTENCE:
        return "words"
    said = [text for text in texts if text]
    numbers = sum(bool(_NUMBER.match(text)) for text in said)
    return "" if 2 * numbers >= len(said) else "left"


def _row(
    tag: str, cells: Sequence[str], kinds: Sequence[str], kind: str = "", titles: Sequence[str] = ()
) -> str:
    """One row; on a phone, where no head stands above the cells, `titles` precede them."""
    said = [f' data-title="{title}"' for title in titles] or [""] * len(cells)
    inside = "".join(
        f"<{tag}{_class(own)}{title}>{text}</{tag}>"
        for text, own, title in zip(cells, kinds, said, strict=True)
    )
    return f"<tr{_class(kind)}>{inside}</tr>"


def _class(names: str) -> str:
    return f' class="{names.strip()}"' if names else ""
