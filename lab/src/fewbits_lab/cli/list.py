"""`fewbits-lab list`: names and titles."""

import argparse

from fewbits.cli.console import Parser, print_json, table
from fewbits_lab.index import EXPERIMENTS


def add_options(parser: Parser) -> None:
    parser.add_example("fewbits-lab list")


def run(options: argparse.Namespace) -> None:
    """Print names and titles."""
    found = [(experiment.name, experiment.title) for experiment in EXPERIMENTS]
    if options.json:
        print_json([{"name": name, "title": title} for name, title in found])
    else:
        print(table(("name", "what it is"), found))
