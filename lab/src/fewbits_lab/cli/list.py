"""`fewbits-lab list`: names and titles, of what is computed and of what is recorded."""

import argparse

from fewbits.cli.console import Parser, print_json, table
from fewbits_lab.index import EXPERIMENTS, RECORDED


def add_options(parser: Parser) -> None:
    parser.add_example("fewbits-lab list")


def run(options: argparse.Namespace) -> None:
    """Print names, titles and, of recorded results, the commands that made them."""
    found = [
        {
            "name": one.name,
            "kind": "computed",
            "title": one.title,
            "command": f"fewbits-lab run {one.name}",
        }
        for one in EXPERIMENTS
    ]
    found += [
        {"name": one.name, "kind": "recorded", "title": one.title, "command": one.command}
        for one in RECORDED
    ]
    if options.json:
        print_json(found)
        return
    rows = [(one["name"], one["kind"], one["title"]) for one in found]
    print(table(("name", "kind", "what it is"), rows))
