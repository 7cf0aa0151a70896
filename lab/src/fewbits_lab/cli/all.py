"""`fewbits-lab all`: every study computed anew, and one page with all of them."""

import argparse

from fewbits.cli.console import Parser
from fewbits_lab.cli import studies
from fewbits_lab.index import EXPERIMENTS


def add_options(parser: Parser) -> None:
    parser.add_example("fewbits-lab all --out results")
    studies.add_options(
        parser, recorded="a folder of recorded results to show (default: those of the laboratory)"
    )


def run(options: argparse.Namespace) -> None:
    """Compute all, and show what is recorded."""
    studies.run(list(EXPERIMENTS), options, shown=True)
