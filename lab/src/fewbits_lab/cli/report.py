"""`fewbits-lab report`: a page made anew from result files, without computing anything."""

import argparse
from pathlib import Path

from fewbits.cli.console import Parser, print_json
from fewbits.errors import SpecError
from fewbits_lab.page import folder


def add_options(parser: Parser) -> None:
    parser.add_example("fewbits-lab report results\n  fewbits-lab report page --recorded")
    parser.add_argument("folder", metavar="DIR", help="a folder of 'fewbits-lab run' or 'all'")
    parser.add_argument(
        "--recorded",
        action="store_true",
        help="first copy the laboratory's recorded results into the folder",
    )


def run(options: argparse.Namespace) -> None:
    """Write the page and say where it is."""
    results = Path(options.folder)
    if options.recorded:
        results.mkdir(parents=True, exist_ok=True)
        folder.take(results)
    if not results.is_dir():
        raise SpecError(f"{results}: there is no such folder")
    written = folder.build(results)
    if options.json:
        print_json({"page": str(written)})
    else:
        print(f"wrote {written}")
