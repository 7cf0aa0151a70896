"""The output of the commands: lines, tables, JSON and a progress bar."""

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from fewbits.errors import FewbitsError, SpecError

PATIENCE = 2.0  # seconds of work before a bar appears
BEAT = 30.0  # seconds between two lines where there is no terminal
_INTERVAL = 0.1  # seconds between two pictures of a bar
_WIDTH = 30
_MOST = 2**31  # that an option's number stays below
_speaker = "fewbits"  # the program whose name stands before each line on stderr

# The library's messages name Python arguments; on the command line they are options.
_OPTIONS = {"nonfinite='carry'": "--nonfinite carry", "max_elements=": "--max-elements"}


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, like those of all commands."""

    def error(self, message: str) -> NoReturn:
        raise SpecError(f"{message} (see '{self.prog} --help')")

    def add_example(self, text: str) -> None:
        """Show a command below the help; several stand below each other."""
        self.epilog = f"{self.epilog or 'example:'}\n  {text}"


class Renamed(argparse.Action):
    """An old name of an option: it works for one more release, and warns."""

    def __init__(self, option_strings: Sequence[str], dest: str, **given: Any) -> None:
        super().__init__(option_strings, dest, help=argparse.SUPPRESS, **given)
        self.default = argparse.SUPPRESS

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        say(f"warning: {option_string} is now --{self.dest}, the old name will go")
        setattr(namespace, self.dest, values)


def count(text: str, most: int = _MOST - 1) -> int:
    """A whole number from 1 on, also written as `25e6`."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not (1 <= value <= most and value.is_integer()):
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to {most}, got {text!r}")
    return int(value)


def up_to(most: int) -> Callable[[str], int]:
    """A reader of whole numbers from 1 to `most`."""
    return lambda text: count(text, most)


@contextmanager
def about(what: str) -> Iterator[None]:
    """Put `what` before the message of a `FewbitsError` that the block raises."""
    try:
        yield
    except FewbitsError as error:
        raise type(error)(f"{what}: {error}") from error


@contextmanager
def speaking(name: str) -> Iterator[None]:
    """Lines that the block says begin with the name of this program."""
    global _speaker
    before, _speaker = _speaker, name
    try:
        yield
    finally:
        _speaker = before


def say(text: str) -> None:
    """Write `text` to stderr as one line."""
    for spoken, option in _OPTIONS.items():
        text = text.replace(spoken, option)
    print(f"{_speaker}: {printable(text)}", file=sys.stderr)


def printable(text: str) -> str:
    """`text` without characters that move the cursor, such as a tensor's name may hold."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def print_json(value: object, *, to_stderr: bool = False) -> None:
    """Print `value` as one line of JSON; NaN is not JSON, so the caller must have replaced it."""
    print(json.dumps(value, allow_nan=False), file=sys.stderr if to_stderr else sys.stdout)


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, right: str = "") -> str:
    """A table with aligned columns; those whose titles are words of `right` are flush right."""
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


class ProgressBar:
    """A bar on stderr for work of more than two seconds.

    Where stderr is no terminal, as in CI or under Slurm, it says a line when the work is done, and
    one every half a minute until then, whether the work tells of its progress or not. With
    `each` the work is one item of a list: then it has a line even if it was quick.
    """

    def __init__(self, label: str, total: int = 0, *, each: bool = False) -> None:
        self.label, self.total, self.done, self._each = label, total, 0, each
        self._live = bool(sys.stderr and sys.stderr.isatty())
        self._began = time.monotonic()
        self._next, self._drawn = self._began + PATIENCE, False
        self._ended = threading.Event()

    def __enter__(self) -> "ProgressBar":
        if sys.stderr and not self._live:
            threading.Thread(target=self._beat, daemon=True).start()
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        self._ended.set()
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        if failure is None and not self._live and (self._each or self._seconds() >= PATIENCE):
            self._line("done")

    def advance(self, amount: int) -> None:
        self.show(self.done + amount)

    def show(self, done: int) -> None:
        """Show that `done` of the total is done, or `done` itself in megabytes without a total."""
        self.done = done
        now = time.monotonic()
        if not self._live or now < self._next:
            return
        self._next, self._drawn = now + _INTERVAL, True
        if self.total:
            filled = round(self._part() * _WIDTH)
            state = f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {self._part():4.0%}"
        else:
            state = f"{done / 1e6:,.0f} MB"
        print(f"\r\x1b[K{self.label} {state}", end="", file=sys.stderr, flush=True)

    def _beat(self) -> None:
        while not self._ended.wait(BEAT):
            done = f"{self._part():.0%}" if self.total else f"{self.done / 1e6:,.0f} MB"
            self._line(done)

    def _line(self, state: str) -> None:
        if sys.stderr:
            say(f"{self.label}: {state}, {self._seconds():.0f} s")
            sys.stderr.flush()

    def _part(self) -> float:
        return min(1.0, self.done / self.total)

    def _seconds(self) -> float:
        return time.monotonic() - self._began
