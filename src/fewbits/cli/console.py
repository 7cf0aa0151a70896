"""What the commands say and how: lines, tables, JSON and a progress bar."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from fewbits.errors import FewbitsError, SpecError

Subcommands = Any  # argparse keeps the type of `add_subparsers()` to itself
PATIENCE = 2.0  # seconds of work before a bar appears
_INTERVAL = 0.1  # seconds between two pictures of a bar
_WIDTH = 30
_MOST = 2**31  # that an option's number stays below

# The library's messages name Python arguments; on the command line they are options.
_OPTIONS = {"nonfinite='carry'": "--nonfinite carry", "max_elements=": "--max-elements"}


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are one line, like every other one."""

    def error(self, message: str) -> NoReturn:
        raise SpecError(f"{message} (see '{self.prog} --help')")


def add_command(
    commands: Subcommands, name: str, *, summary: str, example: str, run: Callable[..., None]
) -> Parser:
    """A command's parser, with its help, its example and `--json`."""
    parser: Parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=run)
    return parser


def count(text: str) -> int:
    """An option's whole number from 1 on, also as `25e6`."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not (1 <= value < _MOST and value.is_integer()):
        raise argparse.ArgumentTypeError(
            f"expected a whole number from 1 to {_MOST - 1}, got {text!r}"
        )
    return int(value)


@contextmanager
def about(what: str) -> Iterator[None]:
    """Errors of ours that come up inside begin with `what` they are about."""
    try:
        yield
    except FewbitsError as error:
        raise type(error)(f"{what}: {error}") from error


def say(text: str) -> None:
    """One line to stderr, whatever `text` holds."""
    for spoken, option in _OPTIONS.items():
        text = text.replace(spoken, option)
    print(f"fewbits: {printable(text)}", file=sys.stderr)


def printable(text: str) -> str:
    """`text` without characters that move the cursor, such as a tensor's name may hold."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def print_json(value: object, *, to_stderr: bool = False) -> None:
    """`value` as one line of JSON; NaN is not JSON and must have been replaced."""
    print(json.dumps(value, allow_nan=False), file=sys.stderr if to_stderr else sys.stdout)


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, right: str = "") -> str:
    """Aligned columns; the columns whose titles are words of `right` are flush right."""
    cells = [list(titles), *([printable(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    flush_right = [title in right.split(",") for title in titles]
    lines = (
        "  ".join(
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(row, widths, flush_right, strict=True)
        )
        for row in cells
    )
    return "\n".join(line.rstrip() for line in lines)


class Progress:
    """A bar on stderr for work of more than two seconds; silent where stderr is no terminal."""

    def __init__(self, label: str, total: int = 0) -> None:
        self.label, self.total, self.done = label, total, 0
        self._next = time.monotonic() + PATIENCE if sys.stderr and sys.stderr.isatty() else None
        self._drawn = False

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def advance(self, amount: int) -> None:
        """`amount` more is done."""
        self.show(self.done + amount)

    def show(self, done: int) -> None:
        """`done` of the total is done; without a total the amount itself is shown, in megabytes."""
        self.done = done
        now = time.monotonic()
        if self._next is None or now < self._next:
            return
        self._next, self._drawn = now + _INTERVAL, True
        if self.total:
            part = min(1.0, done / self.total)
            filled = round(part * _WIDTH)
            state = f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {part:4.0%}"
        else:
            state = f"{done / 1e6:,.0f} MB"
        print(f"\r\x1b[K{self.label} {state}", end="", file=sys.stderr, flush=True)
