"""A program of several commands: imports the one that is called, and turns errors into one line."""

import argparse
import contextlib
import os
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from io import TextIOWrapper

from fewbits.cli.console import Parser, say, speaking
from fewbits.errors import FewbitsError, SaturationWarning, SpecError
from fewbits.exits import BAD_INPUT, exit_code

_NEGATIVE = re.compile(r"-\.?\d")


@dataclass(frozen=True, slots=True)
class Program:
    """The text of `--help`, the commands' package, and a summary of each command by name.

    A command is a module with `add_options(parser)` and `run(options)`. The program has the name
    of its distribution.
    """

    name: str
    description: str
    package: str
    commands: Mapping[str, str]

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Run the command that `argv` names; returns 0, or an error's code after a line on it."""
        arguments = list(sys.argv[1:] if argv is None else argv)
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # a name need not fit the terminal
        with speaking(self.name), warnings.catch_warnings():
            warnings.simplefilter("always", SaturationWarning)
            warnings.showwarning = _show_warning
            try:
                code = self._run(arguments)
                if sys.stdout is not None:
                    sys.stdout.flush()
            except KeyboardInterrupt as error:
                return exit_code(error)
            except (FewbitsError, OSError, MemoryError) as error:
                if not isinstance(error, BrokenPipeError):
                    say(_message(error))
                _abandon_stdout()
                return exit_code(error)
        return code

    def _run(self, arguments: list[str]) -> int:
        parser = self.parser(arguments[0] if arguments else "")
        try:
            options, rest = parser.parse_known_args(_with_values(arguments))
            _place(rest, options, parser)
        except SystemExit as done:  # --help and --version
            return int(done.code or 0)
        if options.command is None:
            parser.print_help(sys.stderr)
            return BAD_INPUT
        options.run(options)
        return 0

    def parser(self, called: str) -> Parser:
        """A parser with the options of the command that is called; others have a line of help."""
        parser = Parser(
            prog=self.name,
            description=self.description,
            epilog=f"'{self.name} COMMAND --help' explains a command and shows an example.",
            allow_abbrev=False,
        )
        parser.add_argument("--version", action=_Version, nargs=0)
        commands = parser.add_subparsers(dest="command", metavar="COMMAND")
        for name, summary in self.commands.items():
            own = commands.add_parser(
                name,
                help=summary,
                description=f"{summary[0].upper()}{summary[1:]}.",
                formatter_class=argparse.RawDescriptionHelpFormatter,
                allow_abbrev=False,
            )
            if name == called:
                module = import_module(f"{self.package}.{name}")
                own.add_argument("--json", action="store_true", help="print the result as JSON")
                own.set_defaults(run=module.run)
                module.add_options(own)
        return parser


class _Version(argparse.Action):
    """`--version`, looked up only when it is asked for."""

    def __init__(self, **options: object) -> None:
        super().__init__(help="show the version and end", **options)  # type: ignore[arg-type]

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version  # slow to import

        print(f"{parser.prog} {version(parser.prog)}")
        parser.exit()


def _with_values(arguments: list[str]) -> list[str]:
    """Join `--latency -5ms` to one word, because argparse takes `-5ms` for an option."""
    found: list[str] = []
    for word in arguments:
        before = found[-1] if found else ""
        if _NEGATIVE.match(word) and before.startswith("--") and "=" not in before:
            found[-1] = f"{before}={word}"
        else:
            found.append(word)
    return found


def _place(rest: list[str], options: argparse.Namespace, parser: Parser) -> None:
    """Give OUT the word after an option, because argparse fills OUT together with IN or never."""
    if len(rest) == 1 and not rest[0].startswith("-") and getattr(options, "output", "") is None:
        options.output = rest.pop()
    if rest:
        command = " ".join(filter(None, (parser.prog, options.command)))
        raise SpecError(f"unrecognized arguments: {' '.join(rest)} (see '{command} --help')")


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        what = error.strerror[0].lower() + error.strerror[1:]
        return f"{error.filename}: {what}" if error.filename is not None else what
    if isinstance(error, MemoryError):
        return "not enough memory"
    return str(error)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    say(f"warning: {message}")


def _abandon_stdout() -> None:
    """Drop the bytes that stdout cannot write; Python would report an error when it ends."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
        return
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
