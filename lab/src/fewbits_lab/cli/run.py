"""`fewbits-lab run`: some studies computed anew."""

import argparse

from fewbits.cli.console import Parser
from fewbits_lab import index
from fewbits_lab.cli import studies


def add_options(parser: Parser) -> None:
    parser.add_example("fewbits-lab run nc-table1 oc-spherical --out results")
    parser.add_argument("names", nargs="+", metavar="NAME", help="see 'fewbits-lab list'")
    studies.add_options(parser, recorded="a folder of recorded results to show as well")


def run(options: argparse.Namespace) -> None:
    """Compute the named ones."""
    studies.run([index.find(name) for name in dict.fromkeys(options.names)], options)
