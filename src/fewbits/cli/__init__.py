"""The `fewbits` command: `main` finds the command, and turns errors into one line and a code."""

import argparse
import contextlib
import os
import re
import sys
import warnings
from collections.abc import Sequence
from io import TextIOWrapper

import fewbits
from fewbits.cli import (
    bench,
    bounds,
    compress,
    decompress,
    inspect,
    lab,
    operators,
    plan,
    report,
    switch,
    train,
)
from fewbits.cli.console import Parser, say
from fewbits.errors import FewbitsError, SaturationWarning

__all__ = ["main"]

BAD_INPUT = 2
INTERRUPTED = 130  # what shells report for Ctrl-C
BROKEN_PIPE = 141  # and for a reader that has gone
_NEGATIVE = re.compile(r"-\.?\d")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` names; 0, or 2 after one line on stderr about what was wrong."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name need not fit the terminal
    with warnings.catch_warnings():
        warnings.simplefilter("always", SaturationWarning)
        warnings.showwarning = _show_warning
        try:
            code = _run(arguments)
            if sys.stdout is not None:
                sys.stdout.flush()
        except BrokenPipeError:
            _abandon_stdout()
            return BROKEN_PIPE
        except KeyboardInterrupt:
            return INTERRUPTED
        except (FewbitsError, OSError, MemoryError) as error:
            say(_message(error))
            _abandon_stdout()
            return BAD_INPUT
    return code


def _run(arguments: list[str]) -> int:
    parser = _parser()
    try:
        options, rest = parser.parse_known_args(_with_values(bench.with_suite(arguments)))
        _place(rest, options, parser)
    except SystemExit as done:  # --help and --version
        return int(done.code or 0)
    if options.command is None:
        parser.print_help(sys.stderr)
        return BAD_INPUT
    options.run(options)
    return 0


def _with_values(arguments: list[str]) -> list[str]:
    """`--latency -5ms` as one word: argparse takes `-5ms` for an option and misses a value."""
    found: list[str] = []
    for word in arguments:
        before = found[-1] if found else ""
        if _NEGATIVE.match(word) and before.startswith("--") and "=" not in before:
            found[-1] = f"{before}={word}"
        else:
            found.append(word)
    return found


def _place(rest: list[str], options: argparse.Namespace, parser: Parser) -> None:
    """Give OUT what stands after an option: argparse fills OUT together with IN or never."""
    if len(rest) == 1 and not rest[0].startswith("-") and getattr(options, "output", "") is None:
        options.output = rest.pop()
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")


def _parser() -> Parser:
    parser = Parser(
        prog="fewbits",
        description="Compress gradients and model updates.",
        epilog="'fewbits COMMAND --help' explains a command and shows an example.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"fewbits {fewbits.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for module in (
        train,
        compress,
        decompress,
        inspect,
        operators,
        plan,
        bounds,
        lab,
        report,
        bench,
        switch,
    ):
        module.register(commands)
    return parser


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        what = error.strerror[0].lower() + error.strerror[1:]
        return f"{error.filename}: {what}" if error.filename is not None else what
    if isinstance(error, MemoryError):
        return "not enough memory"
    return str(error)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Show the message of a warning, not the line of code that it came from."""
    say(f"warning: {message}")


def _abandon_stdout() -> None:
    """Drop what stdout's buffer holds and cannot write: Python would complain at its end."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
        return
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
