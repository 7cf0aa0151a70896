"""`fewbits report`: makes the page of a training result again from its JSON file."""

import argparse
from pathlib import Path

from fewbits.cli.console import Parser, print_json


def add_options(parser: Parser) -> None:
    parser.add_example("fewbits report run.json run.html")
    parser.add_argument("input", metavar="RESULT.json", help="a result of 'fewbits train --json'")
    parser.add_argument("output", metavar="OUT.html", help="the page to write")


def run(options: argparse.Namespace) -> None:
    from fewbits.report import write

    write(Path(options.input), Path(options.output))
    if options.json:
        print_json({"page": options.output})
    else:
        print(f"wrote {options.output}")
